"""What findings look like, and what a number rests on where propensities were not logged."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from trust_views import view_of

from offpolicy.errors import UsageError
from offpolicy.logs.kinds import kind_called
from offpolicy.trust import assumption as rests
from offpolicy.trust.finding import Diagnostics, Finding, Findings, judged, not_applicable, wrapped

OK = judged("duplicates", 0.0, "none.")
CAUTION = judged("near_duplicates", 0.005, "some & more.")
ALARM = judged("largest_weight_share", 0.9, "one unit.")
NOTE = judged("top_share", 0.5, "half.")
NONE = not_applicable("balance", "no columns.")


def test_findings_in_order_and_in_words():
    found = Findings([OK, CAUTION, ALARM, NOTE, NONE])
    assert [f.name for f in found.worst()] == ["weights", "duplicates"]
    assert (list(found), "balance" in found, "x" in found) == (["duplicates", "weights", "balance"], True, False)
    assert found.statistics == [OK, CAUTION, ALARM, NOTE, NONE]
    assert found["duplicates"].statistics == (OK, CAUTION)
    assert (found["duplicates"].speaker, found["duplicates"]["duplicates"]) == (CAUTION, OK)
    assert (found["weights"].speaker, found["top_share"]) == (ALARM, NOTE)
    assert (found["weights"].sentence, found["weights"].value, found["weights"].limits) == (
        ALARM.sentence, ALARM.value, ALARM.limits
    )  # fmt: skip
    with pytest.raises(KeyError, match="'weights' has no statistic 'balance'"):
        found["weights"]["balance"]
    with pytest.raises(KeyError, match="no check is called 'duplicate'"):
        found["duplicate"]
    starts = [str(f).split(":")[0] for f in found.values()]
    assert starts == ["CAUTION duplicates", "ALARM   weights", "not run balance"]
    assert (OK.ran, NONE.ran, float(CAUTION)) == (True, False, 0.005)
    assert repr(found) == str(found)
    lines = wrapped(Finding("duplicates", 1.0, "alarm", "word " * 30, "act " * 40))
    assert lines[0].startswith("ALARM   duplicates: word")
    assert lines[1].startswith(" " * 8 + "word")
    assert lines[2].startswith(" " * 8 + "→ act")
    assert lines[3].startswith(" " * 10 + "act")
    assert max(map(len, lines)) <= 100
    assert max(map(len, lines)) > 95
    full = Finding("duplicates", 1.0, "alarm", f"{'s' * 80} {'t' * 92} u", f"{'a' * 90} {'b' * 90} c")
    assert [len(line) for line in wrapped(full)] == [100, 100, 9, 100, 100, 11]
    page = found._repr_html_()
    assert page.index("weights</td>") < page.index("duplicates</td>") < page.index("balance</td>")
    assert "some &amp; more." in page.lower()


def test_findings_by_policy_and_name():
    d = Diagnostics(Findings([OK]), {"a": Findings([CAUTION]), "b": Findings([ALARM, judged("duplicates", 1.0, "x")])})
    assert d["a", "duplicates"].value == CAUTION.value  # of the log and of the policy together
    assert d["a", "duplicates"].statistics == (CAUTION, OK)
    assert d["b", "duplicates"].value == 1.0
    assert d["a"]["near_duplicates"] is CAUTION
    assert d["duplicates"].statistics == (OK,)
    with pytest.raises(
        KeyError, match=r"name the policy as well: \[policy, 'near_duplicates'\]\. Policies: \['a', 'b'\]"
    ):
        d["near_duplicates"]
    with pytest.raises(KeyError, match="no policy or check is called 'c'"):
        d["c"]
    assert [f.name for f in d] == ["duplicates", "duplicates", "weights", "duplicates"]
    rows = d.rows()
    assert [row["policy"] for row in rows] == [None, "a", "b", "b"]
    assert rows[1] == {
        "policy": "a", "name": "duplicates", **(said := {"value": 0.005, "level": "caution", "ran": True,
        "sentence": "some & more.", "remedy": CAUTION.remedy}), "statistic": "near_duplicates",
        "statistics": [{"name": "near_duplicates", **said, "details": {}}],
    }  # fmt: skip
    assert list(d.frame()) == ["policy", "name", "value", "level", "sentence", "remedy"]
    assert str(d).split("\n\n")[0] == f"The log\n{Findings([OK])}"
    assert "Policy 'b'\nALARM" in str(d)
    assert str(Diagnostics(Findings([]), {"a": Findings([OK])})).startswith("Policy 'a'")
    single = Diagnostics(Findings([OK]), {"a": Findings([CAUTION])})
    assert single["near_duplicates"] is CAUTION
    assert single["duplicates"].statistics == (CAUTION, OK)
    assert "<b>The log</b>" in d._repr_html_()
    assert "The log" not in Diagnostics(Findings([]), {"a<": Findings([OK])})._repr_html_()
    assert "<b>a&lt;</b>" in Diagnostics(Findings([]), {"a<": Findings([OK])})._repr_html_()


# -- assumptions -------------------------------------------------------------------------------------------------------


def declared_log(kind, *, continuous=False, **columns):
    """What declarations look at of a log."""
    space = SimpleNamespace(finite=not continuous)
    return SimpleNamespace(unit_kind=kind_called(kind), space=space, **columns)


def resting(
    *, known=False, given=False, cells=None, kind="bandit", continuous=False, propensity=None, ran=True, **settings
):
    log = declared_log(kind, continuous=continuous, propensity=propensity)
    found = judged("coarse_ratio", 0.5, "fine.") if ran else not_applicable("coarse_ratio", "why.")
    problem = SimpleNamespace(weights_known=known, log=log, cells=cells, behavior_given=given)
    return SimpleNamespace(
        problem=problem, settings=settings, diagnostics={"p": Findings([found])}, targets={"p": None}, metric_name="r"
    )


CELLS = SimpleNamespace(features=("genre", "size"), n=1200, code=np.zeros(5000))
OF_CELLS = (
    "assumes that actions of one cell (same genre, size; 1,200 cells of 5,000 actions) earn the same, apart from what "
    "the reward model predicts"
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"known": True}, ""),
        ({}, rests.ASSUMES),
        ({"given": True}, rests.GIVEN),
        ({"randomized": True}, rests.DECLARED),
        ({"gamma": 1.5}, "assumes that no unrecorded cause changes the odds of an action by more than a factor of 1.5"),
        ({"gamma": 1.5, "randomized": True}, rests.DECLARED),
        ({"known": True, "cells": CELLS}, OF_CELLS),
        ({"cells": CELLS}, f"{rests.ASSUMES} and {OF_CELLS}"),
    ],
)
def test_what_numbers_assume(options, expected):
    assert rests.assumption(resting(**options)) == expected


LOG = "Log propensities, or pass randomized=True if actions were drawn at random given these columns"
BOUND = f"{LOG}, or accept a bound on unrecorded causes with gamma=."


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"known": True}, []),
        ({"randomized": True}, []),
        ({}, [f"Propensities were fitted, not logged, so the estimate {rests.ASSUMES}. {BOUND}"]),
        ({"given": True}, [f"Propensities were given, not logged, so the estimate {rests.GIVEN}. {BOUND}"]),
        ({"kind": "trajectories"}, [f"Propensities were fitted, not logged, so the estimate {rests.ASSUMES}. {LOG}."]),
        ({"continuous": True}, [f"Propensities were fitted, not logged, so the estimate {rests.ASSUMES}. {LOG}."]),
        ({"known": True, "cells": CELLS}, []),
        ({"known": True, "cells": CELLS, "ran": False}, [rests.UNTESTED.format(OF_CELLS)]),
        ({"cells": CELLS, "propensity": 1, "ran": False},
         [f"{rests.OF_CELLS}, so the estimate {rests.ASSUMES}. Give the logging policy as behavior_model=. {BOUND}",
          rests.UNTESTED.format(OF_CELLS)]),
        ({"cells": CELLS}, [f"Propensities were fitted, not logged, so the estimate {rests.ASSUMES}. {BOUND}"]),
    ],
)  # fmt: skip
def test_reasons_that_follow_from_an_assumption(options, expected):
    assert rests.grounds(resting(**options), "p", 0.95) == (expected, False)


@pytest.mark.parametrize(
    ("randomized", "gamma", "kind", "continuous", "why"),
    [
        ("yes", None, "bandit", False, "randomized= must be True or False. Got 'yes' instead."),
        (False, True, "bandit", False, "gamma= must be a number of at least 1. Got True instead."),
        (False, 0.99, "bandit", False, "gamma= must be a number of at least 1. Got 0.99 instead."),
        (False, 1e6, "bandit", False, "gamma= must be a number of at least 1. Got 1000000.0 instead."),
        (False, "2", "bandit", False, "gamma= must be a number of at least 1. Got '2' instead."),
        (
            False,
            2,
            "bandit",
            True,
            ("gamma= bounds the odds of labels, but these actions are numbers. Leave gamma= out."),
        ),
        (False, 2, "slates", False, "gamma= works only for single decisions. Leave it out for episodes."),
    ],
)
def test_declarations_that_cannot_be_meant(randomized, gamma, kind, continuous, why):
    log = declared_log(kind, continuous=continuous)
    with pytest.raises(UsageError) as error:
        rests.check_declarations(log, randomized, gamma)
    assert str(error.value) == why
    rests.check_declarations(declared_log("bandit"), randomized=True, gamma=1)
    rests.check_declarations(declared_log("slates", continuous=True), randomized=False, gamma=None)


def accepted(gamma, effect=0.4, target=1.0):
    """A log without propensities, and a policy that takes one of two actions."""
    from offpolicy.trust.view import View

    n = 2000
    a = np.arange(n) % 2
    r = (np.random.default_rng(1).random(n) < np.where(a == 1, 0.2 + effect, 0.2)) * 1.0
    pi = np.tile([1 - target, target], (n, 1))
    view = view_of(pi, np.full(n, 0.5), a, r, known=False, **({"ratio": np.zeros(n)} if target < 0 else {}))
    view.problem.made = lambda kind: []
    ev = SimpleNamespace(problem=view.problem, settings={"gamma": gamma}, targets={"p": view.target}, metric_name="r")
    return ev, View.of(view.problem, view.target)


def test_a_bound_on_hidden_causes():
    from offpolicy.trust.confounding import Sensitivity, breaking_point

    ev, view = accepted(1.2)
    bounds = Sensitivity.of(view)
    breaks = breaking_point(bounds)
    assert breaks > 1.5
    assert rests.grounds(ev, "p", 0.95) == ([], False)
    low, high = bounds.ends(1.2, 0.9)
    assert rests.bounds_sentence(ev, "p", 0.9) == [
        f"With odds of actions off by a factor of up to 1.2, the value is between {low:.4g} and {high:.4g} (90%)."
    ]
    ev, _ = accepted(1.2 * breaks)
    low, high = bounds.difference(1.2 * breaks, 0.95)
    why = (
        f"If an unrecorded cause changes the odds of an action by a factor of {1.2 * breaks:g}, the difference "
        f"from the logged value is between {low:.3g} and {high:.3g}, so it may be 0."
    )
    assert rests.grounds(ev, "p", 0.95) == ([why], True)
    assert rests.grounds(accepted(9.0, effect=0.0)[0], "p", 0.95) == ([], False)
    none, _ = accepted(2.0, target=-1.0)
    assert rests.grounds(none, "p", 0.95) == ([], False)
    assert rests.bounds_sentence(none, "p", 0.95) == []
    assert rests.bounds_sentence(resting(), "p", 0.95) == []
    assert rests.bounds_sentence(resting(gamma=2.0, known=True), "p", 0.95) == []
