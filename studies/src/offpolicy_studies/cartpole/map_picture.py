"""The CartPole map as one picture: a square for each cell, its color and letter the estimator that is best there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.errors import missing_dependency
from offpolicy_studies.cartpole.map_table import WAYS

if TYPE_CHECKING:
    from pathlib import Path

#: Estimator: color, what is written in its squares.
COLORS = {
    "DM": ("#e8c46a", "DM"),
    "IPW": ("#c9c9c9", "IPW"),
    "DR-full": ("#e39a8f", "DR-full"),
    "DR-half": ("#c3b1e1", "DR-half"),
    "DML": ("#8ebbe0", "DML"),
}
SURE = 0.01


def draw(summary: dict[str, Any], path: Path) -> None:
    """Draw the map and write an SVG file; bold where DML and DR-full differ with p < .01."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_dependency("matplotlib", "report", "the CartPole map") from error

    cells = summary["cells"]
    columns = sorted({(c["value"], c["epsilon"]) for c in cells})
    kinds = sorted({(c["q"] != "plain", c["steps"]) for c in cells})
    # Fixed ids and no date: the same results give the same file.
    with mpl.rc_context({"svg.hashsalt": "offpolicy", "svg.fonttype": "none", "font.size": 8}):
        size = (1.9 + 1.25 * len(columns), 1.2 + 0.28 * len(kinds) * len(WAYS))
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.subplots()
        rows = [(kind, way) for kind in kinds for way in WAYS]
        for cell in cells:
            kind = (cell["q"] != "plain", cell["steps"])
            x = columns.index((cell["value"], cell["epsilon"]))
            _square(ax, x, rows.index((kind, cell["way"])), cell)
        labels = [f"{'careful' if k[0] else 'plain'} q̂, {k[1]:,} steps · {way}" for k, way in rows]
        ax.set_yticks(range(len(rows)), labels)
        ax.set_xticks(range(len(columns)), [f"value {v:.0f}\nε = {e:g}" for v, e in columns])
        ax.set_xlim(-0.5, len(columns) - 0.5)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        for k in range(1, len(kinds)):
            ax.axhline(k * len(WAYS) - 0.5, color="0.2", lw=0.8)
        ax.tick_params(length=0)
        ax.xaxis.tick_top()
        for side in ax.spines.values():
            side.set_visible(False)
        figure.savefig(path, metadata={"Date": None})


def _square(ax: Any, x: int, y: int, cell: dict[str, Any]) -> None:
    best = cell["order"][0]
    color, text = COLORS[best]
    ratio = cell["rows"]["DML"]["mse"] / cell["rows"]["DR-full"]["mse"]
    sure = cell["tests"]["DR-full"]["p_value"] < SURE
    ax.fill([x - 0.5, x + 0.5, x + 0.5, x - 0.5], [y - 0.5, y - 0.5, y + 0.5, y + 0.5], color=color, lw=0)
    ax.text(
        x, y, f"{text} · {ratio:.2f}" if ratio < 100 else f"{text} · {ratio:.0e}",
        ha="center", va="center", fontweight="bold" if sure else "normal", fontsize=7,
    )  # fmt: skip
