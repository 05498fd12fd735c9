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
ROOMS = ("show", "cli", "trust", "inference", "decide", "evaluation", "logs", "policies", "models", "engines")
#: Habits of translated English; rooms whose sentences were rewritten must not fall back into them.
BANNED = {
    "as it seems": "probably",
    "something else than": "something other than",
    "shrunken for": "shrunk to",
    "speaks for": "is the headline of",
    "speak for many": "stand in for many",
    "not to be relied on": "do not rely on",
    "are no dates": "are not dates",
    "hangs on": "depends on",
    "for having stood out": "to offset selection",
    "error rate 0.": "5% error rate",
}
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
    """Where a sentence has a banned habit."""
    out = []
    for path in sorted(SOURCE.rglob("*.py")):
        for text in sentences(ast.parse(path.read_text("utf-8"))):
            out += [
                f"{path.relative_to(SOURCE)}: {text!r}: write {better!r}"
                for habit, better in BANNED.items()
                if habit in text
            ]
    return out


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
