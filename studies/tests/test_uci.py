"""Classification sets as bandits: exact values, unbiased draws, pairing, and the study on the real sets."""

from pathlib import Path

import numpy as np
import pytest

from offpolicy.errors import UsageError
from offpolicy_studies import uci
from offpolicy_studies import uci_bandits as bandits

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(
    not (DATA / "uci").is_dir(), reason="the UCI sets are not in ../shared/data beside the repository"
)


@pytest.fixture
def folder(tmp_path):
    """A made-up set in the layout of the glass file: an id, features, a label."""
    rng = np.random.default_rng(0)
    label = rng.integers(3, size=300)
    X = rng.normal(size=(300, 4)) + 2 * np.eye(3, 4)[label]
    lines = [
        ",".join([str(i), *(f"{x:.4f}" for x in row), f"c{y}"]) for i, (row, y) in enumerate(zip(X, label, strict=True))
    ]
    (tmp_path / "glass.data").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_reading_leaves_out_the_id(folder):
    X, y = bandits.read(folder, "glass")
    assert X.shape == (300, 4)
    assert sorted(set(y)) == [0, 1, 2]
    with pytest.raises(UsageError, match="no data set is called"):
        bandits.read(folder, "glas")


def test_policies_are_distributions_and_values_exact(folder):
    pool = bandits.make_pool(folder, "glass", 0)
    assert len(pool.label) == 210
    for table in (*pool.logging.values(), *pool.targets.values()):
        assert table.shape == (210, 3)
        assert table.sum(axis=1) == pytest.approx(1)
    hits = sum(pool.targets["greedy"][i, y] for i, y in enumerate(pool.label))
    assert pool.value("greedy") == pytest.approx(hits / 210)
    assert min(t.min() for t in pool.logging.values()) >= bandits.EXPLORATION / 3 - 1e-12


def test_weighted_rewards_of_a_long_log_are_the_exact_value(folder):
    pool = bandits.make_pool(folder, "glass", 0)
    log, targets = pool.draw("adverse", 100_000, np.random.default_rng(1))
    w = targets["greedy"][np.arange(log.n), log.action] / log.propensity
    error = (w * log.reward).std() / np.sqrt(log.n)
    assert abs((w * log.reward).mean() - pool.value("greedy")) < 4 * error
    assert abs(w.mean() - 1) < 4 * w.std() / np.sqrt(log.n)


def test_pairing_is_the_t_statistic_of_differences_over_cells():
    rng = np.random.default_rng(0)
    cells = [rng.normal(size=(40, 2)) ** 2 for _ in range(3)]
    gaps = [x[:, 0] - x[:, 1] for x in cells]
    expected = sum(g.mean() for g in gaps) / np.sqrt(sum(g.var(ddof=1) / 40 for g in gaps))
    assert uci.paired(cells, 0, 1) == pytest.approx(expected)


def test_coverage_of_a_set_counts_answered_results_only():
    blank = np.zeros((4, len(uci.ESTIMATORS), 5))
    blank[:, :, 2] = 1.0
    results = {(f"glass/{b}", t): blank.copy() for b in bandits.LOGGING for t in bandits.TARGETS}
    j = uci.ESTIMATORS.index("DML")
    results["glass/skewed", "soft"][:2, j, 2] = 0.0
    for t in bandits.TARGETS:
        results["glass/uniform", t][:, j, 3] = 1.0
        results["glass/skewed", t][:, j, 4] = results["glass/adverse", t][:, j, 4] = 1.0
    found = uci.coverage("glass", "DML", results)
    assert found["normal"]["skewed"].value == 0.75
    assert found["normal_without_adverse"].value == 0.875
    assert found["default"].value == 1.0
    assert found["refused"] == pytest.approx(2 / 3)


def test_a_small_run_reports_every_estimator_and_resumes(folder, tmp_path):
    options = uci.Args(folder, ("glass",), replications=3, workers=1, out=tmp_path / "out")
    result = uci.reproduce(options)
    assert len(result["cells"]) == 6
    assert set(result["cells"][0]["estimators"]) == set(uci.ESTIMATORS)
    assert uci.reproduce(options)["cells"] == result["cells"]
    text = uci.show(result)
    assert text.count("| glass |") == 6 * len(uci.ESTIMATORS) + 4 + 2
    assert (tmp_path / "out" / "table.md").read_text().strip() == text


@needs_data
@pytest.mark.parametrize("name", bandits.SETS)
def test_every_set_is_read(name):
    X, y = bandits.read(DATA / "uci", name)
    sizes = {"ecoli": 336, "glass": 214, "page-blocks": 5473, "pendigits": 10992, "vehicle": 846}
    assert len(X) == sizes[name]
    assert np.isfinite(X).all()
    assert len(np.unique(y)) == {"ecoli": 8, "glass": 6, "page-blocks": 5, "pendigits": 10, "vehicle": 4}[name]


def test_sets_of_several_files_and_labels_that_come_first(tmp_path):
    (tmp_path / "letter-recognition.data").write_text("T,2,8\nA,1,5\n")
    X, y = bandits.read(tmp_path, "letter")
    assert (X == [[2, 8], [1, 5]]).all()
    assert y.tolist() == [1, 0]
    (tmp_path / "sat.trn").write_text("92 115 3\n")
    (tmp_path / "sat.tst").write_text("80 102 7\n84 103 3\n")
    X, y = bandits.read(tmp_path, "satimage")
    assert (X == [[92, 115], [80, 102], [84, 103]]).all()
    assert y.tolist() == [0, 1, 0]
    (tmp_path / "yeast.data").write_text("ADT1_YEAST  0.58  0.61  MIT\n")
    assert bandits.read(tmp_path, "yeast")[0].tolist() == [[0.58, 0.61]]


@pytest.mark.verify
@needs_data
def test_dml_covers_and_the_default_is_not_beaten_by_snipw():
    result = uci.reproduce(uci.Args(DATA, ("vehicle", "glass"), replications=100, workers=0))
    for cell in result["cells"]:
        rows = cell["estimators"]
        if cell["logging"] != "adverse":
            assert rows["DML"]["coverage"][0] > 0.86
        assert rows["auto"]["rmse"][0] < 1.1 * rows["SNIPW"]["rmse"][0]
