"""Every public call given junk answers, or says in an error of the library what is wrong with which argument."""

from __future__ import annotations

import inspect
import random

import numpy as np
import pytest
from calls import JUNK, cases, ev, log, sound
from findings import FLAGS, FRAME

import offpolicy as op
from offpolicy import policies
from offpolicy._arguments import KINDS, RANGES, checks_arguments
from offpolicy.cli import main
from offpolicy.errors import OffPolicyError, UnknownNameError, UsageError

ALL = list(cases())
SAMPLE = 150  # of them in every run of the tests
SLOW = (
    "add", "advise", "check_learner", "evaluate", "instead", "learn_policy", "plot", "redrawn", "replay", "report",
    "scan", "simulate", "Slates.scan", "Trajectories.scan",
)  # fmt: skip


def obscure(which) -> list[str]:
    """Cases that end in an exception of somebody else's."""
    found = []
    for name, argument, junk, run in which:
        try:
            run()
        except OffPolicyError:
            continue
        except Exception as error:  # noqa: BLE001 — this is what is looked for
            found.append(f"{name}({argument}={junk}): {type(error).__name__}: {error}"[:200])
    return found


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # "no such thing" is a file name as well


@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_calls_given_junk():
    quick = [case for case in ALL if case[0] not in SLOW]
    assert obscure(random.Random(7).sample(quick, SAMPLE)) == []


@pytest.mark.verify
@pytest.mark.filterwarnings("ignore")
def test_every_call_given_junk():
    assert len(ALL) >= 4_000
    assert obscure(ALL) == []


# What is not called with arguments of a user's: results, protocols, and what is only seen in annotations.
NOT_CALLS = {
    "BadLine", "BanditLog", "Estimate", "Evaluation", "Format", "Learner", "Policy", "Reading", "Simulation", "Slates",
    "Trajectories", "Uniform", "n_rows", "read_lines",
    # What models are handed, and what studies write by.
    "ConstantReward", "Context", "RewardData", "lock_folder", "track", "write_text", "written_whole",
}  # fmt: skip
# Methods that others call with what the library itself has made; and one that needs a server.
NOT_METHODS = {"ask", "of", "log_mlflow"}


def test_every_public_call_is_in_the_table():
    declared = {name for name, _, _ in sound()}
    rooms = [op, op.formats, op.models, op.policies, op.learners, op.testing]
    public = {name for room in rooms for name in room.__all__ if callable(getattr(room, name))}
    assert public - declared - NOT_CALLS == set()
    methods = {name for result in (op.Evaluation, op.Estimate) for name in _with_arguments(result)}
    assert methods - declared - NOT_METHODS == set()


def _with_arguments(result) -> list[str]:
    found = inspect.getmembers(result, lambda each: inspect.isfunction(each) or inspect.ismethod(each))
    public = [(name, set(inspect.signature(call).parameters) - {"self", "cls", "ev"}) for name, call in found]
    return [name for name, arguments in public if arguments and not name.startswith("_")]


def test_every_call_checks_its_arguments_by_the_table():
    for name, call, _ in sound():
        made = call.__init__ if inspect.isclass(call) else call
        assert hasattr(made, "declared_kinds") or name in {"Slates.scan", "Trajectories.scan"}, name


