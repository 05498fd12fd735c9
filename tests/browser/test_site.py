"""The built documentation in a real browser: what is found how fast, on a phone and on a screen, and by everyone."""

import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDTHS = (375, 1400)
PAGES = ("", "howto/learn_and_select/", "reference/sentences/")
#: A question of the landing page, and words that the page behind its link must say.
QUESTIONS = {
    "My propensities are unknown": "behavior_model",
    "Which rows are missing from my log?": "keep_probability",
    "I want to compare ten policies": "op.select",
    "My actions are prices, bids or doses": "continuous",
}


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Address of the built site: that of `make docs`, where it was made after the pages, or one made here."""
    pytest.importorskip("mkdocs")
    folder, newest = ROOT / "site", max(p.stat().st_mtime for p in (ROOT / "docs").rglob("*.md"))
    if not (folder / "index.html").exists() or (folder / "index.html").stat().st_mtime < newest:
        folder = tmp_path_factory.mktemp("site")
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
        subprocess.run(command, cwd=ROOT, check=True, env={"NO_MKDOCS_2_WARNING": "1", **os.environ})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def open_site(browser, site):
    contexts = []

    def open_(path, width):
        context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
        contexts.append(context)
        page = context.new_page()
        page.trouble = []
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.goto(site + path)
        page.wait_for_load_state("load")
        return page

    yield open_
    for context in contexts:
        context.close()


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_question_is_answered_two_clicks_from_the_landing_page(open_site, question, width):
    page = open_site("", width)
    row = page.locator("tr", has_text=question)
    assert row.count() == 1
    row.locator("a").first.click()
    page.wait_for_load_state("load")
    assert QUESTIONS[question] in page.locator("article").inner_text()


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_same_is_found_by_the_tabs(open_site, question):
    page = open_site("", 1400)
    page.locator(".md-tabs__link", has_text="Guides").click()
    page.wait_for_load_state("load")
    words = {"I want to compare ten policies": "Compare ten policies, learn a better one"}.get(question, question)
    page.locator(".md-nav--primary .md-nav__link", has_text=words).first.click()
    page.wait_for_load_state("load")
    assert QUESTIONS[question] in page.locator("article").inner_text()


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_fits_its_screen_and_has_no_serious_barrier(open_site, path, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = open_site(path, width)
    assert not page.trouble
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 1, "the page scrolls sideways"
    found = axe.Axe().run(page).response["violations"]
    serious = [v for v in found if v["impact"] in {"serious", "critical"}]
    assert not [(v["id"], [n["html"][:120] for n in v["nodes"][:4]]) for v in serious]


@pytest.mark.parametrize("path", [*PAGES, "quickstart/", "architecture/"])
def test_no_line_of_code_is_cut_on_a_screen(open_site, path):
    page = open_site(path, 1400)
    cut = page.evaluate(
        "[...document.querySelectorAll('article pre code')].filter(c => c.scrollWidth > c.clientWidth + 1)"
        ".map(c => c.innerText.split('\\n').sort((a, b) => b.length - a.length)[0])"
    )
    assert not cut
