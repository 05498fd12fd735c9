"""A real Chromium, as the system has it, with the network shut; without one these tests are skipped."""

import os
import shutil

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium():
    """Path of the browser: OFFPOLICY_CHROMIUM, or what the system calls Chromium."""
    named = os.environ.get("OFFPOLICY_CHROMIUM")
    return named or next((p for p in map(shutil.which, NAMES) if p), None)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="browser tests need playwright: pip install 'offpolicy[test]'"
    )
    path = chromium()
    if path is None:
        pytest.skip("no Chromium found: `apt-get install chromium` (Debian), or set OFFPOLICY_CHROMIUM to its path")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture
def open_page(browser):
    """Opens a file and returns the page, which knows what went wrong on it and what it asked for."""
    contexts = []

    def open_(path, *, width=1280, height=900, scheme="light", scripts=True):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            java_script_enabled=scripts,
            reduced_motion="reduce",
            offline=True,
        )
        contexts.append(context)
        page = context.new_page()
        page.trouble, page.asked = [], []
        page.on("console", lambda m: page.trouble.append(m.text) if m.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(path.as_uri())
        if scripts:
            page.wait_for_selector("html[data-ready=true]", timeout=120_000)
        return page

    yield open_
    for context in contexts:
        context.close()
