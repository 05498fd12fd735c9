"""Monte Carlo studies: the same numbers on any number of workers, resumable, with honest errors."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy_studies import choice
from offpolicy_studies.coverage.study import Cell, replicate
from offpolicy_studies.digests import digest
from offpolicy_studies.monte_carlo import mean, root_mean_square, share, simulate


def draw(scale, rng):
    """One normal draw."""
    return float(scale * rng.standard_normal())


CELLS = {"one": 1.0, "ten": 10.0}


def test_any_number_of_workers_gives_the_same_numbers():
    cells = {"small": Cell("60 rows / continuous", folds=2, quick=True)}
    alone = simulate(replicate, cells, 12, seed=3, workers=1)
    # As text, since a number that is not defined does not equal itself.
    assert json.dumps(alone) == json.dumps(simulate(replicate, cells, 12, seed=3, workers=2))


def test_seeds_cells_and_replications_have_their_own_random_numbers():
    found = simulate(draw, CELLS, 23, seed=3, workers=1)
    other = simulate(draw, CELLS, 23, seed=4, workers=1)
    numbers = [x / CELLS[k] for results in (found, other) for k in CELLS for x in results[k]]
    assert len(set(np.round(numbers, 12))) == 4 * 23


def test_an_interrupted_run_is_taken_up_where_it_stopped(tmp_path):
    out = tmp_path / "deep" / "replications.jsonl"
    whole = simulate(draw, CELLS, 12, seed=1, workers=1)
    simulate(draw, {"one": 1.0}, 5, seed=1, workers=1, out=out)
    with out.open("a") as stream:
        stream.write('{"cell": "one", "replic')
    calls = []

    def counted(scale, rng):
        calls.append(scale)
        return draw(scale, rng)

    assert simulate(counted, CELLS, 12, seed=1, workers=1, out=out) == whole
    assert (calls.count(1.0), calls.count(10.0)) == (7, 12)
    assert simulate(counted, CELLS, 12, seed=1, workers=1, out=out) == whole
    assert len(calls) == 19


def test_a_file_of_another_run_is_refused(tmp_path):
    out = tmp_path / "r.jsonl"
    simulate(draw, CELLS, 2, seed=1, workers=1, out=out, settings={"folds": 2})
    first = json.loads(out.read_text().splitlines()[0])
    assert first == {"seed": 1, "folds": 2, "offpolicy_version": op.__version__}
    with pytest.raises(UsageError, match="another run"):
        simulate(draw, CELLS, 2, seed=1, workers=1, out=out, settings={"folds": 3})


def test_a_file_of_another_version_is_refused_and_one_that_names_none_is_taken_up(tmp_path):
    out = tmp_path / "r.jsonl"
    whole = simulate(draw, CELLS, 3, seed=1, workers=1, out=out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    old = [{k: v for k, v in line.items() if k not in {"offpolicy_version", "input"}} for line in lines]
    out.write_text("".join(json.dumps(line) + "\n" for line in old[:4]))
    assert simulate(draw, CELLS, 3, seed=1, workers=1, out=out) == whole
    other = [{**lines[0], "offpolicy_version": "0.0.1"}, *lines[1:]]
    out.write_text("".join(json.dumps(line) + "\n" for line in other))
    with pytest.raises(UsageError, match=r"version 0\.0\.1"):
        simulate(draw, CELLS, 3, seed=1, workers=1, out=out)


def of_file(path, rng):
    """One draw scaled by what a file says."""
    return float(path.read_text()) * float(rng.standard_normal())


def test_a_file_of_another_input_is_refused(tmp_path):
    data, out = tmp_path / "scale.txt", tmp_path / "out" / "r.jsonl"
    data.write_text("1.0")
    simulate(of_file, {"a": data}, 2, workers=1, out=out)
    assert len(simulate(of_file, {"a": data}, 3, workers=1, out=out)["a"]) == 3
    data.write_text("2.0")
    with pytest.raises(UsageError, match=r"what 'a' is made from"):
        simulate(of_file, {"a": data}, 4, workers=1, out=out)


@dataclass(frozen=True)
class Made:
    folder: Path
    table: np.ndarray
    rows: int = 3


def test_an_input_is_known_by_its_content(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name / "sets").mkdir(parents=True)
        (tmp_path / name / "sets" / "a.csv").write_text("1,2")
    known = digest(Made(tmp_path / "here", np.arange(3.0)))
    assert digest(Made(tmp_path / "there", np.arange(3.0))) == known
    assert digest(Made(tmp_path / "here", np.arange(3))) != known
    assert digest(Made(tmp_path / "here", np.arange(3.0), rows=4)) != known
    (tmp_path / "here" / "sets" / "a.csv").write_text("1,2,3")
    assert digest(Made(tmp_path / "here", np.arange(3.0))) != known
    assert digest(draw) != digest(of_file)
    assert digest(["ab", "c"]) != digest(["a", "bc"])


def test_monte_carlo_errors_are_the_spread_over_studies():
    rng = np.random.default_rng(0)
    x = rng.normal(1, 2, size=(3000, 50))
    for measure, truth in ((mean, 1.0), (root_mean_square, 5**0.5)):
        found = np.array([measure(row) for row in x])
        assert found[:, 0].mean() == pytest.approx(truth, rel=0.03)
        assert found[:, 1].mean() == pytest.approx(found[:, 0].std(), rel=0.1)


def test_a_share_of_nothing_or_everything_still_has_an_error():
    assert share(np.ones(100, dtype=bool)).value == 1
    assert 0.005 < share(np.ones(100, dtype=bool)).error < 0.02
    assert np.isnan(share(np.array([])).value)


def test_replications_must_be_positive():
    with pytest.raises(UsageError, match="at least 1"):
        simulate(draw, CELLS, 0)


def test_a_cell_is_its_own_files_and_not_its_neighbors(tmp_path):
    (tmp_path / "glass.data").write_text("1,2\n")
    cell = choice.Cell(tmp_path, "glass", 5)
    before = digest(cell)
    (tmp_path / "ecoli.data").write_text("x\n")
    assert digest(cell) == before
    (tmp_path / "glass.data").write_text("1,3\n")
    assert digest(cell) != before
