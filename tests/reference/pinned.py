"""Small logs of every kind and every number the library gives for them: estimates, intervals, checks, verdicts, gates.

``python tests/reference/pinned.py`` writes the answers to ``fixtures/pinned`` and prints what moved. Whoever changes
a number on purpose runs it and reads the difference; whoever did not mean to is told by ``test_pinned.py``.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression

import offpolicy as op

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parent / "fixtures" / "pinned"
METHODS = (
    "auto", "normal", "t", "bootstrap", "bca", "empirical-likelihood", "cautious-likelihood", "cressie-read",
    "clopper-pearson", "bernstein", "hoeffding", "anytime", "batch-pooled", "adaptive", "delta", "fieller", "log-scale",
)  # fmt: skip
BARS = ("value > 0.2", "lift > 0", "lift > -20%", "value < 0.9")
#: Of a row of estimates: what is a number or a name, and no sentence.
ESTIMATE = (
    "policy", "estimator", "value", "std_error", "low", "high", "method", "n", "difference", "difference_std_error",
    "difference_low", "difference_high", "lift", "lift_low", "lift_high",
)  # fmt: skip


def said(task: Callable[[], Any]) -> Any:
    """The answer, or the kind of error that the library raises instead."""
    try:
        return task()
    except op.errors.OffPolicyError as error:
        return type(error).__name__


def ends(interval: Any) -> list[Any]:
    return [interval.low, interval.high, interval.method, interval.sufficient]


def about(e: Any, methods: tuple[str, ...] = METHODS, **options: Any) -> dict[str, Any]:
    """Every number that an estimate answers with."""
    ways = {
        f"{method} {level}": said(lambda m=method, v=level: ends(e.interval(v, m, **options)))
        for method in methods
        for level in ((0.9, 0.99) if method == "auto" else (0.9,))
    }
    return {
        "value": e.value, "error": e.std_error, "n": [e.n, e.n_independent],
        "p": [said(lambda a=a: e.p_value(0.01, alternative=a)) for a in ("two-sided", "greater", "less")],
        "ways": ways,
    }  # fmt: skip


def compared(c: Any) -> dict[str, Any]:
    """Every number of a comparison."""
    return {
        "values": {name: ends(interval) for name, interval in c.values.items()},
        "differences": {name: ends(interval) for name, interval in c.differences.items()},
        "p": c.p_values, "best": [c.best.leader, sorted(c.best.names)],
    }  # fmt: skip


def gated(ev: Any, bar: str) -> list[Any]:
    result = ev.gate(bar)
    return [result.passed, result.exit_code]


def everything(ev: Any, bars: tuple[str, ...] = BARS, headline: str | None = None) -> dict[str, Any]:
    """All numbers of a result, and what its checks, verdicts and gates decide."""
    result = json.loads(ev.to_json())
    name = headline or result["headline"]
    answer: dict[str, Any] = {
        "headline": name,
        "logged": [ev.logged.value, ev.logged.std_error],
        "estimates": [{k: row.get(k) for k in ESTIMATE} for row in result["estimates"]],
        "checks": {
            f"{check['policy'] or 'log'}: {c['name']}": [c["value"], c["level"]]
            for check in result["diagnostics"]
            for c in check["statistics"]
        },
        "compared": [said(lambda v=level: compared(ev.compare(v))) for level in (0.9, 0.95)],
    }
    for policy in ev.policies:
        e = ev[policy, name]
        answer[policy] = {
            "verdict": said(lambda p=policy: [ev.verdict(p).level, [f.name for f in ev.verdict(p).findings]]),
            "estimate": about(e),
            "difference": said(lambda e=e: about(e - ev.logged)),
            "lift": said(lambda e=e: about(e.lift(ev.logged))),
        }
    for bar in [f"{p} {bar}" for p in ev.policies for bar in bars] if bars is BARS else bars:
        answer[f"gate {bar}"] = said(lambda bar=bar: gated(ev, bar))
    return answer


# -- logs --------------------------------------------------------------------------------------------------


def softmax(logits: Any) -> Any:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def drawn(rng: Any, p: Any) -> Any:
    return (p.cumsum(axis=1) < rng.random(len(p))[:, None]).sum(axis=1)


def bandit(*arguments: Any, **options: Any) -> Any:
    return op.BanditLog.from_arrays(**parts(*arguments, **options))


def parts(
    seed: int, n: int = 400, k: int = 3, sharp: float = 0.7, reward: str = "binary", **options: Any
) -> dict[str, Any]:
    """A log with contexts of two numbers and a logging policy that prefers by them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)).round(3)
    pi_b = softmax(sharp * np.outer(x[:, 0], np.arange(k) - 1))
    a = drawn(rng, pi_b)
    p = pi_b[np.arange(n), a]
    mean = 0.2 + 0.15 * a + 0.1 * (x[:, 1] > 0)
    r = {
        "binary": lambda: (rng.random(n) < mean) * 1.0,
        "rare": lambda: (rng.random(n) < 0.02 * (1 + a)) * 1.0,
        "normal": lambda: (mean + 0.5 * rng.normal(size=n)).round(4),
        "spend": lambda: ((rng.random(n) < 0.1) * rng.pareto(1.6, size=n)).round(4),
        "losses": lambda: np.where(rng.random(n) < 0.02, -20.0, 1.0),
        "constant": lambda: np.full(n, 0.1),
        "none": lambda: np.zeros(n),
    }[reward]()
    made = {key: make(rng, n) if callable(make) else make for key, make in options.items()}
    return {"context": x, "action": a, "reward": r, "propensity": p, **made}


