"""Every sentence that the library can say, read from the source: python docs/make_sentences.py.

Writes docs/reference/sentences.md, and finds habits that the house has given up (`make lint` runs it with --check).
A sentence is a text of the source with at least four words; docstrings are left out.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "offpolicy"
PAGE = HERE / "reference" / "sentences.md"
ROOMS = (
    "show", "cli", "trust", "inference", "decide", "evaluation", "kinds", "logs", "policies", "models", "scores",
    "splits", "columns", "engines", "testing",
)  # fmt: skip
#: Habits of translated English, as patterns; none may come back into a sentence, a guide or the README.
BANNED = {
    r"\bas it seems\b": "probably",
    r"\bsomething else than\b": "something other than",
    r"\bshrunken\b": "shrunk",
    r"\bspeaks? (for|of)\b": "is the headline of, is about",
    r"\bspeak for many\b": "stand in for many",
    r"\bnot to be relied on\b": "do not rely on",
    r"\b(is|are) no (dates?|actions?|features?|probabilit\w+|densit\w+|polic\w+|numbers?)\b": "is not a, are not",
    r"\bhangs on\b": "depends on",
    r"\bfor having\b": "to offset, because",
    r"\berror rate 0\.": "5% error rate",
    r"\bunasked\b": "offpolicy never … for you",
    r"\b(an)?other (\w+ ){1,2}than\b": "different from",
    r"\b(is|are) there twice\b": "appears twice",
    r", so that\b": ", so",
    r"\bwrit(e|es|ten) over\b": "overwrite",
    r"\bholds? together\b": "hold at once",
    r"\bnext to nothing\b": "almost nothing",
    r"\b(knows?|says?) nothing\b": "has no data on, does not show",
    r"\bflatters?\b": "is too optimistic",
    r"\bthe target\b": "the policy",
    r"\bby (itself|themselves)\b": "automatically, alone",
    r"\bforet(old|ells?)\b": "predicted",
    r"\bbeside\b": "next to",
    r"\bleaves? out the (error|bias|noise)\b": "ignores",
    r"\bnot identified\b": "cannot be estimated",
    r"\bseen in part\b": "partly observed",
    r"\bthan the log\b(?! was)": "than the current policy",
    r"\bhow it comes about\b": "how it is computed",
}
#: Pages of prose that are read for the same habits; code and outputs in them are skipped.
PROSE = (
    "README.md",
    "docs/*.md",
    "docs/howto/*.md",
    "docs/tutorials/*.md",
    "docs/explanation/*.md",
    "docs/reference/*.md",
)
MADE = {"sentences.md", "bench.md", "llms.txt", "architecture.md"}
HEAD = """# Sentences

What the library says, read from its source, so that the sentences can be judged together. `{…}` stands for a value.
Made anew with every build of the docs (`docs/make_sentences.py`).
"""


def sentences(tree: ast.AST) -> list[str]:
    """Texts of at least four words, in the order of the file; docstrings left out."""
    silent = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    parts = {id(v) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for v in node.values}
    found: list[tuple[int, int, str]] = []
    for node in ast.walk(tree):
        if id(node) in silent or id(node) in parts:
            continue
        text = _text(node)
        if text is not None and len(re.findall(r"[A-Za-z]{2,}", text)) >= 4 and " " in text:
            found.append((node.lineno, node.col_offset, " ".join(text.split())))
    return [text for *_, text in sorted(found)]


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        pieces = (v.value if isinstance(v, ast.Constant) else "{…}" for v in node.values)
        return "".join(map(str, pieces))
    return None


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for room in ROOMS:
        lines.append(f"## {room}\n")
        for path in sorted((SOURCE / room).rglob("*.py")):
            texts = sentences(ast.parse(path.read_text("utf-8")))
            texts = [t for t in dict.fromkeys(texts) if not t.startswith(("<", "^", "\\"))]
            if texts:
                lines.append(f"### {path.relative_to(SOURCE / room).with_suffix('').as_posix()}\n")
                lines += [f"- {_escaped(text)}" for text in texts]
                lines.append("")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text)


def habits() -> list[str]:
    """Where a sentence of the library, or the prose of a page, has a banned habit."""
    out = []
    for path in sorted(SOURCE.rglob("*.py")):
        for text in sentences(ast.parse(path.read_text("utf-8"))):
            out += _habits_of(str(path.relative_to(SOURCE)), text)
    for pattern in PROSE:
        for path in sorted(HERE.parent.glob(pattern)):
            if path.name not in MADE:
                out += _habits_of(str(path.relative_to(HERE.parent)), prose(path.read_text("utf-8")))
    return out


def prose(page: str) -> str:
    """The text of a Markdown page on one line, without blocks of code and code between backticks."""
    return " ".join(re.sub(r"`[^`]*`", "`…`", re.sub(r"```.*?```", " ", page, flags=re.DOTALL)).split())


def _habits_of(where: str, text: str) -> list[str]:
    return [
        f"{where}: …{text[max(hit.start() - 40, 0) : hit.end() + 40]}…: write {better!r}"
        for habit, better in BANNED.items()
        for hit in re.finditer(habit, text)
    ]


def on_pre_build(config: object) -> None:
    """MkDocs writes the page anew before every build."""
    del config
    PAGE.write_text(page(), "utf-8")


def main() -> int:
    """Write the page, or check for habits."""
    if "--check" in sys.argv:
        found = habits()
        print("\n".join(found) or "no banned habit")
        return 1 if found else 0
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
