"""Nobody clicked: the value may still be above 0, and every path says that it cannot tell how far above."""

import pytest
from matrix.answers import assert_same, interval
from matrix.paths import WARNINGS

import offpolicy as op

pytestmark = WARNINGS
ROUTES = ("polars", "csv", "parquet-rows", "parquet-cells", "parquet-stream", "duckdb-stream")
FEW = ("auto", "DML", "IPW", "SNIPW")


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("route", ROUTES)
def test_no_click_is_not_certainty(answers, route, name):
    ours, theirs = (answers.evaluation(r, "silent", estimators=FEW) for r in ("pandas", route))
    for policy in ("sharp", "soft"):
        found = theirs[policy, name].interval()
        assert theirs[policy, name].value == 0
        assert not found.sufficient, f"{policy} {name} on {route}: [{found.low}, {found.high}]"
        assert "every reward in the log is the same" in found.reason
        assert_same(
            interval(ours[policy, name], "auto"),
            interval(theirs[policy, name], "auto"),
            what=f"{policy} {name}: pandas ≠ {route}",
        )
    assert not theirs.logged.interval().sufficient
    given = {"method": "bernstein", "reward_range": (0, 1), "weight_high": 100.0}
    one, other = (ev["sharp", "IPW"].interval(**given) for ev in (ours, theirs))
    assert tuple(one) == pytest.approx(tuple(other))
    assert one.high > 0


@pytest.mark.parametrize("route", ["pandas", "parquet-stream"])
def test_the_default_call(engines, answers, route):
    """As a user calls it: nothing but a log and a policy."""
    ev = op.evaluate(answers.log(route, "silent"), op.policies.Uniform())
    for (_, name), e in ev.estimates.items():
        assert not e.interval().sufficient, (name, e.label)
    assert ev.verdict().level == "insufficient evidence"