def tilted(x: Any) -> Any:
    return softmax(np.outer(1.2 * np.asarray(x)[:, 1], np.arange(3) - 1))


POLICIES = {"second": op.policies.Fixed(1), "tilted": tilted}


def of(log: Any, policies: Any = None, **options: Any) -> dict[str, Any]:
    bars = options.pop("bars", BARS)
    return everything(op.evaluate(log, policies or POLICIES, **{"reward_model": LinearRegression(), **options}), bars)


def permuted(seed: int) -> Any:
    log = parts(seed, n=600, sharp=1.5)
    return op.BanditLog.from_arrays(**{**log, "propensity": np.random.default_rng(1).permutation(log["propensity"])})


def twice(seed: int) -> Any:
    return op.BanditLog.from_arrays(**{name: np.concatenate([v, v[:90]]) for name, v in parts(seed, n=300).items()})


def learning(seed: int) -> Any:
    """Batches of a logging policy that learns."""
    rng = np.random.default_rng(seed)
    batch = np.repeat(np.arange(6), 80)
    pi_b = softmax(np.outer(0.4 * batch, [0.0, 0.5, 1.0]))
    a = drawn(rng, pi_b)
    r = (rng.random(480) < 0.2 + 0.1 * a) * 1.0
    p = pi_b[np.arange(480), a]
    return op.BanditLog.from_arrays(rng.normal(size=(480, 2)).round(3), a, r, p, batch=batch)


