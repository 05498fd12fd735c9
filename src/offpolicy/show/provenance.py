"""Where a report comes from: settings, versions, a digest of the log, and how to make it again."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import TYPE_CHECKING, Any

from offpolicy._version import __version__
from offpolicy.inference.figures import count
from offpolicy.show.answer import actions_of, decision

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.logs.log import Log

PACKAGES = ("numpy", "scipy", "scikit-learn", "lightgbm", "pandas", "narwhals")


def columns(log: Log) -> dict[str, Any]:
    """Names of the log's columns by their role; None where there is none."""
    names = log.names
    return {
        "context": [str(name) for name in log.context.names or ()],
        "action": names.action,
        "reward": names.reward,
        "propensity": names.propensity if log.propensity is not None else None,
        "batch": names.batch if log.has_batches else None,
        "cluster": names.cluster if log.has_clusters else None,
    }


def versions() -> dict[str, str]:
    """Of this library, of Python and of the packages that numbers depend on."""
    numbers = {"offpolicy": __version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            numbers[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return numbers


def digest(evaluation: Evaluation) -> str:
    """128 bits of the log in hexadecimal: the sum of the hashes of its rows.

    The same rows in any order, compressed or streamed, have the same digest on every machine; a changed
    action, reward, propensity, context, batch, cluster or weight changes it.
    """
    return str(evaluation.problem.sums("log").digest)


def settings(evaluation: Evaluation) -> dict[str, str]:
    """What was asked for, in the words of `evaluate`'s arguments."""
    log = evaluation.problem.log
    names = log.names
    texts = {
        "log": f"{count(log.n)} {decision(log)}s, {actions_of(log)}",
        "action": names.action,
        "reward": names.reward,
        "propensity": names.propensity if log.propensity is not None else "unknown",
        "batch": names.batch if log.has_batches else "none",
        "cluster": names.cluster if log.has_clusters else "none",
        "context": ", ".join(log.context.names or ()) or "an array",
    }
    if evaluation.origin is not None:
        texts["files"] = ", ".join(evaluation.origin.paths)
    for key, value in evaluation.settings.items():
        if value is not None:
            texts[key] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return texts


def command(evaluation: Evaluation) -> str:
    """The call that gives these numbers again, from the same log and policies."""
    s = evaluation.settings
    policies = ", ".join(f"{name!r}: …" for name in evaluation.policies)
    arguments = [f"estimators={s['estimators']!r}"]
    arguments += [
        f"{key}={_source(s[key])}"
        for key in ("reward_model", "value_model", "behavior_model")
        if s.get(key) not in {None, "auto", "logged propensities"}
    ]
    usual = {"folds": 2, "repeats": 1, "discount": 1.0}
    arguments += [f"{key}={s[key]!r}" for key, value in usual.items() if s[key] != value]
    arguments.append(f"seed={s['seed']!r}")
    body = "".join(f"    {a},\n" for a in (f"log, {{{policies}}}", *arguments))
    return f"ev = op.evaluate(\n{body})"


def _source(model: str) -> str:
    if model == "given array":
        return "…"
    return model if "(" in model else repr(model)
