"""Write docs/llms.txt, a map of the documentation for language models, from the navigation: make llms."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "llms.txt"
WRITTEN_LATER = {"reference/sentences.md"}  # when the site is built
INTRODUCTION = """# offpolicy

> What would another policy have earned? Debiased off-policy evaluation from logged data: `import offpolicy as op`,
> `log = op.BanditLog.from_frame(df, context=[...], action="ad", reward="click", propensity="p")`,
> `ev = op.evaluate(log, {"new": policy})`, `print(ev)`, `ev.verdict("new")`, `ev["new", "auto"].interval()`.

A policy is a function of the context that returns one label per row, an object with `probabilities(context)`, a column
of the log, an (n, K) array, or words such as "uniform" and "always:x". Unknown propensities are fitted when
`propensity=` is left out. Read the verdict before the number. Never evaluate a policy on the rows it was trained on:
pass the unfitted learner instead.
"""


def made() -> str:
    """Sections and pages in the order of the navigation, each page with its first sentence."""
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    lines = [INTRODUCTION]
    for line in nav.splitlines():
        if section := re.fullmatch(r"  - (\w+):", line):
            lines.append(f"## {section[1]}\n")
        elif page := re.fullmatch(r"\s+- (.+): (\S+\.md)", line):
            about = "" if page[2] in WRITTEN_LATER else summary(ROOT / "docs" / page[2])
            lines.append(f"- [{page[1]}]({page[2]}){about}")
        if line == "" and lines[-1] != "":
            lines.append("")
    text = "\n".join(lines)
    return re.sub(r"\n(## )", r"\n\n\1", text).replace("\n\n\n", "\n\n").rstrip("\n") + "\n"


def summary(page: Path) -> str:
    """The first sentence of a page's first paragraph; empty where it opens with something else."""
    body = page.read_text("utf-8").partition("\n\n")[2].lstrip()
    paragraph = " ".join(body.partition("\n\n")[0].split())
    if not paragraph or paragraph[0] in "<|#`![-:":
        return ""
    plain = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", paragraph)
    return ": " + re.split(r"(?<=[.?!])\s", plain)[0]


if __name__ == "__main__":
    TARGET.write_text(made(), "utf-8")
