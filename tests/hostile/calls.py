"""Every public call with sound arguments, and junk to put in the place of each argument in turn.

A call is declared once, with the arguments that make it answer. `cases` crosses its arguments with `JUNK`; each must
answer, or raise an error of the library that names the argument.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from findings import FRAME, ROLES
from sklearn.linear_model import LinearRegression, LogisticRegression

import offpolicy as op
from offpolicy import formats, learners, models, policies, testing
from offpolicy.logs.formats import write_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SMALL = FRAME.iloc[:60].reset_index(drop=True)
JUNK: dict[str, Any] = {
    "None": None, "nan": float("nan"), "minus one": -1, "a fraction": 0.5, "a text": "no such thing", "empty text": "",
    "true": True, "an empty list": [], "a list": [None, 1], "a dict": {"no": "such"}, "an object": object(),
    "an array": np.array([[np.nan, 1.0]]), "bytes": b"x", "infinity": float("inf"), "a class": dict,
    "a date": np.datetime64("NaT"),
}  # fmt: skip
Call = tuple[Any, dict[str, Any]]


@cache
def log() -> Any:
    """A small log."""
    return op.BanditLog.from_frame(SMALL, **ROLES)


@cache
def ev() -> Any:
    """An evaluation of two policies."""
    return op.evaluate(log(), {"new": "always:b", "old": "uniform"}, estimators=["IPW", "SNIPW"])


def steps() -> pd.DataFrame:
    """Episodes of two steps."""
    return pd.DataFrame(
        {"e": np.repeat(range(30), 2), "t": [0, 1] * 30, "s": [0, 1, 1] * 20, "a": [0, 1, 1, 0] * 15,
         "r": [0.0, 1, 1] * 20, "p": 0.5}
    )  # fmt: skip


STEPS: dict[str, Any] = {
    "episode": "e", "step": "t", "state": ["s"], "action": "a", "reward": "r", "propensity": "p",
}  # fmt: skip


@cache
def episodes() -> Any:
    """An evaluation of episodes."""
    log = op.Trajectories.from_frame(steps(), **STEPS)
    return op.evaluate(log, "uniform", estimators=["IPW"])


def slots() -> pd.DataFrame:
    """Slates of two slots."""
    return pd.DataFrame(
        {"q": np.repeat(range(30), 2), "pos": [1, 2] * 30, "x": [0.5, 0.5, 1, 1] * 15, "item": list("abbcca") * 10,
         "r": [0.0, 1, 1] * 20, "p": 0.5}
    )  # fmt: skip


SLOTS: dict[str, Any] = {
    "slate": "q", "position": "pos", "context": ["x"], "action": "item", "reward": "r", "propensity": "p",
}  # fmt: skip


@cache
def slates() -> Any:
    """An evaluation of slates."""
    return op.evaluate(op.Slates.from_frame(slots(), **SLOTS), "uniform", estimators=["IPW"])


@cache
def trace() -> Path:
    """A file of JSON lines."""
    path = Path(tempfile.mkdtemp()) / "trace.jsonl"
    write_jsonl(log(), path)
    return path


def feedback() -> dict[str, Any]:
    """A dictionary of OBP."""
    return {"n_rounds": 4, "n_actions": 2, "context": np.zeros((4, 1)), "action": [0, 1, 0, 1], "reward": [0, 1, 1, 0],
            "pscore": [0.5] * 4}  # fmt: skip


def exposures() -> dict[str, Any]:
    """Tables of a testing tool."""
    day = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])
    shown = pd.DataFrame({"user_id": [1, 2, 3], "timestamp": day, "variation_id": [0, 1, 1]})
    sales = pd.DataFrame({"user_id": [2, 2], "timestamp": day[1:], "value": [2.0, 3.0]})
    return {"exposures": shown, "metric": sales, "weights": {0: 0.5, 1: 0.5}}


def _of_logs() -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    arrays = {"context": SMALL["x"].to_numpy(), "action": SMALL["ad"].to_numpy(), "reward": SMALL["click"].to_numpy(),
              "propensity": SMALL["p"].to_numpy(), "actions": ["a", "b", "c"]}  # fmt: skip
    more = SMALL.assign(u=range(60), w=1.0, k=1.0)
    optional = {
        "batch": "ad",
        "cluster": "u",
        "weight": "w",
        "keep_probability": "k",
        "id": "u",
        "actions": ["a", "b", "c"],
    }
    yield "BanditLog.from_frame", op.BanditLog.from_frame, {"frame": more, **ROLES, **optional}
    yield "BanditLog.from_arrays", op.BanditLog.from_arrays, arrays
    yield ("Trajectories.from_frame", op.Trajectories.from_frame, {"frame": steps(), **STEPS, "horizon": 2})
    yield (
        "Trajectories.from_arrays",
        op.Trajectories.from_arrays,
        {
            "states": [[0, 1], [1]],
            "actions": [[0, 1], [1]],
            "rewards": [[1.0, 0.0], [2.0]],
            "propensities": [[0.5, 0.5], [0.5]],
        },
    )
    yield ("Slates.from_frame", op.Slates.from_frame, {"frame": slots(), **SLOTS, "interaction": "cascade", "slots": 2})
    scanned = {"way": "rows", "chunk_rows": 50, "max_rows": 100, "max_cells": 100, "fit_rows": 100, "threads": 1,
               "memory_limit": "1GB", "progress": None, "table": None, "engine": None, "network": False}  # fmt: skip
    yield "scan", op.scan, {"source": more, **ROLES, **optional, **scanned}
    yield "Slates.scan", op.Slates.scan, {"source": slots(), **SLOTS, "way": "rows"}
    yield "Trajectories.scan", op.Trajectories.scan, {"source": steps(), **STEPS, "way": "rows"}
    yield "Labeled", op.Labeled, {"probability": "e", "proxies": ["j"], "model": None}
    yield "Delayed", op.Delayed, {"time": "t", "age": "a", "window": 2.0, "proxies": None, "model": None}
    yield "LongTerm", op.LongTerm, {"history": SMALL, "proxies": ["x"], "history_proxies": None, "model": None}
    yield "Trajectories.first", op.Trajectories.from_frame(steps(), **STEPS).first, {"steps": 1}


def _of_formats() -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    yield "read_jsonl", formats.read_jsonl, {"path": trace(), "on_error": "report"}
    yield "read_dsjson", formats.read_dsjson, {"path": trace(), "on_error": "report"}
    yield ("read_router", formats.read_router, {"path": trace(), "fields": None, "on_error": "report"})
    yield ("read_router_log", op.read_router_log, {"path": trace(), "reward": "quality", "fields": None})
    yield "write_jsonl", formats.write_jsonl, {"log": log(), "path": trace().with_name("out.jsonl")}
    yield ("write_dsjson", formats.write_dsjson, {"log": log(), "path": trace().with_name("out.json")})
    yield "from_obp", formats.from_obp, {"feedback": feedback(), "position": None}
    yield "to_obp", formats.to_obp, {"log": log()}
    day = {"dimensions": [], "unit": "user_id", "variation": "variation_id", "time": "timestamp", "value": "value"}
    yield ("from_exposures", formats.from_exposures, {**exposures(), **day, "several": "raise", "window": None})
    rows = [{"state": 0, "action": 0, "reward": 1.0, "terminated": False, "truncated": False},
            {"state": 1, "action": 1, "reward": 0.0, "terminated": True, "truncated": False}]  # fmt: skip
    yield "from_transitions", formats.from_transitions, {"transitions": rows}
    for name in ("from_sb3", "from_minari", "from_d3rlpy", "from_rllib"):
        argument = {"from_sb3": "buffer", "from_rllib": "recording"}.get(name, "dataset")
        yield name, getattr(formats, name), {argument: object()}
    yield "from_gymnasium", formats.from_gymnasium, {"environment": object(), "policy": lambda s: 0, "episodes": 2}
    yield "read_dsjson_slates", formats.read_dsjson_slates, {"path": trace(), "on_error": "report"}
    yield "read", formats.read, {"path": trace()}
    yield "register", formats.register, {"format": object()}
    yield ("roll_out", formats.roll_out, {"environment": object(), "policy": lambda s: 0, "episodes": 2, "seed": 0})


def _of_evaluations() -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    asked = {"estimators": ["IPW"], "reward_model": None, "behavior_model": None, "ratio": "exact", "folds": 2,
             "repeats": 1, "discount": 1.0, "seed": 0, "n_jobs": None, "minimize": False, "randomized": False,
             "gamma": None}  # fmt: skip
    yield "evaluate", op.evaluate, {"log": log(), "policies": "always:b", **asked}
    yield "learn_policy", op.learn_policy, {"log": log(), "learner": "tree", "objective": "value", "max_depth": 1,
                                            "min_rows": 5, "folds": 2, "seed": 0, "metric": None}  # fmt: skip
    yield "select", op.select, {"ev": ev(), "rate": 0.05, "method": "auto", "estimator": None}
    yield (
        "advise",
        op.advise,
        {"log": log(), "policies": "always:b", "width": 0.5, "level": 0.9, "exploration": [0.1]},
    )
    of = ev()
    level = {"level": 0.9, "estimator": "IPW"}
    yield "gate", of.gate, {"expression": "new lift > 0", **level}
    yield "verdict", of.verdict, {"policy": "new", **level}
    yield "bounds", of.bounds, {"gamma": 1.5, "policy": "new", "level": 0.9}
    yield "compare", of.compare, level
    yield "frame", of.frame, {"backend": None, "level": 0.9}
    yield "rows", of.rows, {"level": 0.9}
    yield "to_json", of.to_json, {"path": None, "level": 0.9}
    yield ("report", of.report, {"path": trace().with_name("r.html"), "level": 0.9, "title": None, "segments": None})
    yield "metric", of.metric, {"name": "click"}
    yield "add", of.add, {"policies": {"third": "always:c"}}
    yield "with_behavior", of.with_behavior, {"behavior_model": "shares"}
    yield "combine", of.combine, {"weights": {"click": 1.0}, "name": "mine", "minimize": False}
    yield "against", of.against, {"truth": {"new": 0.5, "old": 0.4}, "estimator": "IPW"}
    yield "returns", episodes().returns, {"policy": None, "level": 0.9, "seed": 0}
    yield "step_curves", episodes().step_curves, {"policy": None}
    yield "position_values", slates().position_values, {"policy": None, "level": 0.9}
    one, other = of["new", "IPW"], of["old", "IPW"]
    yield (
        "interval",
        one.interval,
        {"level": 0.9, "method": "auto", "reward_range": None, "weight_high": None, "seed": 0},
    )
    yield "lift", one.lift, {"other": other}
    yield "p_value", one.p_value, {"null": 0.0, "alternative": "two-sided", "method": "auto"}
    yield "within", one.within, {"members": np.arange(60) < 30}
    yield "conf_int", one.conf_int, {"level": 0.9, "method": "auto"}
    yield "from_scores", op.Estimate.from_scores, {"psi": [1.0, 2.0, 3.0], "units": None, "label": "mine"}
    yield "instead", of.instead, {"policies": {"third": "always:c"}}
    yield "summary", of.summary, {"backend": None, "level": 0.9}
    yield "segments", of.segments, {"columns": None, "policy": None, "backend": None, "level": 0.9}
    yield "to_latex", of.to_latex, {"level": 0.9}
    yield "pareto", of.pareto, {"level": 0.9, "estimator": None}
    yield "learning_curve", of.learning_curve, {"estimator": None, "level": 0.9}
    yield "value_curve", of.value_curve, {"grid": [0.0, 1.0], "level": 0.9, "estimator": None}
    yield "plot", of.plot, {"kind": "values", "policy": None, "level": 0.9}
    yield "redrawn", of.redrawn, {"repeats": 2, "estimator": None, "seed": None}
    yield "replay", op.replay, {"log": log(), "learners": {"a": learners.EpsilonGreedy()}, "method": "progressive",
                                "blocks": 2, "metric": None, "accept": None, "seed": 0}  # fmt: skip


def _of_parts() -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    def prefer(context: Any) -> Any:
        return np.zeros((len(context), 3))

    table = pd.DataFrame({"x": [0.0], "ad": ["b"], "probability": [1.0]})
    yield "Constant", policies.Constant, {"shares": {"a": 0.5, "b": 0.5}}
    yield "Fixed", policies.Fixed, {"action": "a", "actions": ("a", "b")}
    yield ("Table", policies.Table, {"frame": table, "context": ["x"], "action": "ad", "probability": "probability"})
    yield "StateTable", policies.StateTable, {"table": [[0.5, 0.5]]}
    yield ("Mixture", policies.Mixture, {"policies": [policies.Uniform(), policies.Fixed("a")], "weights": [0.5, 0.5]})
    yield "EpsilonGreedy", policies.EpsilonGreedy, {"preference": prefer, "epsilon": 0.1}
    yield "Softmax", policies.Softmax, {"preference": prefer, "temperature": 1.0}
    yield "PlackettLuce", policies.PlackettLuce, {"preference": prefer, "temperature": 1.0}
    yield "ProbabilityColumns", policies.ProbabilityColumns, {"columns": ["p_a", "p_b"]}
    yield "ShownProbability", policies.ShownProbability, {"name": "p_new"}
    yield ("BetaThompson", policies.BetaThompson, {"alpha": {"a": 1.0}, "beta": {"a": 1.0}, "draws": 10, "seed": 0})
    yield "TimeDependent", policies.TimeDependent, {"function": lambda s, t: s}
    yield "Deterministic", policies.Deterministic, {"source": "ad"}
    yield (
        "Estimator",
        op.Estimator,
        {"name": "mine", "score": lambda d: d.reward, "split": "full", "needs": {"behavior"}},
    )
    yield "KFold", op.KFold, {"k": 2, "stratify": None}
    yield ("KernelRatio", op.KernelRatio, {"bandwidth": 1.0, "kernel": "epanechnikov", "edge": "renormalize"})
    yield ("CoarseRatio", op.CoarseRatio, {"features": ["genre"], "bins": 8, "clusters": None, "model": "cells"})
    yield "FittedQ", op.FittedQ, {"learner": LinearRegression(), "time": "step"}
    yield "Tabular", op.Tabular, {"time": "pooled", "smoothing": 0.0}
    yield "Shares", models.Shares, {"smoothing": 0.0, "per_batch": True}
    yield ("BoostedReward", models.BoostedReward, {"rounds": 10, "validation": 0.25, "patience": 5, "threads": 1})
    yield "LinearReward", models.LinearReward, {"penalty": 1.0}
    yield "SplineReward", models.SplineReward, {"knots": 5, "penalty": 1.0}
    yield "ModelBased", models.ModelBased, {"method": "recursion", "neighbors": 5, "draws": 10}
    yield "StateShares", models.StateShares, {"smoothing": "auto", "time": "pooled"}
    yield (
        "Training",
        models.Training,
        {"epochs": 5, "batch_size": 8, "learning_rate": 0.1, "validation": 0.2, "patience": 2},
    )
    yield "Classifier", policies.Classifier, {"model": LogisticRegression().fit([[0], [1]], [0, 1])}
    context = pd.DataFrame({"x": [0.0, 1.0]})
    yield (
        "check_policy",
        testing.check_policy,
        {"policy": policies.Uniform(), "context": context, "actions": ["a", "b"]},
    )
    yield ("check_reward_model", testing.check_reward_model, {"model": LinearRegression(), "context": None})
    yield "ActionFeature", models.ActionFeature, {"learner": LinearRegression()}
    yield "AutoQ", models.AutoQ, {"candidates": ("ridge",)}
    yield "BalancedModel", models.BalancedModel, {"width": 8, "balance": 0.01, "draws": 5}
    yield "LocationScale", models.LocationScale, {"learner": "ridge", "constant_scale": True, "shape": "kernel"}
    yield "MarginalRatio", models.MarginalRatio, {"time": "pooled", "learner": None}
    yield "PerAction", models.PerAction, {"learner": LinearRegression()}
    yield "SeesTargets", models.SeesTargets, {"model": LogisticRegression()}
    yield "TimedBehavior", models.TimedBehavior, {"model": LogisticRegression()}
    yield "TorchValue", models.TorchValue, {"module": object()}
    yield "TorchBehavior", models.TorchBehavior, {"module": object()}
    yield "paper_reward", models.paper_reward, {"threads": 1}
    yield "CrossFitted", policies.CrossFitted, {"learner": prefer, "lowest": False}
    yield "GaussianThompson", policies.GaussianThompson, {"mean": {"a": 1.0}, "std": {"a": 1.0}}
    yield "Greedy", policies.Greedy, {"preference": prefer}
    yield "Normal", policies.Normal, {"mean": 1.0, "sd": 1.0, "low": None, "high": None}
    yield "UniformRange", policies.UniformRange, {"low": 0.0, "high": 1.0}
    yield "Predictor", policies.Predictor, {"model": LogisticRegression().fit([[0], [1]], [0, 1])}
    yield "Ranking", policies.Ranking, {"items": ("a", "b")}
    yield "TorchLogits", policies.TorchLogits, {"module": object()}
    numbers = {"mean": [0.0, 1.0], "std": [1.0, 1.0], "eligible": None}
    yield "gaussian_thompson_probabilities", policies.gaussian_thompson_probabilities, numbers
    counts = {"alpha": [1.0, 2.0], "beta": [1.0, 1.0], "eligible": None}
    yield "beta_thompson_probabilities", policies.beta_thompson_probabilities, counts
    yield "LinUCB", learners.LinUCB, {"alpha": 1.0, "epsilon": 0.1, "ridge": 1.0}
    yield "LinearThompson", learners.LinearThompson, {"scale": 0.5, "ridge": 1.0}
    yield "LogisticThompson", learners.LogisticThompson, {"ridge": 1.0}
    yield "learners.EpsilonGreedy", learners.EpsilonGreedy, {"model": None, "epsilon": 0.1, "seed": 0}
    yield "learners.Softmax", learners.Softmax, {"model": None, "temperature": 0.1, "seed": 0}
    yield "Bagged", learners.Bagged, {"model": None, "bags": 5, "epsilon": 0.05, "seed": 0}
    yield "VowpalWabbit", learners.VowpalWabbit, {"arguments": "--quiet"}
    yield "River", learners.River, {"model": object(), "epsilon": 0.1}
    yield "MABWiser", learners.MABWiser, {"mab": object(), "draws": 0}
    yield "check_learner", testing.check_learner, {"learner": learners.EpsilonGreedy()}
    yield "simulate", testing.simulate, {"world": lambda rng: 1 / 0, "estimators": None, "logs": 1, "level": 0.9}
    yield "check_score", testing.check_score, {"score": lambda d: d.reward, "trajectories": False}


def sound() -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Every call with the arguments that make it answer."""
    for part in (_of_logs, _of_formats, _of_evaluations, _of_parts):
        yield from part()


def cases() -> Iterator[tuple[str, str, str, Callable[[], Any]]]:
    """Call, argument, junk, and a function that makes the call with that junk in the argument's place."""
    for name, call, arguments in sound():
        for argument in arguments:
            for junk, value in JUNK.items():

                def run(
                    call: Any = call, arguments: Any = arguments, argument: str = argument, value: Any = value
                ) -> Any:
                    return call(**{**arguments, argument: value})

                yield name, argument, junk, run
