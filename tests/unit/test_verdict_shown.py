"""The verdict stands where the number stands: in print, frames, LaTeX, JSON, the page, and gates that ask for it."""

import json

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy import cli
from offpolicy.errors import UsageError
from offpolicy.evaluation.shown import Traffic
from offpolicy.show import html
from offpolicy.show.answer import answers
from offpolicy.show.words import Measure
from offpolicy.trust.gate import check
from offpolicy.trust.gate_text import verify


def frame(n=3000, seed=0, reward="clicked"):
    rng = np.random.default_rng(seed)
    a = rng.integers(2, size=n)
    country = rng.choice(["DE", "FR"], size=n)
    y = (rng.random(n) < 0.2 + 0.15 * a * (country == "FR")).astype(int)
    return pd.DataFrame({"country": country, "ad": np.array(["x", "y"])[a], reward: y, "p": 0.5, "new": "y"})


def evaluated(*, policies=None, known=True, **more):
    log = op.BanditLog.from_frame(
        frame(**more),
        context=["country"],
        action="ad",
        reward=more.get("reward", "clicked"),
        propensity="p" if known else None,
    )
    return op.evaluate(log, policies or {"new": "new"}, estimators=["DML", "SNIPW"])


@pytest.fixture(scope="module")
def one():
    return evaluated()


@pytest.fixture(scope="module")
def two():
    return evaluated(policies={"new": "new", "5 for all": op.policies.Uniform()})


def test_print_begins_with_the_verdict(one, two):
    assert str(one).splitlines()[0] == "new: TRUST"
    assert "would be clicked on" in str(one).splitlines()[1]
    first = [line for line in str(two).splitlines() if line.endswith(("TRUST", "CAUTION"))]
    assert len(first) == 2


def test_a_refused_number_says_so_in_print_and_frame():
    data = frame(60)
    data.loc[:, "p"] = np.where(data["ad"] == "y", 0.01, 0.99)
    log = op.BanditLog.from_frame(data, context=["country"], action="ad", reward="clicked", propensity="p")
    ev = op.evaluate(log, {"new": "new"}, estimators=["DML"])
    assert str(ev).startswith("new: INSUFFICIENT EVIDENCE")
    assert ev.frame()["verdict"].tolist() == ["", "insufficient evidence"]


def test_the_frame_has_the_current_policy_the_lift_and_the_verdict(one):
    table = one.frame()
    assert table["policy"].tolist() == ["(logging policy)", "new", "new"]
    assert table["verdict"].tolist() == ["", "trust", "trust"]
    assert table["lift"][1] == pytest.approx(one["new"].lift(one.logged).value)
    assert "verdict" not in one.frame(verdicts=False).columns


def test_a_policy_alone_means_its_headline(one, two):
    assert one["new"] is one["new", "DML"]
    assert one["DML"] is one["new", "DML"]
    assert two["5 for all"] is two["5 for all", "DML"]
    with pytest.raises(UsageError, match="name the policy as well"):
        two["DML"]
    with pytest.raises(KeyError, match="no policy is called 'nwe'"):
        two["nwe"]


def test_summary_conf_int_and_latex(two):
    table = two.summary()
    assert set(table["policy"]) == {"(logging policy)", "new", "5 for all"}
    assert set(table["verdict"]) <= {"", "trust", "caution"}
    low, high = two["new"].conf_int()
    assert (low, high) == tuple(two["new"].interval())
    latex = two.to_latex()
    assert latex.startswith(r"\begin{tabular}{llrrrrrl}")
    assert r"95\% interval" in latex
    assert latex.count(r" \\") == 6


def test_notes_are_said_once_and_nothing_is_for_authors():
    log = op.BanditLog.from_frame(frame(), context=["country"], action="ad", reward="clicked", propensity="p")
    ev = op.evaluate(log, {"new": "new", "other": op.policies.Uniform()})
    assert any("β" in note for e in ev.estimates.values() for note in e.notes)
    assert "β" not in str(ev)
    lines = [line for line in str(ev).splitlines() if line]
    assert len(lines) == len(set(lines))


