"""Every public call given junk answers, or says in an error of the library what is wrong with which argument."""

from __future__ import annotations

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
SLOW = ("evaluate", "learn_policy", "advise", "scan", "Slates.scan", "add", "report")


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


def test_every_public_call_is_in_the_table():
    declared = {name.rsplit(".")[0] for name, _, _ in sound()}
    for name in ("evaluate", "learn_policy", "select", "advise", "scan", "read_router_log"):
        assert name in declared
        assert hasattr(getattr(op, name), "__wrapped__")


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
