"""Monte Carlo studies: the same numbers on any number of workers, resumable, with honest errors."""

import json

import numpy as np
import pytest

from offpolicy.errors import UsageError
from offpolicy_studies.coverage.study import Cell, replicate
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
    assert json.loads(out.read_text().splitlines()[0]) == {"seed": 1, "folds": 2}
    with pytest.raises(UsageError, match="another run"):
        simulate(draw, CELLS, 2, seed=1, workers=1, out=out, settings={"folds": 3})


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
