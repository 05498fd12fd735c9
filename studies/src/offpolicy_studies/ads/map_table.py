"""The ads map as Markdown: errors of every world, and DR-full against DML over all worlds together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def markdown(summary: dict[str, Any]) -> str:
    """Return the map as a table: error relative to the true value, smallest of each row in bold."""
    names = list(summary["cells"][0]["rmse"])
    head = (
        "| clicks | context effects | overlap | reward model | π_b | "
        + " | ".join(names)
        + " | bias of DR-full | mean of DR-full − DML (s.e.) | squared errors, DR-full − DML, p, signed-rank p |"
        + " of which bias, variance |"
        + " in-sample variance | variance left | IPW > DR-full > DML |"
    )
    lines = [head, "|---|---|---|---|---|" + "---:|" * (len(names) + 6) + "---|"]
    lines += [_row(cell) for cell in summary["cells"]]
    closest = max(summary["cells"], key=lambda cell: cell["toward_paper"])
    named = ", ".join(str(closest[k]) for k in ("rate", "effects", "overlap", "model", "behavior"))
    lines += ["", f"Closest to IPW > DR-full > DML: {named}."]
    lines += ["", "All worlds together, DR-full against DML:", "", *_pooled(summary["pooled"])]
    return "\n".join(lines) + "\n"


def _pooled(groups: list[dict[str, Any]]) -> Iterable[str]:
    yield (
        "| reward model | π_b | batches | RMSE of DR-full, DML | median error | squared errors, DR-full − DML |"
        " of which bias, variance | p | signed-rank p | ranks for DML |"
    )
    yield "|---|---|" + "---:|" * 8
    for group in groups:
        test, of_which = group["against_full"], group["parts"]
        rmse, median = (group[name] for name in ("rmse", "median"))
        yield (
            f"| {group['model']} | {group['behavior']} | {group['records']} | "
            f"{rmse['DR-full']:.3f}, {rmse['DML']:.3f} | {median['DR-full']:.3f}, {median['DML']:.3f} | "
            f"{test['difference']:+.4f} | {of_which['bias']:+.4f}, {of_which['variance']:+.4f} | "
            f"{test['p_value']:.2g} | {test['signed_rank']:.2g} | {test['ranks']:+.2f} |"
        )


def _row(cell: dict[str, Any]) -> str:
    best = min(cell["rmse"].values())
    values: Iterable[str] = (f"**{v:.3f}**" if v == best else f"{v:.3f}" for v in cell["rmse"].values())
    test, (gap, gap_error) = cell["against_full"], cell["over_fitting"]
    return (
        f"| ×{cell['rate']} | {cell['effects']:g} | {cell['overlap']} | {cell['model']} | "
        f"{cell['behavior']} | {' | '.join(values)} | {cell['bias']['DR-full']:+.3f} | "
        f"{gap:+.3f} ({gap_error:.3f}) | {test['difference']:+.4f}, {test['p_value']:.1g}, {test['signed_rank']:.1g} | "
        f"{cell['parts']['bias']:+.4f}, {cell['parts']['variance']:+.4f} | "
        f"{cell['in_sample_share']:.2f} | {cell['variance_left']:.2f} | "
        f"{'yes' if cell['paper_order'] else 'no'} |"
    )
