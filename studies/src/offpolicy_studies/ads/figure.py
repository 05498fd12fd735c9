"""Figure 2: click rates of the logging and the counterfactual policy by DML, with 95% intervals and truth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from offpolicy.errors import missing_dependency

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def draw(results: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw one panel a campaign and write ``figure2.svg`` and ``figure2.png``.

    Parameters
    ----------
    results : sequence of dict
        From `improvement`.
    folder : Path
        Where the files go.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_dependency("matplotlib", "plot", "Figure 2") from error

    # Fixed ids and no date: the same results give the same file.
    with mpl.rc_context({"svg.hashsalt": "offpolicy", "font.size": 9}):
        figure = Figure(figsize=(9.2, 3.5), layout="constrained")
        axes = figure.subplots(1, len(results), squeeze=False)[0]
        for ax, result in zip(axes, results, strict=True):
            _panel(ax, result)
        axes[0].set_ylabel("click rate, %")
        handles, labels = axes[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        paths = [folder / "figure2.svg", folder / "figure2.png"]
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=160)
    return paths


#: Interval: color of its bar, shift, label.
BARS = {"normal": ("0.25", -0.09, "DML, Proposition 1"), "automatic": ("#1769aa", 0.09, "DML, automatic interval")}


def _panel(ax: Any, result: dict[str, Any]) -> None:
    for x, name in enumerate(("logged", "new")):
        own = result[name]
        value = 100 * own["value"]
        for kind, (color, shift, label) in BARS.items():
            low, high = (100 * end for end in own[kind])
            # An interval that the library refuses to state has no ends; its estimate is still drawn.
            reach = [[max(value - low, 0.0)], [max(high - value, 0.0)]] if low <= high else None
            ax.errorbar(
                x + shift, value, yerr=reach, fmt="o", ms=4, capsize=3, color=color,
                label=label if x else None,
            )  # fmt: skip
        true = 100 * result[f"true_{name}"]
        ax.plot(x + 0.25, true, "D", color="#b3392f", ms=4, label="truth" if x else None)
    title = f"campaign {result['campaign'] + 1}\n"
    if result["lift"] is not None:
        low, high = result["lift"]["normal"]
        title += f"lift {result['lift']['value']:+.0%} [{low:+.0%}, {high:+.0%}], true {result['true_lift']:+.0%}"
    ax.set_title(title, fontsize=9)
    ax.set_xticks([0, 1], ["logging\npolicy", "best design\nper context"])
    ax.set_xlim(-0.5, 1.5)
    lows = [100 * result["new"][kind][0] for kind in BARS]
    ax.set_ylim(bottom=min(0.0, *(1.1 * low for low in lows if not math.isnan(low))))
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