def texts(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    n = 500
    frame = pd.DataFrame({"age": rng.integers(18, 70, n), "device": rng.choice(["phone", "desk", "tv"], n)})
    p = np.where(frame.device == "phone", 0.7, 0.3)
    frame["ad"] = np.where(rng.random(n) < p, "b", "a")
    frame["click"] = (rng.random(n) < 0.2 + 0.2 * (frame.ad == "b") + 0.003 * (frame.age - 18)) * 1
    frame["cost"] = rng.gamma(2, 0.5, n).round(3) * (1 + (frame.ad == "b"))
    frame["p"] = np.where(frame.ad == "b", p, 1 - p)
    return frame


TEXT_ROLES = {"context": ["age", "device"], "action": "ad", "reward": "click"}


def estimated() -> dict[str, Any]:
    log = op.BanditLog.from_frame(texts(11), **TEXT_ROLES)
    return of(log, {"b": "always:b"}, behavior_model=LogisticRegression(C=10.0))


def metrics() -> dict[str, Any]:
    log = op.BanditLog.from_frame(texts(12), **{**TEXT_ROLES, "reward": ["click", "cost"]}, propensity="p")
    bars = ("b click lift > 0 and b cost lift < 50%", "a cost value < 3", "b click lift > 0", "a cost value > 3")
    return of(log, {"a": "always:a", "b": "always:b"}, minimize=["cost"], bars=bars)


def prices() -> dict[str, Any]:
    rng = np.random.default_rng(13)
    x = rng.normal(size=400).round(3)
    price = (5 + 0.5 * x + rng.normal(size=400)).round(4)
    density = np.exp(-0.5 * (price - 5 - 0.5 * x) ** 2) / math.sqrt(2 * math.pi)
    bought = (rng.random(400) < 1 / (1 + np.exp(price - 5))) * price
    log = op.BanditLog.from_arrays(x, price, bought, density, action_kind="continuous")
    return of(log, {"five": lambda c: np.full(len(c), 5.0)}, ratio=op.KernelRatio(bandwidth=0.8))


def cells() -> dict[str, Any]:
    rng = np.random.default_rng(14)
    genre = np.arange(12) % 3
    a = rng.integers(12, size=500)
    r = (0.3 * genre[a] + 0.3 * rng.normal(size=500)).round(4)
    log = op.BanditLog.from_arrays(
        rng.normal(size=500).round(3), a, r, np.full((500, 12), 1 / 12), actions=range(12), action_features=genre
    )
    return of(log, {"third": op.policies.Fixed(2)}, ratio=op.CoarseRatio(), estimators=["IPW", "DML"])


def slates() -> dict[str, Any]:
    rng = np.random.default_rng(15)
    n, slots = 150, 3
    order = np.array([rng.permutation(4)[:slots] for _ in range(n)])
    click = (rng.random((n, slots)) < 0.2 + 0.1 * order) * 1
    rows = {"s": np.repeat(np.arange(n), slots), "k": np.tile(np.arange(slots), n), "item": order.ravel(),
            "x": np.repeat(rng.normal(size=n).round(3), slots), "r": click.ravel(),
            "p": np.tile([1 / 4, 1 / 3, 1 / 2], n)}  # fmt: skip
    log = op.Slates.from_frame(
        pd.DataFrame(rows), slate="s", position="k", context=["x"], action="item", reward="r", propensity="p"
    )
    ranked = op.policies.PlackettLuce(lambda x: np.tile([0.0, 0.2, 0.4, 0.8], (len(x), 1)))
    return of(log, {"ranked": ranked}, reward_model=None, estimators=["IPW", "SNIPW", "DML"])


def walked(seed: int) -> list[list[tuple[int, int, float, float]]]:
    """Episodes on five states, left or right, with a reward at the right end: (state, action, reward, propensity)."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(200):
        s, path = 2, []
        for _ in range(6):
            p = 0.4 + 0.1 * (s > 2)
            a = int(rng.random() < p)
            after = min(max(s + 2 * a - 1, 0), 4)
            path.append((s, a, float(after == 4), p if a else 1 - p))
            s = after
        found.append(path)
    return found


def walk(seed: int, *, known: bool) -> Any:
    states, actions, rewards, chances = ([[step[j] for step in path] for path in walked(seed)] for j in range(4))
    return op.Trajectories.from_arrays(states, actions, rewards, propensities=chances if known else None)


def to_the_right(states: Any) -> Any:
    return np.tile([0.4, 0.6], (len(states), 1))


def weighted_walk() -> Any:
    """The same as a table, episodes in clusters of four and with weights."""
    steps = [(e, t, *step) for e, path in enumerate(walked(37)) for t, step in enumerate(path)]
    rows = pd.DataFrame(steps, columns=["e", "t", "s", "a", "r", "p"])
    rows = rows.assign(w=1.0 + rows.e % 3, user=rows.e // 4)
    roles = {"episode": "e", "step": "t", "state": "s", "action": "a", "reward": "r", "propensity": "p"}
    return op.Trajectories.from_frame(rows, **roles, weight="w", cluster="user")


def episodes_of(log: Any) -> dict[str, Any]:
    names = ["IPW", "SNIPW", "DML", "WDR", "MAGIC", "DRL", "auto"]
    return of(log, {"right": to_the_right}, reward_model=None, value_model=op.Tabular(), estimators=names)


def episodes(*, known: bool, **options: Any) -> dict[str, Any]:
    log = walk(16 if known else 17, known=known)
    return of(log, {"right": to_the_right}, reward_model=None, value_model=op.Tabular(), **options)


def known_range() -> dict[str, Any]:
    """Methods that hold for any sample, given the largest reward and weight."""
    ev = op.evaluate(
        bandit(22, reward="binary"), POLICIES, estimators=["IPW", "SNIPW", "DML"], reward_model=LinearRegression()
    )
    limits = {"reward_range": (0.0, 1.0), "weight_high": 12.0}
    found = {f"{p} {e}": about(ev[p, e], **limits) for p in ev.policies for e in ("IPW", "DML")}
    found["between"] = about(ev["tilted", "DML"] - ev["second", "DML"], **limits)
    found["twice"] = about(ev["tilted", "DML"] * 2 - ev["second", "DML"])
    found["lift between"] = about(ev["tilted", "IPW"].lift(ev["second", "IPW"]))
    return found


def many() -> dict[str, Any]:
    arms = {f"p{j}": (lambda x, j=j: softmax(np.outer(0.2 * j * np.asarray(x)[:, 1], [0, 1, 2]))) for j in range(8)}
    ev = op.evaluate(bandit(23, n=800), arms, estimators=["SNIPW"])
    bars = ("p7 - p0 > 0", "p7 lift > 0", "p3 > 0.2", "p7 > p1", "value > 0.2")
    return {
        "compared": [compared(ev.compare(level)) for level in (0.8, 0.95)],
        "gates": [said(lambda b=b: gated(ev, b)) for b in bars],
    }


def streamed(**options: Any) -> dict[str, Any]:
    frame = texts(24)
    frame["user"], frame["day"] = np.arange(len(frame)) // 3, np.arange(len(frame)) // 100
    roles = {**TEXT_ROLES, "propensity": "p", "cluster": "user", "batch": "day"}
    with op.scan(frame, **roles, way="stream", chunk_rows=120) as log:
        return of(log, {"b": "always:b"}, estimators=["IPW", "SNIPW", "DML"], **options)


def leaked() -> Any:
    log = parts(25, reward="normal")
    rng = np.random.default_rng(0)
    near = log["reward"] + 0.02 * rng.normal(size=400)
    return op.BanditLog.from_arrays(**{**log, "context": np.column_stack([log["context"], near])})


def rounded() -> Any:
    log = parts(26, sharp=1.2)
    return op.BanditLog.from_arrays(**{**log, "propensity": log["propensity"].round(1).clip(0.1)})


def drifting() -> Any:
    rng = np.random.default_rng(27)
    batch = np.repeat(np.arange(8), 60)
    a = rng.integers(3, size=480)
    r = (rng.random(480) < 0.15 + 0.1 * a + 0.05 * batch * (batch < 7)) * 1.0
    return op.BanditLog.from_arrays(rng.normal(size=(480, 2)).round(3), a, r, np.full(480, 1 / 3), batch=batch)


def ids() -> dict[str, Any]:
    frame = texts(28)
    frame["session"] = [f"s{i % 180}" for i in range(len(frame))]
    roles = {**TEXT_ROLES, "context": ["age", "device", "session"], "propensity": "p"}
    return of(
        op.BanditLog.from_frame(frame, **roles), {"b": "always:b"}, reward_model=None, estimators=["IPW", "SNIPW"]
    )


def open_actions() -> Any:
    log = parts(29)
    open_to = [sorted({int(a), (int(a) + 1) % 3}) for a in log["action"]]
    return op.BanditLog.from_arrays(**{**log, "propensity": np.full(400, 0.5)}, eligible=open_to)


def large(kind: str) -> Any:
    rng = np.random.default_rng(33)
    if kind == "heavy":
        return op.Estimate.from_scores(rng.lognormal(0, 1.5, 30_000).round(4))
    if kind == "counts":
        return op.Estimate.from_scores((rng.random(20_000) < 0.003) * 1.0)
    if kind == "gains and losses":
        return op.Estimate.from_scores((rng.standard_t(3, 12_000)).round(4))
    return op.Estimate.from_scores(rng.normal(size=25).round(3))


def samples() -> dict[str, Any]:
    """Estimates of nothing but scores, and sums of them."""
    kinds = {kind: large(kind) for kind in ("heavy", "counts", "gains and losses", "few")}
    found = {kind: about(e, reward_range=(0.0, 1.0) if kind == "counts" else None) for kind, e in kinds.items()}
    ev = op.evaluate(bandit(35), POLICIES, estimators=["IPW", "SNIPW"])
    a, b = ev["tilted", "IPW"], ev["second", "IPW"]
    sums = {"2a - b": 2 * a - b, "a + b": a + b, "-a": -a, "a/2 - logged": a / 2 - ev.logged, "-a - 2b": -a - 2 * b}
    return found | {name: said(lambda e=e: about(e, ("auto", "normal", "t"))) for name, e in sums.items()}


def rules() -> dict[str, Any]:
    """The pure functions of intervals, on shapes that logs seldom have."""
    from offpolicy.inference import intervals as ci
    from offpolicy.inference.family import largest_t

    rng = np.random.default_rng(36)
    shapes = {
        "plain": ci.Sample(rng.normal(size=40).round(3), np.ones(40)),
        "counted": ci.Sample(np.array([0.0, 1.0, 5.0]), np.ones(3), np.array([90.0, 9.0, 3.0])),
        "ratio": ci.Sample(rng.gamma(2, size=60).round(3), rng.gamma(3, size=60).round(3)),
        "spike": ci.Sample(np.append(np.zeros(99), 30.0), np.ones(100)),
        "constant": ci.Sample(np.full(20, 0.3), np.ones(20)),
        "many": ci.Sample(rng.gamma(0.5, size=9_000).round(4), np.ones(9_000)),
    }
    made: dict[str, Any] = {}
    for name, s in shapes.items():
        ways = {"normal": ci.normal, "student": ci.student, "bootstrap": ci.bootstrap, "bca": ci.bca,
                "likelihood": ci.empirical_likelihood, "cautious": ci.cautious_likelihood}  # fmt: skip
        for way, rule in ways.items():
            for level in (0.8, 0.95):
                made[f"{name} {way} {level}"] = said(lambda r=rule, s=s, v=level: ends(r(s, v)))
        made[f"{name} figures"] = [
            s.estimate, s.std_error, said(lambda s=s: ci.acceleration(s)), said(lambda s=s: ci.lumpiness(s))
        ]  # fmt: skip
    w, r = rng.gamma(1.5, 2 / 3, 80).round(3), (rng.random(80) < 0.3) * 1.0
    limits = {"reward_low": 0.0, "reward_high": 1.0}
    for high in (None, 12.0):
        made[f"sequence {high}"] = said(lambda h=high: ends(ci.confidence_sequence(w, r, **limits, weight_high=h)))
    made["cressie"] = said(lambda: ends(ci.cressie_read(w, r, **limits, weight_high=12.0)))
    made["clopper"] = [said(lambda k=k: ends(ci.clopper_pearson((np.arange(50) < k) * 1.0))) for k in (0, 1, 20, 50)]
    pairs = [ci.Pair(0.12, 0.1, 1e-4, 2e-4, 5e-5), ci.Pair(0.5, 0.1, 1e-4, 0.01), ci.Pair(-0.3, 0.2, 1e-3, 1e-3)]
    made["pairs"] = [
        said(lambda f=f, p=p: ends(f(p, 0.9))) for p in pairs for f in (ci.delta, ci.fieller, ci.log_scale)
    ]
    factor = float(np.quantile(largest_t(np.diag([0.01, 0.04])), 0.95))
    made["together"] = [[m - factor * e, m + factor * e, "max-t", True] for m, e in ((0.1, 0.1), (0.4, 0.2))]
    made["sizes"] = [ci.effective_size(w), ci.tail_index(rng.pareto(1.2, 500) + 1), *ci.generalized_pareto(w + 0.1)]
    made["trial"] = [
        said(lambda d=d: str(ci.trial_for_means(d, 0.16, 0.2, treatment_share=0.3))) for d in (0.01, -0.05)
    ]
    b = ci.summarize(rng.normal(size=90), np.repeat([0, 1, 2], 30))
    made["batches"] = [ends(f(b).interval(0.9)) for f in (ci.pooled, ci.stabilized)]
    return made


def declared(**options: Any) -> dict[str, Any]:
    log = op.BanditLog.from_frame(texts(30), **TEXT_ROLES)
    return of(log, {"b": "always:b"}, behavior_model=LogisticRegression(C=10.0), **options)


#: Name: what is said of one log.
WORLDS: dict[str, Callable[[], dict[str, Any]]] = {
    "clicks": lambda: of(bandit(1), repeats=2),
    "rare clicks": lambda: of(bandit(2, reward="rare")),
    "normal rewards, few rows": lambda: of(bandit(3, n=60, reward="normal")),
    "spend, heavy tails": lambda: of(bandit(4, n=600, sharp=2.0, reward="spend")),
    "rare losses": lambda: of(bandit(5, reward="losses", sharp=2.0)),
    "costs": lambda: of(bandit(6, reward="normal"), minimize=True),
    "clusters and weights": lambda: of(
        bandit(7, cluster=lambda rng, n: np.arange(n) // 8, weight=lambda rng, n: 1.0 + np.arange(n) % 3)
    ),
    "a logging policy that learns": lambda: of(learning(8)),
    "propensities of a model": estimated,
    "propensities permuted": lambda: of(permuted(9)),
    "rows twice": lambda: of(twice(10)),
    "a known range": known_range,
    "scores and sums": samples,
    "rules of intervals": rules,
    "eight policies": many,
    "streamed": streamed,
    "a leak": lambda: of(leaked()),
    "rounded propensities": lambda: of(rounded()),
    "a drift": lambda: of(drifting()),
    "ids among the columns": ids,
    "actions not open to all": lambda: of(open_actions(), {"any": "uniform"}),
    "declared random": lambda: declared(randomized=True),
    "confounding up to a factor": lambda: declared(gamma=1.5),
    "five folds, averaged": lambda: of(bandit(31, reward="normal"), folds=5, repeats=3),
    "few clusters": lambda: of(bandit(32, cluster=lambda rng, n: np.arange(n) // 30)),
    "every reward the same": lambda: of(bandit(18, reward="constant")),
    "no reward at all": lambda: of(bandit(19, n=200, reward="none")),
    "an action never logged": lambda: of(
        bandit(20, actions=range(4)), {"new": op.policies.Fixed(3), "old": op.policies.Fixed(0)}
    ),
    "every estimator": lambda: of(
        bandit(21, n=250),
        estimators=["DM", "IPW", "SNIPW", "DR-full", "DR-half", "DML", "SNDR", "SWITCH", "DRos", "MRDR", "auto"],
    ),
    "two metrics": metrics,
    "prices": prices,
    "cells of actions": cells,
    "slates": slates,
    "episodes": lambda: episodes(known=True, estimators=["DM", "IPW", "SNIPW", "DML", "WDR", "MAGIC", "DRL"]),
    "episodes, propensities estimated": lambda: episodes(known=False, behavior_model="shares"),
    "episodes, weighted": lambda: episodes_of(weighted_walk()),
    "episodes, discounted": lambda: episodes(known=True, discount=0.9, estimators=["DML", "IPW"]),
}


def plain(value: Any) -> Any:
    """As JSON holds it, numbers to ten digits."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, bool | np.bool_) or value is None:
        return None if value is None else bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.10g}") if math.isfinite(value) else str(float(value))
    return str(value)


def answer(name: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(WORLDS[name]())


def path_of(name: str) -> Path:
    return FOLDER / f"{name.replace(',', '').replace(' ', '-')}.json"


def moved(old: Any, new: Any, at: str = "", relative: float = 1e-6) -> list[str]:
    """Where two answers differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys([*old, *new])
        return [m for k in keys for m in moved(old.get(k), new.get(k), f"{at}/{k}", relative)]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [m for i, pair in enumerate(zip(old, new, strict=True)) for m in moved(*pair, f"{at}/{i}", relative)]
    if isinstance(old, float | int) and isinstance(new, float | int):
        close = math.isclose(old, new, rel_tol=relative, abs_tol=1e-9)
        return [] if close else [f"{at}: {old} → {new}"]
    return [] if old == new else [f"{at}: {old!r:.300} → {new!r:.300}"]


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or WORLDS:
        new, path = answer(name), path_of(name)
        old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for line in moved(old, new)[:40]:
            print(f"{name}{line}"[:200])
        path.write_text(json.dumps(new, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
