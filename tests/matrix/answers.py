"""What an evaluation says, as plain values, and where two of them differ."""

from __future__ import annotations

import json
import math
import re
from numbers import Real
from typing import TYPE_CHECKING, Any

from matrix import worlds

import offpolicy as op

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matrix.paths import Engines
    from matrix.worlds import World

EXACT = 1e-9
ESTIMATORS = (
    "auto", "DM", "IPW", "SNIPW", "DR-full", "DR-half", "DML", "SNDR", "SNDR-full", "SWITCH", "DRos",
    "MRDR", "MinVar",
)  # fmt: skip
# Estimates that get every interval; the others get two.
DEEP = ("auto", "DML", "SNIPW", "IPW", "DR-half")
BOUNDED = ("bernstein", "hoeffding", "cressie-read", "clopper-pearson", "anytime")
METHODS = (
    "auto", "normal", "t", "empirical-likelihood", "cautious-likelihood", *BOUNDED, "batch-pooled",
    "adaptive",
)  # fmt: skip
RESAMPLED = ("bootstrap", "bca")
RATIOS = ("auto", "normal", "delta", "fieller", "log-scale")
# What may differ between paths: who read the rows, from where, when, and how many it held at once.
PROVENANCE = {
    "engine", "way", "path", "source", "file", "files", "command", "time", "seconds", "created", "started",
    "finished", "duration", "held", "blocks", "origin",
}  # fmt: skip


