"""The library's remedies in the words of the command line: ``cluster=`` becomes ``--cluster``."""

from __future__ import annotations

import re

# Arguments of the library that have a flag; most are called alike.
SAME = (
    "action", "actions", "batch", "behavior_model", "cluster", "context", "discount", "eligible", "engine",
    "episode", "folds", "id", "keep_probability", "level", "memory_limit", "propensity", "repeats", "reward",
    "reward_model", "seed", "segments", "state", "step", "table", "terminated", "time", "title", "truncated",
    "value_model", "weight", "minimize", "horizon", "randomized", "gamma", "action_kind", "bandwidth",
    "slate", "position", "interaction", "reward_of", "candidates", "learned_elsewhere",
    "proxies", "age", "window",
)  # fmt: skip
FLAGS = {name: f"--{name.replace('_', '-')}" for name in SAME} | {
    "estimators": "--estimator",
    "n_jobs": "--jobs",
    "policies": "--policy",
}
ARGUMENT = re.compile(
    rf"(?<![\w.\-])(?P<name>{'|'.join(sorted(FLAGS, key=len, reverse=True))})="
    r"(?P<value>\w+\([^()]*\)|'[^']*'|\"[^\"]*\"|[\w]+(?:\.\d+)?|…)?"
)


def in_flags(text: str) -> str:
    """A sentence of the library for someone at the command line.

    >>> in_flags("name the unit that repeats with cluster=.")
    'name the unit that repeats with --cluster.'
    >>> in_flags("context='age': the frame has no such column.")
    "--context 'age': the frame has no such column."
    >>> in_flags("say randomized=True if so")
    'say --randomized if so'
    >>> in_flags("smooth: behavior_model=Shares(smoothing=1).")
    'smooth: behavior_model=Shares(smoothing=1) in Python.'
    """

    def flag(match: re.Match[str]) -> str:
        value = match["value"] or ""
        if value.endswith(")"):  # an object; the command line has no word for it
            return f"{match[0]} in Python"
        if value == "True":
            value = ""
        return f"{FLAGS[match['name']]}{' ' if value else ''}{value}"

    return ARGUMENT.sub(flag, text)
