"""Rewards seen in part, where the truth is known: labels with a judge, and conversions that come late.

- ``router``: 2,000 requests of the MMLU routing data, one in ten sent to the large model, what "large for all" would
  earn. A judge calls right answers right in 90% (large: 95%) of cases and wrong ones wrong in 70% (large: 55%).
- ``mqm``: human scores of 13 translation systems on 529 segments, a real and very weak judge (agreement with the other
  systems, r = .09, and the number of words); what the best system would earn.
- ``judges``: simulated judges from perfect to useless to one that is wrong on purpose.
- ``delays``: conversions within a window of 168 hours, of rows up to 400 hours old.

Every replication draws one log, which all ways of reading it share.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.folder import append_line, claim, locate, read_lines, write_results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offpolicy_studies.arrays import Floats

SOURCES = "github.com/lm-sys/RouteLLM and github.com/google/wmt-mqm-human-evaluation"
ESTIMATORS = ("DML", "auto")
WINDOW = 168.0
QUICK = 5
LEAST = 0.1
REFUSED = "insufficient evidence"
MILLION = 1_000_000


@dataclass(frozen=True)
class Args:
    """Options of the study of labels."""

    data: Path | None = None
    """Folder with router/ and judge/ inside; default: the variable OFFPOLICY_DATA."""
    parts: tuple[str, ...] = ("router", "mqm", "judges", "delays")
    """Which parts to run."""
    replications: int = 500
    """Logs of each setting of the router's data."""
    others: int = 200
    """Logs of each setting of the other parts; of the router's, those that are also read in other ways."""
    quick: bool = False
    """Five logs of each setting."""
    out: Path = Path("results/labels")
    """Where results go; a run that was interrupted is taken up there."""


Ways = dict[str, tuple["op.BanditLog", float]]  # a log and the true value, by how the log is read


def router_world(share: float, folder: Path) -> tuple[Any, Callable[[int], Ways]]:
    """Requests to one of two models."""
    import pandas as pd

    data = pd.read_csv(folder / "router" / "router_mmlu.csv.gz")
    small, large = data.columns[-2:]
    columns = ["domain", "characters", "words", "digits"]
    truth = float(data[large].mean())

    def draw(seed: int) -> Ways:
        rng = np.random.default_rng(seed)
        rows = data.iloc[rng.choice(len(data), 2000, replace=False)].reset_index(drop=True)
        explored = rng.random(2000) < 0.1
        right = np.where(explored, rows[large], rows[small]).astype(float)
        agrees = np.where(right == 1, np.where(explored, 0.95, 0.9), np.where(explored, 0.55, 0.7))
        frame = rows[columns].assign(
            model=np.where(explored, "large", "small"),
            p=np.where(explored, 0.1, 0.9),
            right=right,
            judge=np.where(rng.random(2000) < agrees, right, 1 - right),
            label=np.where(rng.random(2000) < share, right, np.nan),
        )
        roles: Any = {"context": columns, "action": "model", "propensity": "p"}
        whole: Ways = {}
        if share == LEAST:  # they are the same at every share
            whole = {
                "all labels": (op.BanditLog.from_frame(frame, reward="right", **roles), truth),
                "judge as reward": (op.BanditLog.from_frame(frame, reward="judge", **roles), truth),
            }
        return {**whole, **_labels(frame, "label", ["judge"], share, roles, truth)}

    return op.policies.Fixed("large"), draw


def _labels(frame: Any, reward: str, judges: list[str], share: float, roles: Any, truth: float) -> Ways:
    ways = {
        "labels alone": op.Labeled(probability=share),
        "labels and judge": op.Labeled(proxies=judges, probability=share),
    }
    return {
        way: (op.BanditLog.from_frame(frame, reward=reward, outcome=outcome, **roles), truth)
        for way, outcome in ways.items()
    }


