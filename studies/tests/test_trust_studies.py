"""False alarms and corruptions: clean worlds of every kind, defects that spoil, and what the tables say."""

import numpy as np
import pytest

from offpolicy.errors import UsageError
from offpolicy_studies.names import chosen
from offpolicy_studies.trust import corruptions, false_alarms, fitted, learned
from offpolicy_studies.trust.defects import DEFECTS
from offpolicy_studies.trust.worlds import WORLDS


def test_there_are_enough_worlds_and_defects():
    assert len(WORLDS) >= 20
    assert sum(d.seen for d in DEFECTS.values()) >= 12
    assert not any("," in name for name in (*WORLDS, *DEFECTS))


@pytest.mark.parametrize("name", ["softmax / normal", "sticky sessions", "decaying ε", "weights"])
def test_propensities_of_clean_worlds_are_those_of_the_draws(name):
    """Each action comes as often as 1/p says, on average over logs."""
    totals = []
    for seed in range(20):
        frame = WORLDS[name].draw(np.random.default_rng(seed)).frame
        totals.append((1 / frame["p"])[frame["a"] == "arm 01"].sum() / len(frame))
    assert np.mean(totals) == pytest.approx(1, abs=4 * np.std(totals) / np.sqrt(20))


def test_a_short_run_of_both(tmp_path):
    options = false_alarms.Args(replications=1, worlds=("uniform",), workers=1, out=tmp_path / "a")
    result = false_alarms.reproduce(options)
    assert set(result["worlds"]) == {"uniform / binary", "uniform / normal"}
    assert "| `balance` | 2 |" in (tmp_path / "a" / "table.md").read_text(encoding="utf-8")
    asked = corruptions.Args(replications=1, defects=("permuted",), workers=1, out=tmp_path / "b")
    found = corruptions.reproduce(asked)["defects"]["permuted propensities"]
    assert found["refused"][0] == 1
    again = corruptions.reproduce(asked)["defects"]["permuted propensities"]
    assert again == found


def test_shares_are_counted_by_check_and_by_world():
    def log(verdict, **raised):
        return {"verdict": verdict, "raised": raised, "checks": ["balance"], "grounds": []}

    drawn = {"x": [log("trust")] * 9 + [log("caution", balance="alarm")], "y": [log("trust")] * 10}
    worst = false_alarms.by_check(drawn)["balance"]
    assert (worst["share"][0], worst["worst"][0], worst["where"]) == (0.05, 0.1, "x")
    assert false_alarms.of_world(drawn["x"])["not trusted"][0] == pytest.approx(0.1)


def test_worlds_by_the_beginning_of_their_names():
    assert chosen(["unk"], WORLDS) == [w for w in WORLDS if w.startswith("unknown")]
    with pytest.raises(UsageError, match="no world is called"):
        chosen(["nowhere"], WORLDS)


def test_fitted_propensities_are_counted_world_by_world(tmp_path):
    options = fitted.Args(replications=2, rows=400, worlds=("logit", "40 cities"), workers=1, out=tmp_path)
    answer = fitted.reproduce(options)
    assert [w["logs"] for w in answer["worlds"].values()] == [2, 2]
    assert "| 40 cities |" in (tmp_path / "table.md").read_text("utf-8")


@pytest.mark.parametrize("name", fitted.WORLDS)
def test_worlds_of_fitted_propensities_are_distributions_whose_truth_is_that_of_their_rewards(name):
    drawn = fitted.WORLDS[name](np.random.default_rng(0), 50_000)
    np.testing.assert_allclose(drawn.behavior.sum(axis=1), 1)
    np.testing.assert_allclose(drawn.target.sum(axis=1), 1)
    assert drawn.behavior.min() > 0.02 or name in {"logit", "three actions"}
    values = (drawn.reward * drawn.target).sum(axis=1)
    assert abs(values.mean() - fitted.truth(name)) < 5 * values.std() / np.sqrt(50_000)


def test_learned_policies_are_judged_on_their_own_rows_and_on_others(tmp_path):
    options = learned.Args(replications=1, rows=500, worlds=("users",), workers=1, out=tmp_path)
    answer = learned.reproduce(options)
    found = answer["policies"]["users"]
    assert found["own rows: forest"]["raised"][0] == 1
    assert found["own rows: lookup by user"]["raised"][0] == 1
    assert {name.split(":")[0] for name in found} == {"own rows", "other rows", "rule"}
    assert "| own rows |" in learned.show(answer)


@pytest.mark.parametrize("name", learned.WORLDS)
def test_worlds_of_learned_policies_are_as_they_say(name):
    one, other = learned.WORLDS[name](np.random.default_rng(0), 300)
    for drawn in (one, other):
        np.testing.assert_allclose(drawn.behavior.sum(axis=1), 1)
        assert drawn.means.shape == drawn.behavior.shape == (300, drawn.means.shape[1])
    assert not (one.context == other.context).all(axis=1).any()
