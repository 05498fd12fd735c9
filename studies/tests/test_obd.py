"""The Open Bandit study: file layouts, policies by position, relative errors, overlap."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

import offpolicy as op
from offpolicy import Estimate
from offpolicy.errors import DataError, UsageError
from offpolicy_studies import obd
from offpolicy_studies.folder import VARIABLE

SAMPLE = Path(__file__).parents[3] / "shared" / "data"
needs_sample = pytest.mark.skipif(
    not (SAMPLE / "obd").is_dir(), reason="the Open Bandit sample is not in ../shared/data beside the repository"
)


def write_arm(root, policy, *, campaign="men", rows=600, items=5, packed=False, name="propensity_score"):
    """One arm in the published layout, affinity columns included."""
    rng = np.random.default_rng(0 if policy == "bts" else 1)
    p = np.full(items, 1 / items)
    if policy == "bts":
        p = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    lines = [f",timestamp,item_id,position,click,{name}," + ",".join(obd.USER) + ",user-item_affinity_0"]
    for i in range(rows):
        item = rng.choice(items, p=p)
        click = int(rng.random() < 0.1 + 0.05 * item)
        users = ",".join(f"hash{rng.integers(2)}" for _ in obd.USER)
        time = "2019-11-24 00:00:17.004101+00:00"
        lines.append(f"{i},{time},{item},{rng.integers(1, 4)},{click},{p[item]},{users},0.0")
    folder = root / policy / campaign
    folder.mkdir(parents=True)
    text = "\n".join(lines) + "\n"
    if packed:
        (folder / f"{campaign}.csv.gz").write_bytes(gzip.compress(text.encode()))
    else:
        (folder / f"{campaign}.csv").write_text(text)


@pytest.fixture
def root(tmp_path):
    write_arm(tmp_path, "bts", packed=True)
    write_arm(tmp_path, "random", name="action_prob")
    return tmp_path


def test_both_layouts_and_both_propensity_names(root):
    bts, random = (obd.load(root, p, "men") for p in obd.POLICIES)
    assert (bts.n, random.n, len(bts.actions)) == (600, 600, 5)
    assert np.allclose(random.propensity, 0.2)
    assert set(np.unique(bts.propensity)) <= {0.5, 0.2, 0.15, 0.1, 0.05}


def test_whole_study_on_a_small_world(root, tmp_path):
    out = tmp_path / "out"
    answer = obd.reproduce(obd.Args(data=root, campaigns=("men",), out=out))
    assert [(r["source"], r["target"]) for r in answer["results"]] == [("bts", "random"), ("random", "bts")]
    for r in answer["results"]:
        assert set(r["estimates"]) == set(obd.ESTIMATORS)
        for name in ("IPW", "SNIPW", "DML", "DR-full"):
            assert abs(r["estimates"][name]["z"]) < 4
    stored = json.loads((out / "results.json").read_text())
    assert stored == {**answer, "offpolicy_version": op.__version__}
    assert "| DML |" in (out / "table.md").read_text()
    assert obd.show(answer) == (out / "table.md").read_text()


def test_ipw_by_a_plain_loop(root):
    answer = obd.reproduce(obd.Args(data=root, campaigns=("men",)))
    log, other = (obd.load(root, p, "men") for p in ("random", "bts"))
    position = log.context.table["position"].to_numpy()
    elsewhere = other.context.table["position"].to_numpy()
    total = 0.0
    for i in range(log.n):
        same = elsewhere == position[i]
        share = np.mean(other.action[same] == log.action[i])
        total += share / 0.2 * log.reward[i]
    found = answer["results"][1]["estimates"]["IPW"]["value"]
    assert found == pytest.approx(total / log.n)


def test_items_unseen_in_one_arm_are_still_items(root):
    path = root / "random" / "men" / "men.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if line.split(",")[2] != "4") + "\n")
    answer = obd.reproduce(obd.Args(data=root, campaigns=("men",)))
    assert [r["items"] for r in answer["results"]] == [5, 5]


def test_relative_error_has_both_sides(root):
    rng = np.random.default_rng(0)
    a, b = Estimate.from_scores(rng.random(50)), Estimate.from_scores(rng.random(80))
    error, se = obd.relative_error(a, b)
    assert error == pytest.approx(a.value / b.value - 1)
    draws = rng.normal(a.value, a.std_error, 400_000) / rng.normal(b.value, b.std_error, 400_000)
    assert se == pytest.approx(draws.std(), rel=0.03)
    nothing = Estimate.from_scores([0.0, 0.0])
    assert math.isnan(obd.relative_error(a, nothing)[0])


def test_where_the_data_are(root, monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(UsageError, match=VARIABLE):
        obd.find_data()
    monkeypatch.setenv(VARIABLE, str(root))
    assert obd.find_data() == root
    with pytest.raises(DataError, match="no bts/ and random/"):
        obd.find_data(tmp_path / "bts")


def test_missing_file_and_column(root):
    with pytest.raises(DataError, match=r"women\.csv"):
        obd.load(root, "bts", "women")
    path = root / "random" / "men" / "men.csv"
    path.write_text(path.read_text().replace("action_prob", "probability"))
    with pytest.raises(DataError, match="propensity_score"):
        obd.load(root, "random", "men")
    path.write_text(path.read_text().replace(",click,", ",clicked,"))
    with pytest.raises(DataError, match="'click'"):
        obd.load(root, "random", "men")


def test_misspelled_campaign(root):
    with pytest.raises(UsageError, match="Did you mean 'women'"):
        obd.reproduce(obd.Args(data=root, campaigns=("woman",)))


@needs_sample
@pytest.mark.parametrize(
    ("campaign", "items", "effective", "clicks"), [("all", 80, 340, 42), ("men", 34, 656, 69), ("women", 46, 2, 46)]
)
def test_published_sample(campaign, items, effective, clicks):
    log = obd.load(obd.find_data(SAMPLE), "bts", campaign)
    assert (log.n, len(log.actions), log.reward.sum()) == (10_000, items, clicks)
    policy = obd.ByPosition.uniform(("1", "2", "3"), items)
    found = obd.overlap(op.evaluate(log, {"random": policy}, estimators=["IPW"]), "random")
    assert round(found["effective_n"]) == effective
    if campaign == "women":
        assert any(w.startswith("alarm") and "69.4%" in w for w in found["warnings"])


@needs_sample
def test_random_arm_of_the_sample_is_uniform():
    for campaign, items in (("all", 80), ("men", 34), ("women", 46)):
        log = obd.load(obd.find_data(SAMPLE), "random", campaign)
        assert np.allclose(log.propensity, 1 / items)
