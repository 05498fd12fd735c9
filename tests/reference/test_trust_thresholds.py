"""The one table of thresholds, row by row, and on which side of each limit a value lies."""

from __future__ import annotations

import math

import pytest

from offpolicy.decide import replay_checks  # noqa: F401, it declares checks
from offpolicy.kinds import label_checks, long_term  # noqa: F401, they declare checks
from offpolicy.trust import CHECKS, Threshold
from offpolicy.trust.finding import judged, not_applicable

INF = math.inf
#: caution, alarm, side, chance of a false alarm, and what the check is about: d(ecides), a(dvice), p(roducts),
#: m(arginals), r(each).
TABLE = {
    "mean_weight": (0.02, 0.1, "above", 0.001, "dpr"),
    "mean_weight_z": (3.3, 5.0, "above", 0.001, "p"),
    "mean_weight_by_action": (4.0, 6.0, "above", 0.001, ""),
    "mean_weight_by_batch": (4.0, 6.0, "above", 0.001, ""),
    "effective_sample_size": (100.0, 10.0, "below", None, "dpr"),
    "largest_weight": (INF, INF, "above", None, ""),
    "largest_weight_share": (0.05, 0.3, "above", None, "dpr"),
    "top_share": (0.2, INF, "above", None, "ap"),
    "top_unit_share": (0.2, 0.5, "above", None, "p"),
    "pareto_k": (0.5, 0.7, "above", 0.01, "dpr"),
    "unsupported_mass": (0.001, 0.05, "above", 0.001, "dr"),
    "reward_model_r2": (-0.01, -INF, "below", None, "a"),
    "reward_model_calibration": (4.0, 8.0, "above", 0.0001, ""),
    "reward_model_by_batch": (4.0, INF, "above", 0.0001, ""),
    "behavior_log_loss": (4.0, 6.0, "above", 0.0001, ""),
    "floored": (0.0, 0.01, "above", None, ""),
    "efficiency_ratio": (2.0, INF, "above", 0.001, "ap"),
    "horizon": (1.0, -INF, "below", None, ""),
    "unseen_pairs": (0.02, INF, "above", None, "d"),
    "value_model_skill": (0.0, -INF, "below", None, "a"),
    "sample_ratio_mismatch": (0.002, 0.0001, "below", 0.002, "d"),
    "balance": (0.001, 0.0001, "below", 0.001, "d"),
    "leaks": (0.5, 0.5, "above", 0.001, "d"),
    "identifying_columns": (0.02, INF, "above", None, "a"),
    "rounded_propensities": (0.05, 0.25, "above", None, ""),
    "propensity_calibration": (4.0, 6.0, "above", 0.0001, "d"),
    "deterministic_logging": (0.05, 0.999, "above", None, "a"),
    "unlogged_actions": (0.0, INF, "above", None, "a"),
    "rare_rewards": (30.0, -INF, "below", None, "a"),
    "duplicates": (0.001, 0.01, "above", 0.0001, ""),
    "near_duplicates": (0.001, 0.01, "above", 0.0001, ""),
    "reward_maturity": (0.8, 0.5, "below", 0.001, ""),
    "smoothing_bias": (1.0, 4.0, "above", 0.001, ""),
    "break_at_policy": (4.0, INF, "above", 0.01, "d"),
    "learned_from_log": (3.0, 3.0, "above", 0.001, "d"),
    "label_balance": (0.002, 0.0001, "below", 0.002, "d"),
    "effective_labels": (30.0, 5.0, "below", None, "d"),
    "proxy_skill": (0.0, -INF, "below", None, "a"),
    "proxy_preference": (4.0, INF, "above", 0.001, "a"),
    "history_overlap": (0.01, 0.1, "above", None, "d"),
    "surrogacy": (0.002, 0.0001, "below", 0.002, "d"),
    "reward_tail": (0.15, 0.25, "above", 0.01, "dp"),
    "batch_drift": (0.001, -INF, "below", 0.001, "a"),
    "model_remainder": (0.1, 0.75, "above", 0.01, "d"),
    "estimator_disagreement": (0.001, 0.0001, "below", 0.001, "d"),
    "coarse_ratio": (0.01, 0.001, "below", 0.01, "d"),
    "cell_leaning": (0.003, 0.001, "below", 0.003, "d"),
    "clipping_sensitivity": (1.0, INF, "above", None, "ap"),
    "confounding": (1.5, -INF, "below", None, "a"),
    "beyond_log": (0.01, 0.1, "above", None, "p"),
    "left_out_slots": (0.003, -INF, "below", 0.003, ""),
    "interaction_bias": (3.3, 5.0, "above", 0.01, "d"),
    "marginal_ratios": (3.0, 5.0, "above", None, "dm"),
    "learner_order": (0.5, INF, "above", None, ""),
    "learner_stability": (0.2, INF, "above", None, "a"),
    "replay_steps": (100.0, 30.0, "below", None, "d"),
    "logging_change": (0.001, -INF, "below", 0.001, ""),
}


