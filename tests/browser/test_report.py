"""The report in a browser: it opens from disk, draws, sorts, filters, and can be read by everyone."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op

pytestmark = pytest.mark.browser

EVIL = '<img src=x onerror="window.hacked=1">'
WORSE = "</script><script>window.hacked=1</script>"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    n, names = 3000, ["plain", EVIL, WORSE, "a fairly long name of an action that will not fit"]
    frame = pd.DataFrame(
        {
            "age": rng.uniform(18, 70, size=n),
            "place": rng.choice(["north", EVIL], size=n),
            "hour": np.sort(rng.integers(8, size=n)),
        }
    )
    tilt = np.exp(np.outer(frame["age"] / 70, [0.0, 0.5, 1.0, 1.5]))
    shares = tilt / tilt.sum(axis=1, keepdims=True)
    a = (rng.random(n)[:, None] > shares.cumsum(axis=1)).sum(axis=1)
    frame["a"] = np.array(names, dtype=object)[a]
    frame["r"] = (rng.random(n) < 0.1 + 0.1 * a).astype(float)
    frame["p"] = shares[np.arange(n), a]
    log = op.BanditLog.from_frame(frame, context=["age", "place"], action="a", reward="r", propensity="p", batch="hour")
    policies = {"new": op.policies.Fixed(names[3]), EVIL: op.policies.Fixed(WORSE)}
    ev = op.evaluate(log, policies, estimators=["DML", "IPW", "SNIPW", "DM"])
    return ev.report(tmp_path_factory.mktemp("report") / "report.html", title=WORSE)


def marks(page, chart):
    """Marks of a chart that carry data and can be seen."""
    return page.locator(f"#{chart} [data-i]:visible").count()


def order(page, chart):
    """Labels of the rows of a chart, from top to bottom."""
    return page.locator(f"#{chart} .r:visible > span").all_text_contents()


def test_opens_from_disk_without_network_or_trouble(open_page, path):
    page = open_page(path)
    assert page.trouble == []
    assert page.asked == [path.as_uri()]
    assert page.evaluate("performance.getEntriesByType('resource').map(e => e.name)") == []


def test_every_visible_chart_has_marks(open_page, path):
    page = open_page(path)
    shown = page.locator(".plot:visible")
    assert shown.count() == 9
    for i in range(shown.count()):
        assert marks(page, shown.nth(i).get_attribute("id")) > 0


def test_hovering_shows_the_numbers(open_page, path):
    page = open_page(path)
    page.locator("#chart-forest .r").nth(1).hover()
    tip = page.locator("#tip")
    assert "IPW" in tip.inner_text()
    assert "95% interval" in tip.inner_text()
    box = page.locator("#chart-weights-0 svg:visible").first.bounding_box()
    page.locator("#chart-weights-0").scroll_into_view_if_needed()
    box = page.locator("#chart-weights-0 svg:visible").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 10)
    assert "Share of units" in tip.inner_text()
    page.mouse.move(5, 5)
    assert not tip.is_visible()


def test_names_from_the_data_stay_text(open_page, path):
    page = open_page(path)
    page.select_option("#policy", label=EVIL)
    page.locator("#chart-overlap-1 .r", has_text=EVIL).hover()
    assert EVIL in page.locator("#tip").inner_text()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    assert EVIL in page.locator("#policies").inner_text()
    assert page.trouble == []


def test_tables_sort_by_number_and_say_so(open_page, path):
    page = open_page(path)
    page.locator("#estimates summary").click()
    table = page.locator("#estimates table")
    heading = table.locator("thead th").nth(2)
    heading.locator("button").click()
    values = [float(v) for v in table.locator("tbody tr td:nth-child(3)").all_inner_texts()]
    assert values == sorted(values)
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.locator("button").press("Enter")
    values = [float(v) for v in table.locator("tbody tr td:nth-child(3)").all_inner_texts()]
    assert values == sorted(values, reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"


def test_estimators_can_be_hidden_and_charts_reordered(open_page, path):
    page = open_page(path)
    assert order(page, "chart-forest")[:4] == ["DML", "IPW", "SNIPW", "DM"]
    before = marks(page, "chart-forest")
    height = page.locator("#chart-forest").bounding_box()["height"]
    chip = page.locator("#estimates .chip", has_text="SNIPW")
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    assert page.locator("#chart-forest").bounding_box()["height"] < height - 20
    assert order(page, "chart-forest")[:3] == ["DML", "IPW", "DM"]
    assert marks(page, "chart-forest") < before
    page.select_option('#estimates [data-role="order"]', "width")
    widths = "rows => rows.map(r => Number(r.dataset.width))"
    first = page.locator("#chart-forest .g").first.locator(".r:visible").evaluate_all(widths)
    assert first == sorted(first)


def test_the_histogram_changes_its_measure(open_page, path):
    page = open_page(path)
    bars = page.locator("#chart-weights-0 rect:visible")
    shape = "bars => bars.map(b => b.getAttribute('y')).join()"
    before = bars.evaluate_all(shape)
    page.select_option('#weights .panel:not([hidden]) [data-role="measure"]', "carried")
    assert bars.evaluate_all(shape) != before
    assert bars.count() > 10


def test_the_picked_policy_is_the_one_shown(open_page, path):
    page = open_page(path)
    assert page.locator("#chart-weights-0").is_visible()
    assert not page.locator("#chart-weights-1").is_visible()
    page.locator("#policy").focus()
    page.keyboard.press("ArrowDown")
    page.locator("#chart-weights-1").wait_for()
    assert not page.locator("#chart-weights-0").is_visible()
    assert marks(page, "chart-weights-1") > 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_the_reader_chooses(open_page, path, scheme):
    page = open_page(path, scheme=scheme)
    color = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(color)
    is_dark = sum(int(v) for v in before.strip("rgb()").split(",")) < 200
    assert is_dark == (scheme == "dark")
    button = page.locator("#theme")
    assert button.get_attribute("aria-pressed") == str(is_dark).lower()
    button.click()
    after = sum(int(v) for v in page.evaluate(color).strip("rgb()").split(",")) < 200
    assert after != is_dark
    assert button.get_attribute("aria-pressed") == str(after).lower()
    soft = "getComputedStyle(document.querySelector('.log')).color"
    label = "getComputedStyle(document.querySelector('#chart-overlap-0 .axis text')).fill"
    assert page.evaluate(label) == page.evaluate(soft)


@pytest.mark.parametrize("width", [320, 375, 768, 1280])
def test_nothing_scrolls_sideways(open_page, path, width):
    page = open_page(path, width=width, height=812)
    for details in page.locator("details").all():
        details.evaluate("d => { d.open = true }")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    right = """Math.max(...[...document.querySelectorAll('svg, svg *')]
        .map(s => s.getBoundingClientRect().right))"""
    assert page.evaluate(right) <= width + 1


def test_the_answer_is_on_the_first_screen(open_page, path):
    page = open_page(path)
    box = page.locator(".verdict h2").bounding_box()
    assert box["y"] + box["height"] < 900
    assert "% of impressions" in page.locator(".answer").last.inner_text()


def test_without_scripts_the_numbers_are_still_there(open_page, path):
    page = open_page(path, scripts=False)
    assert page.locator(".answer").first.is_visible()
    page.locator("#estimates summary").click()
    assert page.locator("#estimates table").is_visible()
    assert page.locator("#chart-forest .r").first.is_visible()
    assert page.locator("#chart-weights-1 svg").first.is_visible()


def test_print_uses_ink_on_paper(open_page, path):
    page = open_page(path, scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#theme").is_visible()
    assert not page.locator(".tools").first.is_visible()
    assert len(page.pdf()) > 20_000


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 375), ("light", 1400)])
def test_accessible(open_page, path, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = open_page(path, scheme=scheme, width=width)
    for details in page.locator("details").all():
        details.evaluate("d => { d.open = true }")
    # The page's security policy would stop a script element; the driver evaluates past it.
    found = axe.Axe().run(page).response["violations"]
    serious = [
        (v["id"], [n["html"][:160] for n in v["nodes"][:3]]) for v in found if v["impact"] in {"serious", "critical"}
    ]
    assert serious == []


def test_the_keyboard_reaches_the_answer_first(open_page, path):
    page = open_page(path)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'main'")
