"""Nobody clicked: the value may still be above 0, and every path says how far above."""

import numpy as np
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
        assert found.high > 0, f"{policy} {name} on {route}: [{found.low}, {found.high}]"
        assert np.isfinite(found.high)
        assert_same(
            interval(ours[policy, name], "auto"),
            interval(theirs[policy, name], "auto"),
            what=f"{policy} {name}: pandas ≠ {route}",
        )
    low, high = theirs.logged.interval()
    assert low <= 0 < high


@pytest.mark.parametrize("route", ["pandas", "parquet-stream"])
def test_the_default_call(engines, answers, route):
    """As a user calls it: nothing but a log and a policy."""
    ev = op.evaluate(answers.log(route, "silent"), op.policies.Uniform())
    for (_, name), e in ev.estimates.items():
        low, high = e.interval()
        # The direct method sees its model alone, which predicts 0 everywhere.
        assert (low, high) != (0, 0) or name == "DM", e.label
    assert ev.verdict().level != "trust"
