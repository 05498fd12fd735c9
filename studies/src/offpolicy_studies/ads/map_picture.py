"""The ads map as one picture: a row for each world and reward model, a mark for each estimator's error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.errors import missing_dependency

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Estimator: mark, color; the same in both panels, told apart by shape as well as by color.
MARKS = {
    "IPW": ("x", "#6b6b6b"),
    "DM": ("^", "#b07d00"),
    "DR-full": ("s", "#b3392f"),
    "DR-half": ("D", "#7a5ea8"),
    "DML": ("o", "#1769aa"),
}
TITLES = {"true": "π_b known", "estimated": "π_b by shares"}
ROW_INCHES = 0.27
SURE = 0.01
TICKS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)


def draw(cells: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the cells of `offpolicy_studies.ads.map.summarize` and write an SVG file."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_dependency("matplotlib", "report", "the ads map") from error

    keys = sorted({_key(cell) for cell in cells})
    # Fixed ids and no date: the same results give the same file.
    with mpl.rc_context({"svg.hashsalt": "offpolicy", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9.2, 1.6 + ROW_INCHES * len(keys)), layout="constrained")
        axes = figure.subplots(1, len(TITLES), sharey=True, squeeze=False)[0]
        for ax, (behavior, title) in zip(axes, TITLES.items(), strict=True):
            own = [cell for cell in cells if cell["behavior"] == behavior]
            _panel(ax, own, keys)
            ax.set_title(title, fontsize=9)
            ax.set_xlabel("error relative to the true value (log scale)")
        axes[0].set_yticks(range(len(keys)), [_label(key) for key in keys])
        axes[0].invert_yaxis()
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(MARKS), frameon=False)
        figure.savefig(path, metadata={"Date": None})


def _key(cell: dict[str, Any]) -> tuple[Any, ...]:
    return cell["model"], cell["rate"], cell["effects"], cell["overlap"]


def _label(key: tuple[Any, ...]) -> str:
    model, rate, effects, overlap = key
    return f"{model} μ̂ · clicks ×{rate} · effects {effects:g} · {overlap} overlap"


def _panel(ax: Any, cells: Sequence[dict[str, Any]], keys: list[tuple[Any, ...]]) -> None:
    for name, (mark, color) in MARKS.items():
        x = [cell["rmse"][name] for cell in cells]
        y = [keys.index(_key(cell)) for cell in cells]
        ax.plot(x, y, mark, color=color, ms=5, label=name, markerfacecolor="none")
    for cell in cells:
        # Batch by batch: one wild batch decides a mean of squares.
        test = cell["against_full"]
        if test["ranks"] > 0 and test["signed_rank"] < SURE:
            row = keys.index(_key(cell))
            ax.axhspan(row - 0.45, row + 0.45, color="#1769aa", alpha=0.10, lw=0)
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.grid(axis="x", color="0.9", lw=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