def test_segments_are_a_frame_and_stand_in_json_and_summary(two, tmp_path):
    table = two.segments("country")
    assert list(table["segment"]) == ["DE", "FR"] * 2
    new = table[(table["policy"] == "new") & (table["segment"] == "FR")].iloc[0]
    assert new["difference_low"] > 0
    assert (new["value"] - new["logged"]) == pytest.approx(new["difference"], rel=0.2)
    document = json.loads(two.to_json(segments="country"))
    assert [row["segment"] for row in document["segments"]] == ["DE", "FR"] * 2
    assert json.loads(two.to_json())["segments"] == []
    from offpolicy.show.text import markdown

    assert "country: FR" in markdown(two, segments=["country"])


def test_the_page_shows_gates_and_what_the_difference_adds_up_to(one):
    gate = one.gate("lift > 0")
    page = html.page(one, gates=[gate], traffic="2M per month")
    assert "Passed" in page
    assert "<code>lift &gt; 0</code>" in page
    assert "At 2M impressions per month" in page
    assert "more clicked impressions per month" in page
    total = json.loads(one.to_json(traffic="2M per month"))["traffic"]
    gap = one["new"] - one.logged
    assert total["differences"]["new"]["value"] == pytest.approx(2e6 * gap.value)
    assert total["differences"]["new"]["low"] == pytest.approx(2e6 * gap.interval().low)


def test_traffic_that_cannot_be_read_is_an_error():
    for text in ("much", "2M", "0 per day", "-3 per day"):
        with pytest.raises(UsageError, match="2M per month"):
            Traffic.parse(text)
    assert Traffic.parse("1,500 a day").units == 1500


def test_gate_errors_suggest_what_parses(two):
    with pytest.raises(UsageError, match="name the policy") as error:
        verify("lift > 0", ["5 for all", "new"])
    suggestion = str(error.value).partition("For example: ")[2]
    assert verify(suggestion, ["5 for all", "new"])[0].policy == "5 for all"
    with pytest.raises(UsageError, match="'cost lift < 2%'") as error:
        verify("'5 for all' revenue lift > 0 and cost lift < 2%", ["5 for all", "new"], ["revenue", "cost"])
    suggestion = str(error.value).partition("For example: ")[2]
    parsed = verify(suggestion, ["5 for all", "new"], ["revenue", "cost"])[0]
    assert (parsed.policy, parsed.metric) == ("5 for all", "cost")


def test_lifts_of_gates_are_percentages(one):
    sentence = one.gate("lift > 30%").sentence
    lift = one["new"].lift(one.logged)
    assert f"is {100 * lift.value:+.3g}%" in sentence


def test_a_gate_can_require_trust():
    ev = evaluated(known=False)
    assert ev.verdict("new").level == "caution"
    assert ev.gate("lift > 0").exit_code == 0
    result = ev.gate("lift > 0", require="trust")
    assert result.exit_code == 4
    assert "trust is required" in result.sentence
    assert check(evaluated(), "lift > 0", require="trust").exit_code == 0


def test_the_command_line_requires_trust_with_and_without_a_gate(tmp_path, capsys):
    path = tmp_path / "log.csv"
    frame().to_csv(path, index=False)
    words = ["evaluate", str(path), "--context", "country", "--action", "ad", "--reward", "clicked"]
    words += ["--policy", "new=new", "--json", str(tmp_path / "r.json")]
    assert cli.main([*words, "--require", "trust"]) == 4
    assert cli.main([*words, "--require", "trust", "--propensity", "p"]) == 0
    assert cli.main([*words, "--gate", "lift > 0", "--require", "trust"]) == 4
    assert str(tmp_path) not in (tmp_path / "r.json").read_text()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "words"), [("clicked", "be clicked on"), ("click", "get a click on"), ("y", "have y = 1 on")]
)
def test_rewards_of_0_and_1_are_percentages(name, words):
    ev = evaluated(reward=name)
    (answer,) = answers(ev)
    assert f"new would {words}" in answer.text
    assert "% of impressions" in answer.text
    assert "than the current policy" in answer.text


def test_other_rewards_are_averages():
    assert Measure("revenue", "impression").worth(4.58, 0.1) == ("have an average revenue of 4.58 per impression")
    assert "total reward" in Measure("reward", "episode", is_total=True).worth(1.0, 0.1)


def test_names_are_never_capitalized(two):
    text = str(two) + two.compare().best.statement + html.page(two)
    assert "New " not in text.replace("New York", "")
