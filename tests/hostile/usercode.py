"""Policies, models, scores, gates and run files with something wrong in them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

import offpolicy as op

Row = tuple[str, str | float, Callable[[Path], Any]]
N = 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
A = np.arange(N) % 2
R = (RNG.random(N) < 0.4).astype(float)
P = np.full(N, 0.5)


def log() -> Any:
    return op.BanditLog.from_arrays(X, A, R, P)


def value(policy: Any, **options: Any) -> float:
    """IPW (or DML) of a policy."""
    name = "DML" if options else "IPW"
    return float(op.evaluate(log(), policy, estimators=[name], **options)["policy", name].value)


class Gives:
    """A policy with one method that gives something."""

    def __init__(self, method: str, answer: Callable[[Any], Any]) -> None:
        setattr(self, method, answer)


class Stateful:
    calls = 0

    def probabilities(self, x: Any) -> Any:
        self.calls += 1
        return np.tile([1 / self.calls, 1 - 1 / self.calls], (len(x), 1))


def _policies() -> Iterator[Row]:
    half = np.full((N, 2), 0.5)
    expected = float(np.mean(0.5 / P * R))
    yield "probabilities", expected, lambda _: value(lambda x: half[: len(x)])
    yield "an array", expected, lambda _: value(half)
    yield "lists", expected, lambda _: value(half.tolist())
    yield "single precision", expected, lambda _: value(lambda x: half[: len(x)].astype(np.float32))
    yield (
        "a frame named by actions",
        expected,
        lambda _: value(lambda x: pd.DataFrame(half[: len(x)], columns=["0", "1"])),
    )
    for name, answer, words in [
        ("sums to 1.1", lambda x: np.full((len(x), 2), 0.55), "do not sum to 1"),
        ("sums to 0", lambda x: np.zeros((len(x), 2)), "do not sum to 1"),
        ("negative", lambda x: np.tile([-0.5, 1.5], (len(x), 1)), "negative"),
        ("NaN", lambda x: np.full((len(x), 2), np.nan), "NaN"),
        ("infinite", lambda x: np.full((len(x), 2), np.inf), "infinite"),
        ("three columns", lambda x: np.full((len(x), 3), 1 / 3), "shape"),
        ("one column", lambda x: np.ones((len(x), 1)), "shape"),
        ("a row too few", lambda x: np.full((max(len(x) - 1, 0), 2), 0.5), "shape|labels|rows"),
        ("text", lambda x: np.full((len(x), 2), "a"), "numbers"),
        ("objects", lambda x: np.array([[None, 1]] * len(x)), "numbers|missing"),
        ("complex", lambda x: np.full((len(x), 2), 0.5 + 0j), "numbers"),
        ("masked", lambda x: np.ma.array(np.full((len(x), 2), 0.5), mask=True), "masked"),
        ("nothing", lambda x: None, "shape|not|rows"),
        ("a number", lambda x: 0.5, "shape|labels|rows"),
        ("unknown labels", lambda x: ["z"] * len(x), "not an action"),
        ("missing labels", lambda x: [None] * len(x), "missing"),
        ("a frame of other names", lambda x: pd.DataFrame({"u": x, "v": x}), "Name its columns"),
        ("another index", lambda x: pd.Series(np.ones(len(x), int), index=np.arange(len(x)) + 7), "index|^$"),
        ("raises KeyError", lambda x: {}["segment"], "failed on row 0 with KeyError"),
        ("raises MemoryError", lambda x: (_ for _ in ()).throw(MemoryError("all of it")), "MemoryError"),
        ("draws", lambda x: np.random.default_rng().integers(2, size=len(x)), "different probabilities"),
        ("ranks rows", lambda x: (np.argsort(np.argsort(x)) >= len(x) / 2).astype(int), "different probabilities"),
        ("scales over rows", lambda x: np.column_stack([x / x.sum(), 1 - x / x.sum()]), "different prob|negative"),
    ]:
        if name == "another index":
            continue  # arrays have no index; frames are tried in test_strict_logs
        yield name, words, lambda _, answer=answer: value(answer)
    yield "keeps state", "in a second call", lambda _: value(Stateful())
    for name, given, words in [
        ("choices of 1.7", 1.7, "not whole numbers"),
        ("choices of NaN", np.nan, "not whole numbers"),
        ("choices of 2", 2, "out of range"),
        ("choices of -1", -1, "out of range"),
        ("choices of text", "1", "integers"),
    ]:
        yield name, words, lambda _, g=given: value(Gives("choices", lambda x: np.full(len(x), g)))
    for name, given, words in [
        ("a class", Stateful, "is the class"),
        ("a number", 3, "is not a policy"),
        ("none", None, "is not a policy"),
        ("no policies", {}, "empty"),
        ("an array of another log", np.full((N + 1, 2), 0.5), "shape|rows"),
        ("a name that is empty", {"": half}, "non-empty"),
        ("the name of the log", {"(logging policy)": half}, "log"),
        ("unknown words", "allways:0", "column|words|not"),
        ("a list of numbers", [1, 2, 3], "shape|rows|labels"),
        ("shares that sum to 2", {"new": {0: 1.0, 1: 1.0}}, "sum"),
    ]:
        yield f"given {name}", words, lambda _, g=given: op.evaluate(log(), g, estimators=["IPW"])


class Learner(RegressorMixin, BaseEstimator):
    def __init__(self, answer: Any = None, fails: str = "") -> None:
        self.answer, self.fails = answer, fails

    def fit(self, X: Any, y: Any) -> Any:
        if self.fails == "fit":
            raise ZeroDivisionError("by nothing")
        if self.fails == "writes":
            y -= y.mean()
            X[:] = 0
        return self

    def predict(self, X: Any) -> Any:
        if self.fails == "predict":
            raise IndexError("beyond the end")
        return self.answer(len(X))


class Sums(ClassifierMixin, BaseEstimator):
    def __init__(self, total: float = 1.0, width: int = 0) -> None:
        self.total, self.width = total, width

    def fit(self, X: Any, y: Any) -> Any:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        k = len(self.classes_) + self.width
        return np.full((len(X), k), self.total / k)


def _models() -> Iterator[Row]:
    half = np.full((N, 2), 0.5)
    dr = float(np.mean(0.25 + R - 0.25 + (0.5 / P - 1) * (R - 0.25)))
    yield "a constant", dr, lambda _: value(half, reward_model=Learner(lambda n: np.full(n, 0.25)))
    yield ("predictions as a column", dr, lambda _: value(half, reward_model=Learner(lambda n: np.full((n, 1), 0.25))))
    yield "predictions as an array", dr, lambda _: value(half, reward_model=np.full((N, 2), 0.25))
    for name, model, words in [
        ("one too many", Learner(lambda n: np.zeros(n + 1)), "predict returned shape"),
        ("two columns", Learner(lambda n: np.zeros((n, 2))), "predict returned shape"),
        ("NaN", Learner(lambda n: np.full(n, np.nan)), "not finite"),
        ("infinite", Learner(lambda n: np.full(n, np.inf)), "not finite"),
        ("text", Learner(lambda n: ["a"] * n), "not numbers"),
        ("nothing", Learner(lambda n: None), "not numbers"),
        ("masked", Learner(lambda n: np.ma.array(np.zeros(n), mask=True)), "are masked"),
        ("fit raises", Learner(fails="fit"), "could not be fitted to 20 rows: ZeroDivisionError"),
        ("predict raises", Learner(fails="predict"), "predict failed on row 0"),
        ("probabilities sum to 1.04", Sums(1.04), "do not sum to 1"),
        ("probabilities sum to NaN", Sums(float("nan")), "do not sum to 1"),
        ("a class too many", Sums(1.0, 1), "classes"),
        ("a class, not an instance", Learner, "is the class"),
        ("a word", "rf", "reward_model= as a word is one of"),
        ("an array of another shape", np.zeros((N, 3)), "must have shape"),
        ("an array with NaN", np.full((N, 2), np.nan), "missing or infinite"),
        ("a number", 3, "reward_model= must be"),
    ]:
        yield f"reward model: {name}", words, lambda _, m=model: value(half, reward_model=m)
    for name, model, words in [
        ("probabilities sum to 1.04", Sums(1.04), "do not sum to 1"),
        ("a class too many", Sums(1.0, 1), "classes|shape"),
        ("a regressor", Learner(np.zeros), "must be a classifier"),
        ("a word", "forest", "must be|behavior_model"),
        ("an array of another shape", np.full((N, 3), 1 / 3), "shape"),
        ("an array that sums to 2", np.ones((N, 2)), "sum"),
        ("an array of zeros", np.tile([0.0, 1.0], (N, 1)), "0|zero|positive"),
    ]:
        yield f"behavior model: {name}", words, lambda _, m=model: value(half, behavior_model=m)


def _scores() -> Iterator[Row]:
    def run(score: Any, **declared: Any) -> Callable[[Path], Any]:
        return lambda _: op.evaluate(log(), np.full((N, 2), 0.5), estimators=[op.Estimator("mine", score, **declared)])

    yield "d.q undeclared", "uses d.q", run(lambda d: d.reward - d.q, needs={"behavior"})
    yield "d.v undeclared", "uses d.v", run(lambda d: d.v + 0, needs={"behavior"})
    yield "d.pi_b undeclared", "uses d.pi_b", run(lambda d: d.rho * d.reward, needs={"value"})
    yield "one number", "returned shape", run(lambda d: d.reward.mean())
    yield "one too many", "returned shape", run(lambda d: np.append(d.reward, 0))
    yield ("NaN in a row", "not finite", run(lambda d: np.where(np.arange(d.n) == 3, np.nan, d.reward)))
    yield "raises", "failed with KeyError", run(lambda d: {}["x"])
    yield "writes into rewards", "read-only", run(lambda d: d.reward.__setitem__(0, 1.0))
    yield ("split unknown", "split= must be", lambda _: op.Estimator("mine", lambda d: d.reward, split="third"))
    yield "score is no function", "must be a function", lambda _: op.Estimator("mine", 3)
    for name, given, words in [
        ("unknown", ["DLM"], "Did you mean"),
        ("twice", ["DML", "DML"], "twice"),
        ("none", [], "empty"),
        ("a number", [3], "takes names"),
    ]:
        yield (f"estimators {name}", words, lambda _, g=given: op.evaluate(log(), np.full((N, 2), 0.5), estimators=g))
    for name, options, words in [
        ("folds 1", {"folds": 1}, "folds"),
        ("folds 0", {"folds": 0}, "folds"),
        ("folds 10^6", {"folds": 10**6}, "folds"),
        ("repeats 0", {"repeats": 0}, "repeats"),
        ("seed -1", {"seed": -1}, "seed="),
        ("seed text", {"seed": "a"}, "seed="),
        ("discount 2", {"discount": 2.0}, "discount="),
        ("discount NaN", {"discount": float("nan")}, "discount="),
        ("n_jobs 0", {"n_jobs": 0}, "n_jobs="),
        ("value_model", {"value_model": 3}, "value_model= is for"),
    ]:
        yield (name, words, lambda _, o=options: op.evaluate(log(), np.full((N, 2), 0.5), estimators=["DML"], **o))


SOUND = "x,ad,click,p,new\n" + "".join(f"{i},{'ab'[i % 2]},{i % 3 % 2},.5,a\n" for i in range(30))
FLAGS = ["--context", "x", "--action", "ad", "--reward", "click", "--propensity", "p", "--policy", "new=new"]


def run_command(arguments: list[str]) -> str:
    """Standard error of a command that must end with code 1, without a traceback."""
    from offpolicy.cli import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = main(arguments)
        except SystemExit as ended:  # argparse
            code = 1 if ended.code else 0
    assert code == 1, (code, said.getvalue())
    assert "Traceback" not in said.getvalue()
    raise op.errors.UsageError(said.getvalue())


def _gates() -> Iterator[Row]:
    def run(gate: str) -> Callable[[Path], Any]:
        def check(folder: Path) -> Any:
            (folder / "log.csv").write_text(SOUND)
            return run_command(["evaluate", str(folder / "log.csv"), *FLAGS, "--estimator", "IPW", "--gate", gate])

        return check

    for gate in (
        "",
        "lift",
        "lift >",
        "> 0",
        "lift > zero",
        "lift > 0 > 1",
        "lift => 0",
        "__import__('os') > 0",
        "lift > nan",
        "lift > 1e999",
        "speed > 0",
        "lift > 0; exit",
        "lift > 0\x00",
    ):
        yield repr(gate), "gate|lift|Did you mean|number|no policy", run(gate)


def _run_files() -> Iterator[Row]:
    def run(text: str | bytes, *flags: str) -> Callable[[Path], Any]:
        def check(folder: Path) -> Any:
            (folder / "log.csv").write_text(SOUND)
            file = folder / "run.toml"
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
            return run_command(["evaluate", "--config", str(file), *flags])

        return check

    base = 'log = "log.csv"\ncontext = ["x"]\naction = "ad"\nreward = "click"\npropensity = "p"\n'
    policies = '[policies]\nnew = "new"\n'
    for name, text, words in [
        ("not TOML", "log = ", "not valid TOML"),
        ("cut off", base + "[policies", "not valid TOML"),
        ("Latin-1", "log = 'é'".encode("latin-1"), "not valid TOML|UTF-8"),
        ("UTF-16", base.encode("utf-16"), "TOML|UTF-8"),
        ("an unknown setting", base + "acton = 1\n" + policies, "unknown setting"),
        ("policies are a list", base + 'policies = ["a"]\n', "policies|table"),
        (
            "memory_limit with SQL",
            base + "memory_limit = \"1GB'; COPY (SELECT 1) TO 'x.csv'; --\"\nengine = 'duckdb'\n" + policies,
            "must be a size",
        ),
        ("an engine that is none", base + "engine = 'postgres; DROP'\n" + policies, "engine"),
        ("a log elsewhere", base.replace("log.csv", "none.csv") + policies, "no file"),
        ("a log on the network", base.replace("log.csv", "https://example.org/log.csv") + policies, "network|no file"),
        ("a reward model", base + 'reward_model = "rf"\n' + policies, "unknown setting|reward_model"),
        ("context is a number", base.replace('["x"]', "3") + policies, "context|column|list|text"),
        ("action is a list", base.replace('"ad"', '["ad"]') + policies, "action|column|text"),
        ("estimators unknown", base + 'estimators = ["DLM"]\n' + policies, "Did you mean"),
        ("level 7", base + "level = 7\n" + policies, "level"),
        ("nested 2,000 deep", "a = " + "[" * 2_000, "not valid TOML|nested"),
        ("nothing", "", "which log"),
    ]:
        yield name, words, run(text)
    yield ("no such run file", "no run file", lambda f: run_command(["evaluate", "--config", str(f / "none.toml")]))


def _commands() -> Iterator[Row]:
    import inputs

    for name, content, file, words in inputs.BYTES:
        if name in {"semicolons", "tabs", "bars", "header only"}:
            continue  # the command line asks or finds out

        def run(folder: Path, content: Any = content, file: str = file) -> Any:
            (folder / file).write_bytes(content(folder) if callable(content) else content)
            return run_command(
                ["evaluate", str(folder / file), *FLAGS[:-2], "--policy", "uniform", "--estimator", "IPW"]
            )

        yield f"evaluate: {name}", f"{words}|UTF-8|empty|cut off|damaged", run
    for name, arguments in [
        ("no such log", ["evaluate", "none.csv", *FLAGS]),
        ("no log", ["evaluate", *FLAGS]),
        ("a folder", ["evaluate", "/tmp", *FLAGS]),
        ("no such column", ["check", "LOG", *FLAGS[:4], "--reward", "clik"]),
        ("memory limit", ["evaluate", "LOG", *FLAGS, "--engine", "duckdb", "--memory-limit", "much"]),
        ("report elsewhere", ["evaluate", "LOG", *FLAGS, "--report", "/nowhere/x.html"]),
        ("unknown format", ["convert", "LOG", "out.xlsx", "--from", "jsonl"]),
    ]:

        def command(folder: Path, arguments: list[str] = arguments) -> Any:
            (folder / "log.csv").write_text(SOUND)
            return run_command([str(folder / "log.csv") if a == "LOG" else a for a in arguments])

        yield name, r"\w", command


AREAS: dict[str, Callable[[], Iterator[Row]]] = {
    "policies": _policies,
    "models": _models,
    "scores and arguments": _scores,
    "gates": _gates,
    "run files": _run_files,
    "command line": _commands,
}
