"""``offpolicy replay``: what algorithms that learn would have earned on a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.cli import evaluating, logs, models, outputs, runfile, terminal
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def run(options: argparse.Namespace) -> int:
    """Replay, judge the gates, write, and print the answer with its learning curves."""
    from offpolicy.decide.replay import replay
    from offpolicy.trust.gate import worst
    from offpolicy.trust.gate_text import expressions

    runfile.apply(options)
    outputs.check(options)
    learners = _learners(options.learner)
    level = 0.95 if options.level is None else options.level
    log = logs.open_log(options)
    gates = expressions(options.gate, list(learners), list(log.metrics))
    settings = {
        name: value
        for name in ("method", "time", "metric", "accept", "seed")
        if (value := getattr(options, name)) is not None
    }
    ev = replay(
        log,
        learners,
        blocks=_blocks(options.blocks),
        estimators=options.estimator,
        minimize=bool(options.minimize),
        randomized=bool(options.randomized),
        behavior_model=evaluating.behavior(log, options),
        **settings,
        **models.asked_for(log.kind, options),
    )
    judged = [ev.gate(gate, level=level) for gate in gates]
    failures = outputs.write(ev, options, level, judged)
    evaluating.show(ev, level, judged)
    terminal.say()
    terminal.say(_curves(ev, level))
    for failure in failures:
        terminal.complain(failure)
    return worst([gate.exit_code for gate in judged]) if judged else int(bool(failures))


def _blocks(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdigit() else text


def _learners(specs: Sequence[str] | None) -> dict[str, Any]:
    """Learners by name: a word such as linucb, ``name=word``, or ``name=package.module:Learner``."""
    from offpolicy.decide import online
    from offpolicy.policies.forms import imported

    if not specs:
        words = ", ".join(online.WORDS)
        raise UsageError(f"which learner? Give --learner {words}, or name=package.module:Learner.")
    found: dict[str, Any] = {}
    for spec in specs:
        name, separator, what = spec.partition("=")
        what = what if separator else name
        if name in found:
            raise UsageError(f"--learner: the name {name!r} is used twice.")
        made = imported(what, None) if ":" in what else online.named(what)  # type: ignore[arg-type]
        found[name] = made() if isinstance(made, type) else made
    return found


def _curves(ev: Any, level: float) -> str:
    """Value of each learner block by block."""
    curve = ev.learning_curve(level=level)
    wide = curve.pivot_table(index="block", columns="policy", values="value", sort=False)
    lines = ["value by block, learned from the blocks before:", wide.to_string(float_format="%.4g")]
    return "\n".join(lines)