def test_every_check_has_its_row():
    assert set(TABLE) == set(CHECKS)


@pytest.mark.parametrize("name", TABLE)
def test_limits_are_those_of_the_table(name):
    t = CHECKS[name].limits
    marks = {"d": t.decides, "a": t.advice, "p": t.about_products, "m": t.about_marginals, "r": t.about_reach}
    about = "".join(letter for letter, yes in marks.items() if yes)
    assert (t.caution, t.alarm, t.side, t.false_alarms) == TABLE[name][:4]
    assert sorted(about) == sorted(TABLE[name][4])
    assert judged(name, t.caution, "so.").level == "ok"


@pytest.mark.parametrize("name", TABLE)
def test_a_limit_may_be_reached_and_not_passed(name):
    caution, alarm, side, _, about = TABLE[name]
    off = INF if side == "above" else -INF
    beyond = "note" if "a" in about else "caution"

    def level(value):
        return judged(name, value, "so.").level

    if math.isfinite(caution):
        assert level(caution) == "ok"
        assert level(math.nextafter(caution, -off)) == "ok"
        assert level(math.nextafter(caution, off)) == (beyond if caution != alarm else "alarm")
    if math.isfinite(alarm):
        assert level(alarm) == (beyond if caution != alarm else "ok")
        assert level(math.nextafter(alarm, off)) == "alarm"
    assert level(math.nan) == "ok"


def test_what_is_not_said_of_a_threshold():
    plain = Threshold(1.0, 2.0, "above", "do")
    assert (plain.decides, plain.advice, plain.false_alarms) == (False, False, None)
    assert (plain.about_products, plain.about_marginals, plain.about_reach) == (False, False, False)


@pytest.mark.parametrize("name", TABLE)
def test_a_finding_knows_what_it_is_about(name):
    caution, alarm, side, _, about = TABLE[name]
    found = judged(name, math.nextafter(alarm, INF if side == "above" else -INF), "so.")
    assert found.decides == ("d" in about and math.isfinite(alarm))
    assert found.limits.about_products == ("p" in about)
    assert found.limits.about_marginals == ("m" in about)
    assert found.limits.about_reach == ("r" in about)
    assert not judged(name, caution, "so.").decides
    assert not not_applicable(name, "why.").decides


def test_a_milder_level_and_a_remedy_of_its_own():
    high = judged("duplicates", 0.5, "many.", {"rows": 3}, at_most="caution", remedy="look.")
    assert (high.level, high.remedy, high.details) == ("caution", "look.", {"rows": 3})
    assert judged("duplicates", 0.005, "some.", at_most="alarm").level == "caution"
    assert judged("duplicates", 0.5, "many.", at_most="note").level == "note"
    assert judged("duplicates", 0.5, "many.", at_most="ok").remedy == ""
    calm = judged("duplicates", 0.0, "none.", remedy="look.")
    assert (calm.level, calm.remedy, calm.details) == ("ok", "", {})
    assert judged("duplicates", 0.5, "many.").remedy == CHECKS["duplicates"].limits.remedy
    assert judged("duplicates", 0.5, "many.", remedy="").remedy == ""
