"""Pictures of the report for the documentation: `python docs/make_pictures.py`.

Writes the report of the README's log, opens it in the system's Chromium and takes screenshots; needs playwright, as the
browser tests do, and takes about a minute.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import offpolicy as op

HERE = Path(__file__).parent / "pictures"
SHOTS = {  # name: (width, height, color scheme, what to show)
    "report-light": (1280, 860, "light", None),
    "report-dark": (1280, 860, "dark", None),
    "report-phone": (375, 812, "light", None),
    "report-estimates": (1280, 1400, "light", "#estimates"),
    "report-overlap": (1280, 1400, "light", "#overlap"),
}
METRICS = {"report-metrics": (1280, 1400, "light", "#metrics")}
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def chromium() -> str:
    """Path of the browser."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("OFFPOLICY_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        sys.exit("no Chromium found: `apt-get install chromium`, or set OFFPOLICY_CHROMIUM")
    return path


def main() -> None:
    """Make them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the pictures")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    answer = three_ads()
    with tempfile.TemporaryDirectory() as folder:
        path = answer.report(Path(folder) / "report.html", title="Music ads for people under 35")
        shoot(path, args.out)
        shoot(two_metrics().report(Path(folder) / "metrics.html"), args.out, METRICS)
    figure = answer.plot("forest").figure
    figure.savefig(args.out / "plot-forest.svg", metadata={"Date": None})


def three_ads() -> op.Evaluation:
    """The log and the policies of the README, over four weeks."""
    rng = np.random.default_rng(0)
    n = 20_000
    df = pd.DataFrame({"age": rng.uniform(18, 70, n), "device": rng.choice(["phone", "desktop"], n)})
    df["ad"] = rng.choice(["sport", "travel", "music"], n, p=[0.6, 0.3, 0.1])
    df["p"] = df["ad"].map({"sport": 0.6, "travel": 0.3, "music": 0.1})
    df["click"] = rng.random(n) < 0.03 + 0.04 * ((df["age"] < 35) & (df["ad"] == "music"))
    df["week"] = rng.integers(1, 5, n)
    log = op.BanditLog.from_frame(
        df, context=["age", "device"], action="ad", reward="click", propensity="p", batch="week"
    )
    policies = {"new": lambda x: np.where(x["age"] < 35, "music", "sport"), "travel for all": "always:travel"}
    return op.evaluate(log, policies)


def two_metrics() -> op.Evaluation:
    """The ads of the page on several metrics, by revenue and cost."""
    rng = np.random.default_rng(0)
    n, ads = 6_000, np.array(["plain", "video", "rich"])
    device, k = rng.integers(6, size=n), rng.integers(3, size=n)
    click = rng.random(n) < 0.15 + 0.1 * (k == device % 3)
    rewards = {"revenue": click * rng.integers(1, 5, n), "cost": 0.2 + 0.1 * k + 0.1 * rng.random(n)}
    log = op.BanditLog.from_arrays(device, ads[k], rewards, np.full(n, 1 / 3))
    policies = {"match": lambda x: ads[x % 3], "plain": "always:plain", "rich": "always:rich"}
    return op.evaluate(log, policies, minimize=["cost"])


def shoot(path: Path, out: Path, shots: dict = SHOTS) -> None:
    """Screenshots of one report."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        for name, (width, height, scheme, part) in shots.items():
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", offline=True
            )
            page = context.new_page()
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready=true]")
            place = page if part is None else page.locator(part)
            place.screenshot(path=out / f"{name}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
