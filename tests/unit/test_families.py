"""Several policies: intervals that hold together, by the rules of single ones."""

import json

import numpy as np
import pytest

import offpolicy as op
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.family import adjusted, covariance, together
from offpolicy.inference.score_table import Units
from offpolicy.show.answer import answers
from offpolicy.show.tables import by_group
from offpolicy.trust.gate import check

RNG = np.random.default_rng(0)


def arms(n, rewards, k=10, **roles):
    a = np.arange(n) % k
    log = op.BanditLog.from_arrays(None, a, rewards, np.full(n, 1 / k), actions=range(k), **roles)
    policies = {f"p{j}": op.policies.Fixed(j) for j in range(k)}
    return op.evaluate(log, policies, estimators=["SNIPW"])


@pytest.fixture(scope="module")
def clicks():
    return arms(2000, (np.random.default_rng(1).random(2000) < 0.01).astype(float))


def test_rare_clicks_take_exact_intervals_in_a_family_too(clicks):
    found = clicks.compare()
    for policy, interval in found.values.items():
        own = clicks[policy, "SNIPW"].interval(adjusted(0.95, 10))
        assert interval.method == own.method == "clopper-pearson"
        assert tuple(interval) == tuple(own)
        assert interval.level == 0.95
        assert interval.high > 0
    assert all(i.covers(0.0) for i in found.differences.values())
    assert all(i.covers(0.0) for i in found.lifts.values())
    assert "cannot tell them apart" in str(found)


def test_plentiful_evidence_uses_how_estimates_move_together():
    units = Units(4000)
    shared = RNG.normal(size=4000)
    alike = [Estimate.from_scores(shared + 0.1 * RNG.normal(size=4000), units=units) for _ in range(8)]
    found = together(alike).intervals
    bonferroni = alike[0].interval(adjusted(0.95, 8))
    assert {i.method for i in found} == {"max-t"}
    assert found[0].width < 0.9 * bonferroni.width
    assert found[0].width > alike[0].interval().width


def test_a_single_estimate_is_a_family_of_its_own():
    e = Estimate.from_scores(RNG.normal(size=400))
    assert tuple(together([e]).intervals[0]) == tuple(e.interval())


def test_covariances_are_those_of_the_standard_errors():
    cluster = RNG.integers(40, size=600)
    units = Units(600, cluster=cluster)
    a, b = (Estimate.from_scores(RNG.normal(size=600) + cluster / 40, units=units) for _ in "ab")
    cov = covariance([a, b])
    assert np.sqrt(np.diag(cov)) == pytest.approx([a.std_error, b.std_error])
    assert cov[0, 0] + cov[1, 1] - 2 * cov[0, 1] == pytest.approx((a - b).std_error ** 2)


def test_few_clusters_are_students():
    cluster = np.repeat(np.arange(25), 40)
    units = Units(1000, cluster=cluster)
    three = [Estimate.from_scores(RNG.normal(size=1000), units=units) for _ in range(3)]
    found = together(three).intervals[0]
    normal = 2.39 * three[0].std_error  # the critical value of three independent normal ones
    assert found.width / 2 > 1.05 * normal


def test_refusals_are_respected_and_said():
    r = np.where(np.arange(3000) % 10 == 3, RNG.standard_cauchy(3000), RNG.normal(size=3000))
    found = arms(3000, r).compare()
    assert not found.values["p3"].sufficient
    assert "p3" in found.best.unjudged
    assert "p3" not in found.best.names
    assert not found.best.settled
    assert "refused" in str(found)
    assert np.isnan(found.p_values["p3"])


def test_a_clear_best_is_found_and_lower_can_be_better():
    a = np.arange(3000) % 3
    r = RNG.normal(size=3000) + a
    log = op.BanditLog.from_arrays(None, a, r, np.full(3000, 1 / 3))
    policies = {f"p{j}": op.policies.Fixed(j) for j in range(3)}
    for minimize, best in ((False, "p2"), (True, "p0")):
        ev = op.evaluate(log, policies, estimators=["SNIPW"], minimize=minimize)
        assert ev.minimize is minimize
        assert ev.compare().best.names == (best,)
        assert answers(ev)[0].policy == best
        assert ("Lower is better" in repr(ev)) == minimize
        worth = [r for r in ev.verdict(best).reasons if "Worth an A/B test" in r]
        assert worth
        document = json.loads(ev.to_json())["comparison"]
        assert document["leader"] == best
        assert document["better"] == ("lower" if minimize else "higher")
        assert document["values"][best]["refused"] is None


def test_adjusted_p_values_agree_with_their_intervals(clicks):
    other = arms(3000, RNG.normal(size=3000) + 0.3 * (np.arange(3000) % 10 == 4))
    for ev in (clicks, other):
        found = ev.compare()
        for policy, gap in found.differences.items():
            assert (found.p_values[policy] < 0.05) == (not gap.covers(0.0))


def test_gates_and_answers_of_several_policies_are_corrected():
    noise = RNG.normal(size=(500, 10))
    r = (noise - noise.mean(axis=0) + np.where(np.arange(10) == 4, 0.11, 0.0)).ravel()
    many = arms(5000, r)
    gap = many["p4", "SNIPW"] - many.logged
    z = gap.value / gap.std_error
    assert 1.96 < z < 2.6, "the case is one that a single interval would let pass"
    assert gap.interval().low > 0
    result = check(many, "p4 - logged > 0")
    assert result.exit_code == 4
    assert "corrected for 10 policies" in result.sentence
    alone = op.evaluate(many.problem.log, {"p4": op.policies.Fixed(4)}, estimators=["SNIPW"])
    assert check(alone, "p4 - logged > 0").exit_code == 0
    leader = next(a for a in answers(many) if a.policy == "p4")
    assert "there may be no difference" in leader.text


def test_segments_hold_together(clicks):
    codes = np.arange(2000) % 4
    rows = by_group(clicks, "p1", codes, ["a", "b", "c", "d"])
    for code, row in enumerate(rows):
        own = clicks["p1", "SNIPW"].within(codes == code).interval(adjusted(0.95, 4))
        assert (row["low"], row["high"]) == pytest.approx(own.shown, nan_ok=True)


def test_a_segment_knows_the_rewards_of_the_whole_log():
    """A few units that never met the rare reward are not units without it."""
    n = 4000
    a, r = np.arange(n) % 2, np.ones(n)
    r[::250] = -200.0
    log = op.BanditLog.from_arrays(None, a, r + 0.1 * RNG.normal(size=n), np.full(n, 0.5))
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
    members = (np.arange(n) < 249) & (np.arange(n) > 0)
    part = ev["SNIPW"].within(members)
    assert part.value > 0.9
    assert not part.interval().sufficient
