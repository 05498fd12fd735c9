"""Published logs with known faults: Upworthy's labelled bug, and a sample without overlap."""

from pathlib import Path

import numpy as np
import pytest

import offpolicy as op
from offpolicy.trust import check_log

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
ALPHA = 0.001
# The archive's authors date the bug from 25 June 2013 to 10 January 2014: ISO weeks 26 of 2013 to 2 of
# 2014. The archive numbers weeks from 0.
FIRST, LAST = 201325, 201401


@pytest.fixture(scope="module")
def upworthy():
    path = DATA / "upworthy" / "upworthy_clean.parquet"
    if not path.exists():
        pytest.skip("the Upworthy archive is not in ../shared/data/upworthy")
    pd = pytest.importorskip("pandas")
    return pd.read_parquet(path)


def test_sample_ratio_mismatch_in_the_upworthy_archive(upworthy):
    """One batch a test, one action a package, with equal chances; clicks and the rest are counted rows."""
    name = "clickability_test_id"
    packages = upworthy.groupby(name)
    arm = packages.cumcount().to_numpy()
    chance = 1.0 / packages["headline"].transform("size").to_numpy()
    clicks, views = upworthy["clicks"].to_numpy(), upworthy["impressions"].to_numpy()
    test = upworthy[name].to_numpy(dtype=object)
    count = np.concatenate([clicks, views - clicks])
    held = count > 0
    log = op.BanditLog.from_arrays(
        None,
        np.tile(arm, 2)[held],
        np.repeat([1.0, 0.0], len(arm))[held],
        np.tile(chance, 2)[held],
        batch=np.tile(test, 2)[held],
        count=count[held],
    )
    found = check_log(log)["sample_ratio_mismatch"]
    assert found.level == "alarm"
    p = found.details["batches"]
    week = upworthy.drop_duplicates(name).set_index(name)["test_week"]
    week = week[week.index.isin(list(p))]
    flagged = np.array([p[t] < ALPHA for t in week.index])
    inside = week.between(FIRST, LAST).to_numpy()
    after = (week > LAST).to_numpy()
    assert inside.sum() > 900
    assert after.sum() > 3000
    assert flagged[inside].mean() > 0.60
    assert flagged[after].mean() < 0.01


@pytest.mark.parametrize("campaign", ["all", "men", "women"])
def test_open_bandit_sample(campaign):
    """Effective sample sizes 340, 656 and 2: the last is refused, and the reason names it."""
    path = DATA / "obd" / "bts" / campaign / f"{campaign}.csv.gz"
    if not path.exists():
        pytest.skip("the Open Bandit sample is not in ../shared/data/obd")
    pd = pytest.importorskip("pandas")
    log = op.BanditLog.from_frame(
        pd.read_csv(path), context=["position"], action="item_id", reward="click", propensity="propensity_score"
    )
    ev = op.evaluate(log, op.policies.Uniform(), estimators=["SNIPW", "IPW"])
    size = float(ev.diagnostics["effective_sample_size"])
    verdict = ev.verdict()
    assert size == pytest.approx({"all": 340, "men": 656, "women": 2}[campaign], abs=0.6)
    assert (verdict.level == "insufficient evidence") == (campaign == "women")
    if campaign == "women":
        assert "2.08 of its 10,000 units" in verdict.reasons[0]
        assert "69.4%" in ev.diagnostics["largest_weight_share"].sentence