@pytest.mark.parametrize(
    ("call", "arguments", "said"),
    [
        (op.models.BoostedReward, {"rounds": "many"}, "rounds= must be an int"),
        (op.models.Training, {"epochs": None}, "epochs= must be an int"),
        (op.Estimator, {"name": 3, "score": len}, "name= must be text"),
        (policies.Fixed, {"action": ["a"]}, "action= must be a label"),
        (policies.Table, {"frame": FRAME, "context": ["x"], "action": 1, "probability": "p"}, "action= must be text"),
        (op.learners.LinUCB, {"alpha": "wide"}, "alpha= must be a number"),
        (op.Estimate.from_scores, {"psi": "high"}, "psi= must be an array of numbers or a list of numbers"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_junk_that_would_not_raise_is_refused(call, arguments, said):
    with pytest.raises(UsageError, match=said):
        call(**arguments)


def test_arguments_that_are_not_there_are_named():
    for door in (op.BanditLog.from_frame, op.Slates.from_frame, op.Trajectories.from_frame, op.scan, op.Slates.scan):
        needed = {"context": ["x"], "reward": "click"} if door == op.scan else {}
        with pytest.raises(UsageError, match=r"has no argument 'rewrd'. Did you mean 'reward'") as caught:
            door(FRAME, action="ad", rewrd="click", **needed)
        assert isinstance(caught.value, TypeError)
    with pytest.raises(UsageError, match="evaluate: missing a required argument: 'policies'"):
        op.evaluate(log())


def test_a_set_has_no_order():
    with pytest.raises(UsageError, match="actions= must be a list of labels"):
        op.BanditLog.from_frame(FRAME, context=["x"], action="ad", reward="click", actions={"a", "b", "c"})


@pytest.mark.parametrize("key", [None, 3, ("new",), ("new", "IPW", "x"), ("new", None), ["new", "IPW"], "no such"])
def test_an_estimate_that_is_not_there_is_named(key):
    with pytest.raises(UnknownNameError, match=r"ask for a policy and an estimator|no policy is called 'no such'"):
        ev()[key]


@pytest.mark.parametrize("junk", [None, 0, ["lift > 0"], float("nan")])
def test_a_gate_that_is_no_text(junk):
    with pytest.raises(UsageError, match="gate: expression= must be text"):
        ev().gate(junk)


def test_what_was_obscure():
    with pytest.raises(UsageError, match="rate= must be from 1e-12"):
        op.select(ev(), rate=1e-300)
    with pytest.raises(UsageError, match="chunk_rows= must be at least 1"):
        op.scan(FRAME, context=["x"], action="ad", reward="click", chunk_rows=0)
    with pytest.raises(UsageError, match="progress= must be a function or None"):
        op.scan(FRAME, context=["x"], action="ad", reward="click", progress="x")
    with pytest.raises(UnknownNameError, match="no estimate by 'DMl'") as caught:
        ev().gate("new lift > 0", estimator="DMl")
    assert isinstance(caught.value, KeyError)
    assert not str(caught.value).startswith('"')
    with pytest.raises(UsageError, match="shares= must be a mapping to numbers"):
        policies.Constant(None)


def test_other_spellings_of_the_same_arguments_are_taken():
    import pandas as pd

    log_ = op.BanditLog.from_frame(
        FRAME, context=pd.Index(["x"]), action="ad", reward="click", propensity="p", actions=np.array(["a", "b", "c"])
    )
    result = op.evaluate(log_, "always:b", estimators=("IPW",), folds=np.int64(2), seed=np.int32(0))
    assert result["IPW"].interval(np.float32(0.9)).level == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--separator", "||"], "one character"), (["--gate", "lift > 0", "--gate-estimator", "DMl"], "DMl"),
     (["--memory-limit", "0GB", "--engine", "duckdb"], "memory-limit"), (["--folds", "9" * 20], "1,000,000"),
     (["--folds", "1000000"], "folds")],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else value,
)  # fmt: skip
def test_the_command_line_ends_in_a_sentence(tmp_path, capsys, words, said):
    FRAME.to_csv(tmp_path / "log.csv", index=False)
    flags = [*FLAGS, "--policy", "new=always:b", "--estimator", "IPW"]
    assert main(["evaluate", str(tmp_path / "log.csv"), *flags, *words]) == 1
    assert said in capsys.readouterr().err


def test_a_table_says_what_every_word_means():
    for kind in (*KINDS.values(), *RANGES.values()):
        assert kind.words
    for junk in JUNK.values():
        for name, kind in KINDS.items():
            assert kind.holds(junk) in {True, False}, name

    @checks_arguments
    def f(a: int, *rest: str, b: float | None = None, **more: str) -> int:
        return a + (b or 0)

    assert f(1, "x", c="y") == 1
    with pytest.raises(TypeError):
        f()
    with pytest.raises(UsageError, match="f: b= must be a number or None"):
        f(1, b="x")
    assert log().n == 60