class Answers:
    """Evaluations by path, world and settings, each made once."""

    def __init__(self, engines: Engines) -> None:
        self.engines = engines
        self._kept: dict[Any, Any] = {}

    def log(self, route: str, world: str, *, id: bool = True, **options: Any) -> Any:  # noqa: A002
        """The world's rows as a log."""
        key = ("log", route, world, id, repr(options))
        made = worlds.world(world)
        return self._keep(key, lambda: self.engines.open(route, made, id=id, **options))

    def evaluation(self, route: str, world: str, *, id: bool = True, **settings: Any) -> Any:  # noqa: A002
        """`evaluate` with the linear model and every estimator, unless told otherwise."""
        made = worlds.world(world)
        key = ("evaluation", route, world, id, repr(sorted(settings.items(), key=str)))
        asked: dict[str, Any] = {"estimators": ESTIMATORS, "reward_model": worlds.linear()}
        asked |= made.settings | settings
        policies = asked.pop("policies", made.policies)
        return self._keep(key, lambda: op.evaluate(self.log(route, world, id=id), policies, **asked))

    def say(self, what: str, route: str, world: str, *, id: bool = True, **settings: Any) -> Any:  # noqa: A002
        """One aspect of an evaluation as plain values."""
        made = worlds.world(world)
        key = (what, route, world, id, repr(sorted(settings.items(), key=str)))
        return self._keep(key, lambda: ASPECTS[what](self.evaluation(route, world, id=id, **settings), made))

    def _keep(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            try:
                self._kept[key] = (make(), None)
            except Exception as error:  # noqa: BLE001 (raised again, by every test that asks)
                self._kept[key] = (None, error)
        value, error = self._kept[key]
        if error is not None:
            raise error
        return value


def outcome(make: Callable[[], Any]) -> Any:
    """What a call gives, or the kind of error it raises: refusing is an answer as well."""
    try:
        return make()
    except (op.errors.OffPolicyError, KeyError) as error:
        return f"raises {type(error).__name__}"


def interval(estimate: Any, method: str, **ranges: Any) -> Any:
    """An interval with all that it says."""

    def make() -> dict[str, Any]:
        found = estimate.interval(0.95, method=method, **ranges)
        return {
            "low": found.low,
            "high": found.high,
            "method": found.method,
            "sufficient": found.sufficient,
            "note": found.note,
        }

    return outcome(make)


def values(ev: Any, world: World) -> Any:
    """Value, standard error, n and notes of every estimate."""
    table = {**ev.estimates, ("logged", "mean"): ev.logged}
    return {
        key: {"value": e.value, "std_error": e.std_error, "n": e.n, "notes": list(e.notes)} for key, e in table.items()
    }


def intervals(ev: Any, world: World) -> Any:
    """Intervals of every estimate: of some by every method."""
    out = {}
    for key, e in {**ev.estimates, ("logged", "DML"): ev.logged}.items():
        for method in METHODS if key[1] in DEEP else ("auto", "normal"):
            ranges = world.ranges if method in BOUNDED and method != "clopper-pearson" else {}
            out[(*key, method)] = interval(e, method, **ranges)
    return out


def contrasts(ev: Any, world: World) -> Any:
    """Differences and lifts to the logged value and between policies, with intervals."""
    out: dict[Any, Any] = {}
    first, second = ev.policies[:2]
    for (policy, name), e in ev.estimates.items():
        pairs = {"− logged": lambda e=e: e - ev.logged, "lift": lambda e=e: e.lift(ev.logged)}
        if policy == first:
            pairs["− other"] = lambda e=e, name=name: e - ev[second, name]
        for what, make in pairs.items():
            out[policy, name, what] = outcome(lambda make=make, name=name: _contrast(make(), name))
    return out


def _contrast(e: Any, name: str) -> dict[str, Any]:
    methods = RATIOS if name in {"auto", "DML", "SNIPW"} else ("auto",)
    numbers = {"value": e.value, "std_error": e.std_error, "n": e.n, "p": outcome(e.p_value)}
    return {**numbers, **{f"interval {m}": interval(e, m) for m in methods}}


def resampled(ev: Any, world: World) -> Any:
    """Bootstrap intervals, whose draws must not depend on the path either."""
    out: dict[Any, Any] = {}
    policy = ev.policies[0]
    for name in ("DML", "SNIPW", "DR-half"):
        e = ev[policy, name]
        out |= {(name, method): interval(e, method) for method in RESAMPLED}
    e = ev[policy, "DML"]
    out["difference"] = interval(e - ev.logged, "bca")
    out["lift"] = outcome(lambda: interval(e.lift(ev.logged), "bca"))
    return out


def comparison(ev: Any, world: World) -> Any:
    """`ev.compare()`, in words and numbers."""

    def make() -> dict[str, Any]:
        found = ev.compare()
        ends = {
            f"{what} {name}": [i.low, i.high]
            for what in ("values", "differences")
            for name, i in getattr(found, what).items()
        }
        return {**ends, "p": dict(found.p_values), "said": str(found)}

    return outcome(make)


def verdicts(ev: Any, world: World) -> Any:
    """Level and reasons for every policy, by the headline and by one estimator."""
    out = {}
    for policy in ev.policies:
        for estimator in (None, "DML", "DM"):

            def make(policy: str = policy, estimator: str | None = estimator) -> dict[str, Any]:
                found = ev.verdict(policy, estimator)
                return {"level": found.level, "reasons": list(found.reasons)}

            out[policy, estimator] = outcome(make)
    return out


def gates(ev: Any, world: World) -> Any:
    """Exit code and sentence of every gate."""
    from offpolicy.trust.gate import check

    def make(gate: str) -> dict[str, Any]:
        found = check(ev, gate)
        return {"exit_code": found.exit_code, "sentence": found.sentence}

    return {gate: outcome(lambda gate=gate: make(gate)) for gate in world.gates}


def table(ev: Any, world: World) -> Any:
    """`ev.frame()`, row by row."""
    rows = ev.frame(backend="pandas").to_dict("records")
    return {(row["policy"], row["estimator"]): row for row in rows}


def findings(ev: Any, world: World) -> Any:
    """Every finding: value, level, sentence, remedy."""
    return {(row["policy"], row["name"]): row for row in ev.diagnostics.rows()}


def document(ev: Any, world: World) -> Any:
    """The JSON without what has to differ."""
    return without_provenance(json.loads(ev.to_json()))


def without_provenance(value: Any) -> Any:
    """Nested values without the keys of `PROVENANCE`."""
    if isinstance(value, dict):
        return {k: without_provenance(v) for k, v in value.items() if k not in PROVENANCE}
    return [without_provenance(v) for v in value] if isinstance(value, list) else value


ASPECTS: dict[str, Callable[[Any, World], Any]] = {
    f.__name__: f
    for f in (
        values, intervals, contrasts, resampled, comparison, verdicts, gates, table, findings, document,
    )
}  # fmt: skip


NUMBER = re.compile(r"[-+−]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def differences(ours: Any, theirs: Any, tolerance: float = EXACT, where: str = "") -> list[str]:
    """Where two answers differ, in words; numbers may differ by ``tolerance`` of their scale."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return _of_mappings(ours, theirs, tolerance, where)
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return _of_sequences(ours, theirs, tolerance, where)
    if _is_number(ours) and _is_number(theirs):
        return _of_numbers(ours, theirs, tolerance * max(abs(ours), abs(theirs)), where)
    if isinstance(ours, str) and isinstance(theirs, str):
        return [] if same_text(ours, theirs) else [f"{where}: {ours!r} ≠ {theirs!r}"]
    # Frames turn None into NaN.
    if _is_nothing(ours) and _is_nothing(theirs):
        return []
    return [] if ours == theirs else [f"{where}: {ours!r} ≠ {theirs!r}"]


def _of_mappings(ours: Mapping[Any, Any], theirs: Mapping[Any, Any], tolerance: float, where: str) -> list[str]:
    out = [f"{_at(where, k)}: only here" for k in ours if k not in theirs]
    out += [f"{_at(where, k)}: only there" for k in theirs if k not in ours]
    # Ends of intervals count by the width, estimates by their standard error.
    ruler = _ruler(ours)
    for key in ours:
        if key not in theirs:
            continue
        a, b = ours[key], theirs[key]
        if ruler and key in SCALED and _is_number(a) and _is_number(b):
            size = min(max(ruler, abs(a)), ruler * 1e3)
            out += _of_numbers(a, b, tolerance * size, _at(where, key))
        else:
            out += differences(a, b, tolerance, _at(where, key))
    return out


SCALED = {"low", "high", "value", "difference"}


def _ruler(row: Mapping[Any, Any]) -> float:
    """Scale of the numbers of one row: the width of its interval, or its standard error."""
    low, high, error = (row.get(k) for k in ("low", "high", "std_error"))
    if _is_number(low) and _is_number(high) and math.isfinite(high - low):
        return float(high - low)
    return float(error) if _is_number(error) and math.isfinite(error) else 0.0


def _of_sequences(ours: Sequence[Any], theirs: Sequence[Any], tolerance: float, where: str) -> list[str]:
    if len(ours) != len(theirs):
        return [f"{where}: {len(ours)} entries ≠ {len(theirs)}: {ours!r} ≠ {theirs!r}"]
    pairs = enumerate(zip(ours, theirs, strict=True))
    return [d for i, (a, b) in pairs for d in differences(a, b, tolerance, f"{where}[{i}]")]


def _of_numbers(a: float, b: float, allowed: float, where: str) -> list[str]:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return []
    # Sums of a thousand terms of size one that cancel leave this much.
    if abs(a - b) <= max(allowed, 1e-12):
        return []
    return [f"{where}: {a!r} ≠ {b!r} (by {abs(a - b):.2g}, allowed {max(allowed, 1e-12):.2g})"]


def same_text(ours: str, theirs: str) -> bool:
    """Equal words, and numbers that agree to a unit of the last digit shown."""
    if ours == theirs:
        return True
    if NUMBER.sub("#", ours) != NUMBER.sub("#", theirs):
        return False
    pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
    return all(a == b or abs(_read(a) - _read(b)) <= 1.001 * max(_unit(a), _unit(b)) for a, b in pairs)


def _read(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def _unit(text: str) -> float:
    """Value of the last digit; whole numbers are counts, which have to be equal."""
    digits, _, power = text.lower().partition("e")
    _, _, decimals = digits.partition(".")
    if not decimals and not power:
        return 0.0
    return 10.0 ** (int(power or 0) - len(decimals))


def _at(where: str, key: Any) -> str:
    said = " ".join(map(str, key)) if isinstance(key, tuple) else str(key)
    return f"{where} › {said}" if where else said


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def assert_same(ours: Any, theirs: Any, tolerance: float = EXACT, what: str = "") -> None:
    """Fails with a list of what differs: ours (the reference) on the left."""
    found = differences(ours, theirs, tolerance)
    if found:
        lines = "\n  ".join(found[:25])
        more = f"\n  … and {len(found) - 25} more" if len(found) > 25 else ""
        raise AssertionError(f"{what}: {len(found)} differ\n  {lines}{more}")
