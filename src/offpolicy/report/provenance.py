"""Where a report comes from: settings, versions, a hash of the inputs, and how to make it again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.logs.frame import Columns

if TYPE_CHECKING:
    from offpolicy._arrays import Array
    from offpolicy.evaluation.result import Evaluation

PACKAGES = ("numpy", "scipy", "scikit-learn", "lightgbm", "pandas", "narwhals")
ARRAYS = (
    "action",
    "reward",
    "propensity",
    "distribution",
    "eligible",
    "batch",
    "cluster",
    "weight",
    "count",
)


def versions() -> dict[str, str]:
    """Of this library, of Python and of the packages that numbers depend on."""
    from offpolicy import __version__

    found = {"offpolicy": __version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def input_hash(evaluation: Evaluation) -> str:
    """SHA-256 of the log and of π_e of its actions under every policy, in hexadecimal.

    Equal inputs have equal hashes on every machine; a changed reward, propensity, context or policy does
    not.
    """
    log, digest = evaluation.problem.log, hashlib.sha256()
    for label in log.actions:
        _add(digest, "label", str(label).encode())
    for name in ARRAYS:
        values = getattr(log, name, None)
        if values is not None:
            _add(digest, name, _bytes(np.asarray(values)))
    _add(digest, "length", _bytes(log.layout.offsets))
    context = log.context
    if context.index is not None:
        _add(digest, "index", _bytes(context.index))
    if context.names is None:
        _add(digest, "context", _bytes(np.asarray(context.table)))
    else:
        columns = Columns(context.table)
        for name in context.names:
            _add(digest, f"column {name}", _bytes(columns.values(name)))
    for name, target in evaluation.targets.items():
        _add(digest, f"policy {name}", _bytes(evaluation.problem.pi_e(target)))
    return digest.hexdigest()


def _add(digest: Any, name: str, content: bytes) -> None:
    """Names and lengths keep neighboring parts from running into each other."""
    digest.update(f"{name}\x1f{len(content)}\x1f".encode())
    digest.update(content)


def _bytes(values: Array) -> bytes:
    if values.dtype.kind in "OUS":
        return "\x1f".join(map(str, values.ravel().tolist())).encode()
    if values.dtype.kind in "iub":
        values = values.astype("<i8")
    elif values.dtype.kind == "f":
        values = values.astype("<f8")
    return np.ascontiguousarray(values).tobytes()


def settings(evaluation: Evaluation) -> dict[str, str]:
    """What was asked for, in the words of `evaluate`'s arguments."""
    log = evaluation.problem.log
    names = log.names
    shown = {
        "log": repr(log),
        "action": names.action,
        "reward": names.reward,
        "propensity": names.propensity if log.propensity is not None else "unknown",
        "batch": names.batch if log.batch is not None else "none",
        "cluster": names.cluster if log.cluster is not None else "none",
        "context": ", ".join(log.context.names or ()) or "an array",
    }
    for key, value in evaluation.settings.items():
        if value is not None:
            shown[key] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return shown


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
