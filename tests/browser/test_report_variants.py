"""Reports of every size in a browser: one, three and twelve policies, refused, 120 actions, episodes, a stream."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.show.answer import answers

pytestmark = pytest.mark.browser

CASES = ("one", "three", "twelve", "refused", "many actions", "episodes", "stream")
SIZES = (("phone", 375), ("screen", 1400))


def frame_of(n, k, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(18, 70, size=n).round(),
            "device": rng.choice(["phone", "desktop"], size=n),
            "day": [f"2026-03-{d + 1:02d}" for d in np.sort(rng.integers(14, size=n))],
        }
    )
    tilt = np.exp(np.outer(frame["age"] / 70, np.linspace(0, 1, k)))
    shares = tilt / tilt.sum(axis=1, keepdims=True)
    a = (rng.random(n)[:, None] > shares.cumsum(axis=1)).sum(axis=1)
    names = [f"item-{i:03d} of the catalog" for i in range(k)]
    frame["a"] = np.array(names, dtype=object)[a]
    frame["p"] = shares[np.arange(n), a]
    frame["r"] = (rng.random(n) < 0.1 + 0.2 * a / k).astype(float)
    return frame, names


ROLES = {"context": ["age", "device"], "action": "a", "reward": "r", "propensity": "p", "batch": "day"}


def evaluation(case, folder):
    fixed = op.policies.Fixed
    short = {"estimators": ["DML", "IPW", "DM"]}
    if case == "episodes":
        rng = np.random.default_rng(0)
        states, actions = rng.integers(4, size=(300, 9)), rng.integers(2, size=(300, 9))
        log = op.Trajectories.from_arrays(
            states, actions, (states == actions) + rng.normal(size=(300, 9)) / 3, propensities=np.full((300, 9), 0.5)
        )
        tilted = op.policies.EpsilonGreedy(fixed(1), 0.7)
        return op.evaluate(log, {"tilted": tilted}, **short)
    if case == "many actions":
        frame, names = frame_of(8000, 120)
        spread = op.policies.EpsilonGreedy(fixed(names[-1]), 0.8)
        return op.evaluate(op.BanditLog.from_frame(frame, **ROLES), {"spread": spread}, **short)
    frame, names = frame_of(400 if case == "refused" else 4000, 5)
    if case == "refused":
        frame["p"] = frame["p"] / 4
        return op.evaluate(op.BanditLog.from_frame(frame, **ROLES), {"new": fixed(names[0])}, **short)
    if case == "stream":
        frame.to_parquet(folder / "log.parquet")
        log = op.scan(str(folder / "log.parquet"), way="stream", **ROLES)
    else:
        log = op.BanditLog.from_frame(frame, **ROLES)
    number = {"one": 1, "three": 3, "twelve": 12, "stream": 2}[case]
    policies = {f"candidate {i}": op.policies.EpsilonGreedy(fixed(names[-1 - i % 2]), i / 20) for i in range(number)}
    return op.evaluate(log, policies, **short)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A report and its answer by the name of the case, made when first asked for."""
    folder, made = tmp_path_factory.mktemp("variants"), {}

    def report(case):
        if case not in made:
            ev = evaluation(case, folder)
            made[case] = (ev.report(folder / f"{case}.html"), answers(ev)[0])
        return made[case]

    return report


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("size", "width"), SIZES)
@pytest.mark.parametrize("case", CASES)
def test_fits_asks_for_nothing_and_answers_first(open_page, reports, case, size, width, scheme):
    path, answer = reports(case)
    page = open_page(path, width=width, height=900, scheme=scheme)
    for details in page.locator("details").all():
        details.evaluate("d => { d.open = true }")
    assert page.trouble == []
    assert page.asked == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".answer").last.inner_text() == answer.text
    assert page.locator(".answer").first.bounding_box()["y"] < 300
    for plot in page.locator(".plot:visible").all():
        assert plot.locator("[data-i]").count() > 0
    dark = sum(map(int, page.evaluate(BACKGROUND).strip("rgb()").split(","))) < 200
    assert dark == (scheme == "dark")


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("scheme", "width"), [pytest.param("light", 1400, marks=pytest.mark.verify), ("dark", 375)])
def test_accessible(open_page, reports, case, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = open_page(reports(case)[0], scheme=scheme, width=width)
    for details in page.locator("details").all():
        details.evaluate("d => { d.open = true }")
    found = axe.Axe().run(page).response["violations"]
    serious = [
        (v["id"], [n["html"][:160] for n in v["nodes"][:3]]) for v in found if v["impact"] in {"serious", "critical"}
    ]
    assert serious == []


def test_words_are_explained_on_hover_focus_and_not_after_escape(open_page, reports):
    page = open_page(reports("one")[0])
    tip, word = page.locator("#tip"), page.locator(".strip .term").first
    assert not tip.is_visible()
    word.hover()
    assert tip.inner_text().startswith("The average reward the policy would have earned")
    page.mouse.move(2, 2)
    assert not tip.is_visible()
    word.focus()
    assert tip.inner_text().startswith("The average reward the policy would have earned")
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1280
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.locator("#estimates .chip", has_text="DML").hover()
    assert "Corrects a reward model" in tip.inner_text()


def test_what_the_log_cannot_answer_is_gray(open_page, reports):
    page = open_page(reports("refused")[0])
    color = "e => getComputedStyle(e).color"
    gray, sure = page.locator(".strip .doubtful dd"), page.locator(".strip > div:not(.doubtful) dd")
    assert gray.count() == 2
    assert gray.first.evaluate(color) != sure.first.evaluate(color)
    assert "Insufficient evidence" in page.locator(".verdict h2").inner_text()
    assert page.locator(".verdict > ul > li").count() >= 1


def test_numbers_behind_the_reasons_are_a_click_away(open_page, reports):
    page = open_page(reports("one")[0])
    behind = page.locator(".verdict details")
    assert not behind.locator("li").first.is_visible()
    behind.locator("summary").click()
    assert behind.locator("li").first.is_visible()