def mqm_world(share: float, folder: Path) -> tuple[Any, Callable[[int], Ways]]:
    """Segments translated by one of thirteen systems, half of them by the third best."""
    import pandas as pd

    data = pd.read_csv(folder / "judge" / "mqm_ende.csv.gz")
    wide = {
        c: data.pivot_table(index="segment", columns="system", values=c) for c in ("mqm", "agreement", "target_words")
    }
    columns = ["source_words", "source_characters", "source_commas"]
    context = data.drop_duplicates("segment").set_index("segment").loc[wide["mqm"].index, columns]
    order = wide["mqm"].mean().sort_values().index
    systems = list(wide["mqm"].columns)
    p = np.full(len(systems), 0.5 / len(systems))
    p[systems.index(order[-3])] += 0.5
    truth = float(wide["mqm"][order[-1]].mean())

    def draw(seed: int) -> Ways:
        rng = np.random.default_rng(seed)
        at, code = rng.integers(len(context), size=2000), rng.choice(len(systems), 2000, p=p)
        frame = context.iloc[at].reset_index(drop=True)
        frame = frame.assign(system=[systems[a] for a in code], p=p[code])
        frame = frame.assign(**{c: table.to_numpy()[at, code] for c, table in wide.items()})
        frame["label"] = np.where(rng.random(2000) < share, frame["mqm"], np.nan)
        roles = {"context": columns, "action": "system", "propensity": "p"}
        return _labels(frame, "label", ["agreement", "target_words"], share, roles, truth)

    return op.policies.Fixed(order[-1]), draw


def judge_world(share: float, _: Path) -> tuple[Any, Callable[[int], Ways]]:
    """Rewards of two values, logged by a policy that depends on the context."""
    far = np.random.default_rng(99).normal(size=(2, MILLION))
    truth = float(np.mean(_sigmoid(0.5 * far[0] + 0.5 + 0.5 * far[1])))

    def draw(seed: int) -> Ways:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(1500, 3))
        p = _sigmoid(x[:, 0])
        action = rng.binomial(1, p)
        r = rng.binomial(1, _sigmoid(0.5 * x[:, 0] + 0.5 * action + 0.5 * x[:, 1] * action)) * 1.0
        noise, other = rng.normal(size=(2, 1500))
        label = np.where(rng.random(1500) < share, r, np.nan)
        propensity = np.where(action == 1, p, 1 - p)
        judges = {
            "perfect judge": r,
            "noisy judge": r + noise,
            "useless judge": other,
            "adverse judge": -r - 2 * action + noise,
        }

        def log(reward: Any, outcome: Any = None) -> op.BanditLog:
            return op.BanditLog.from_arrays(x, action, reward, propensity, outcome=outcome)

        made = {
            "all labels": log(r),
            "labels alone": log(label, op.Labeled(probability=share)),
            "labels alone, e fitted": log(label, op.Labeled()),
        }
        made |= {k: log(label, op.Labeled(j, probability=share)) for k, j in judges.items()}
        return {way: (each, truth) for way, each in made.items()}

    return op.policies.Fixed(1), draw


def delay_world(kind: str, _: Path) -> tuple[Any, Callable[[int], Ways]]:
    """Conversions that come after an exponential or a heavy-tailed time, or later for one action."""
    share = {
        "exponential": 1 - np.exp(-WINDOW / 60),
        "heavy": 1 - (1 + WINDOW / 20) ** -0.8,
        "by action": 1 - np.exp(-WINDOW / 120),
    }[kind]
    far = np.random.default_rng(99).normal(size=MILLION)
    truth = float(share * np.mean(_sigmoid(-0.6 + 0.5 * far)))

    def draw(seed: int) -> Ways:
        rng = np.random.default_rng(seed)
        x, age = rng.normal(size=2000), rng.uniform(0, 400, 2000)
        p = _sigmoid(x)
        action = rng.binomial(1, p)
        times = {
            "exponential": rng.exponential(60, 2000),
            "heavy": 20 * rng.pareto(0.8, 2000),
            "by action": rng.exponential(np.where(action == 1, 120, 30)),
        }
        buys = rng.random(2000) < _sigmoid(-1 + 0.5 * x + 0.4 * action)
        time = np.where(buys, times[kind], np.inf)
        came = np.where(time <= age, time, np.nan)
        arrived = (came <= WINDOW) * 1.0
        propensity, old = np.where(action == 1, p, 1 - p), age >= WINDOW

        def log(reward: Any, at: Any = slice(None), outcome: Any = None) -> op.BanditLog:
            return op.BanditLog.from_arrays(x[at], action[at], reward[at], propensity[at], outcome=outcome)

        delayed = op.Delayed(came, age, WINDOW)
        made = {
            "all arrived": log((time <= WINDOW) * 1.0),
            "naive: not yet = 0": log(arrived),
            "old rows only": log(arrived, old),
            "Delayed": log(arrived, outcome=delayed),
        }
        return {way: (each, truth) for way, each in made.items()}

    return op.policies.Fixed(1), draw


def _sigmoid(x: Any) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


