"""A section of the report from outside: rewards by device, as a table and a picture, in text, HTML and JSON."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.show import Axis, Mark, Paragraph, Part, Picture, Table, forget, register
from offpolicy.show.schema import published

ROLES = {"context": ["x", "device"], "action": "a", "reward": "r", "propensity": "p"}


def by_device(subject):
    """What the policy would earn on each device, by the logged rows it agrees with."""
    view = subject.view
    device, weight, reward = view.context("device"), view.decisions.ratio, view.decisions.reward
    rows = []
    for name in sorted(set(device)):
        mine = device == name
        value = float(np.average(reward[mine], weights=weight[mine])) if weight[mine].any() else float("nan")
        rows.append({"device": str(name), "value": value, "rows": int(mine.sum())})
    if len(rows) < 2:
        return []
    table = Table.of(
        rows,
        [("Device", "device", str), ("Value", "value", "{:.3f}".format), ("Rows", "rows", "{:,}".format)],
        f"Rewards under {subject.policy}",
    )
    picture = Picture(
        "device",
        rows,
        [Mark("line", y="value"), Mark("point", y="value")],
        "The value on each device.",
        Axis("device"),
        Axis.over(rows, "value"),
        table,
        ticks="device",
        legend=[("accent", "value")],
    )
    return [Paragraph("A first look, without intervals."), table, picture]


PART = Part("device", "Rewards by device", "The [value|value] on each device.", by_device)


@pytest.fixture(autouse=True)
def registered():
    register(PART)
    yield
    forget(PART.key)


@pytest.fixture(scope="module")
def ev():
    rng = np.random.default_rng(0)
    n = 1200
    device, a = rng.choice(["phone", "<i>tv", "desk"], n), rng.integers(2, size=n)
    df = pd.DataFrame({"x": rng.normal(size=n), "device": device, "a": a, "r": a + rng.random(n), "p": 0.5})
    return op.evaluate(op.BanditLog.from_frame(df, **ROLES), {"one": "always:1", "none": "always:0"})


def test_it_is_a_section_of_the_page_with_a_panel_per_policy(ev, tmp_path):
    page = ev.report(tmp_path / "report.html").read_text("utf-8")
    assert '<a href="#device">Rewards by device</a>' in page
    assert page.count('id="chart-device-') == 2
    assert "Rewards under one" in page
    assert "&lt;i&gt;tv" in page
    assert "<i>tv" not in page


def test_it_is_in_the_text_and_the_summary(ev):
    text = str(ev)
    assert "Rewards by device: one" in text
    assert "The value on each device." in text
    assert "phone" in text.split("Rewards by device: none")[1]
    from offpolicy.show.text import markdown

    assert "### Rewards by device: one" in markdown(ev)


def test_it_is_in_the_json_and_the_schema_knows_it(ev):
    result = json.loads(ev.to_json())
    section = next(s for s in result["sections"] if s["policy"] == "one")
    assert [block["kind"] for block in section["body"]] == ["paragraph", "table", "picture"]
    assert {row["device"] for row in section["body"][2]["rows"]} == {"phone", "<i>tv", "desk"}
    pytest.importorskip("jsonschema").validate(result, json.loads(published()))


def test_its_picture_is_a_plot(ev):
    pytest.importorskip("matplotlib").use("agg")
    axes = ev.plot("device", policy="one")
    assert [t.get_text() for t in axes.get_xticklabels()] == ["<i>tv", "desk", "phone"]
    assert axes.lines


def test_without_it_nothing_is_said(ev):
    forget(PART.key)
    assert "sections" not in json.loads(ev.to_json())
    assert "Rewards by device" not in str(ev)
    register(PART)


def test_names_are_taken_once():
    with pytest.raises(UsageError, match="named 'weights' already exists"):
        register(Part("weights", "Mine", "", by_device))
    with pytest.raises(UsageError, match="you have not added a section"):
        forget("weights")
