"""What pages show and the code makes (make tables): the table of checks and their statistics."""

import math
from pathlib import Path

from offpolicy.decide import replay_checks  # noqa: F401, it declares checks
from offpolicy.kinds import label_checks, long_term  # noqa: F401, they declare checks
from offpolicy.trust import CHECKS

HERE = Path(__file__).parent


def limit(value: float, side: str) -> str:
    """A limit, or a dash where there is none."""
    return "–" if math.isinf(value) else f"{'>' if side == 'above' else '<'} {value:g}"


def rate(false_alarms: float | None) -> str:
    """Chance of a caution on a clean log; a limit is no test and has none."""
    return "a limit" if false_alarms is None else f"≤ {100 * false_alarms:g}%"


def diagnostics() -> str:
    """The table of all checks."""
    rows = [
        "| check | statistic | value | note | caution | alarm | decides | false alarms | what to do |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    before = ""
    for check in sorted(CHECKS.values(), key=lambda c: c.listed):
        t = check.limits
        listed, before = "" if check.listed == before else f"`{check.listed}`", check.listed
        rows.append(
            f"| {listed} | `{check.name}` | {check.value} | {limit(t.caution, t.side) if t.advice else '–'} | "
            f"{'–' if t.advice else limit(t.caution, t.side)} | {limit(t.alarm, t.side)} | "
            f"{'yes' if t.decides else ''} | {rate(t.false_alarms)} | {t.remedy} |"
        )
    return "\n".join(rows)


def main() -> None:
    page = HERE / "reference" / "diagnostics.md"
    head, _, _ = page.read_text(encoding="utf-8").partition("| check |")
    page.write_text(head + diagnostics() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