WORLDS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "router": (router_world, (LEAST, 0.25), "labels alone"),
    "mqm": (mqm_world, (0.2, 0.6), "labels alone"),
    "judges": (judge_world, (0.2,), "labels alone"),
    "delays": (delay_world, ("exponential", "heavy", "by action"), "old rows only"),
}


def reproduce(args: Args) -> dict[str, Any]:
    """Run what is missing, and sum up."""
    n = QUICK if args.quick else args.replications
    logs = {part: n if part == "router" else min(n, args.others) for part in WORLDS}
    folder = Path()
    if {"router", "mqm"} & set(args.parts):
        folder = locate(args.data, ["data"], ["router", "judge"], SOURCES)
    claim(args.out / "request.json", {"study": "labels"})
    lines = args.out / "logs.jsonl"
    done = {(r["part"], r["setting"], r["seed"]) for r in read_lines(lines)}
    for part in args.parts:
        world, settings, _ = WORLDS[part]
        for setting in settings:
            missing = [s for s in range(logs[part]) if (part, str(setting), s) not in done]
            if not missing:
                continue
            policy, draw = world(setting, folder)
            for seed in missing:
                every = seed < args.others
                drawn = {w: each for w, each in draw(seed).items() if every or w.startswith("labels")}
                ways = {w: list(_read(log, policy, t)) for w, (log, t) in drawn.items()}
                append_line(lines, {"part": part, "setting": str(setting), "seed": seed, "ways": ways})
    rows = [r for r in read_lines(lines) if r["part"] in args.parts and r["seed"] < logs[r["part"]]]
    result = {"replications": n, "table": list(_table(rows))}
    write_results(args.out, result, show(result))
    return result


def _read(log: op.BanditLog, policy: Any, truth: float) -> Iterator[dict[str, Any]]:
    ev = op.evaluate(log, {"policy": policy}, estimators=list(ESTIMATORS))
    level = ev.verdict("policy").level
    for name in ESTIMATORS:
        e = ev[name]
        interval = e.interval(0.95)
        yield {
            "estimator": name,
            "error": e.value - truth,
            "std_error": e.std_error,
            "covers": bool(interval.low <= truth <= interval.high),
            "normal_covers": bool(abs(e.value - truth) <= 1.96 * e.std_error),
            "answered": bool(interval.sufficient) and level != REFUSED,
        }


def _table(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    keys = dict.fromkeys((r["part"], r["setting"]) for r in rows)
    for part, setting in keys:
        own = [r["ways"] for r in rows if (r["part"], r["setting"]) == (part, setting)]
        beside = WORLDS[part][2]
        for i, estimator in enumerate(ESTIMATORS):
            for way in own[0]:
                each = [ways[way][i] for ways in own if way in ways]
                base = _rmse([ways[beside][i] for ways in own if way in ways])
                answered = [e for e in each if e["answered"]]
                yield {
                    "part": part,
                    "setting": setting,
                    "estimator": estimator,
                    "way": way,
                    "rmse": _rmse(each),
                    "ratio": _rmse(each) / base,
                    "bias": float(np.mean([e["error"] for e in each])),
                    "coverage": float(np.mean([e["covers"] for e in answered])) if answered else float("nan"),
                    "normal_coverage": float(np.mean([e["normal_covers"] for e in each])),
                    "answered": len(answered) / len(each),
                    "logs": len(each),
                }


def _rmse(each: list[dict[str, Any]]) -> float:
    return float(np.sqrt(np.mean([e["error"] ** 2 for e in each])))


def show(result: dict[str, Any]) -> str:
    """The table; ``ratio`` is the RMSE beside that of labels alone (of old rows only)."""
    names = ("part", "setting", "estimator", "way", "RMSE", "ratio", "bias", "coverage", "normal interval", "answered")
    head = [f"| {' | '.join((*names, 'logs'))} |", "|---" * (len(names) + 1) + "|"]
    return "\n".join([*head, *map(_line, result["table"])])


def _line(r: dict[str, Any]) -> str:
    covered = "–" if r["coverage"] is None or np.isnan(r["coverage"]) else f"{r['coverage']:.1%}"
    return (
        f"| {r['part']} | {r['setting']} | {r['estimator']} | {r['way']} | {r['rmse']:.4f} | {r['ratio']:.3f} | "
        f"{r['bias']:+.4f} | {covered} | {r['normal_coverage']:.1%} | {r['answered']:.0%} | {r['logs']} |"
    )
