"""Tutorials as notebooks with their outputs, written into the site when it is built: notebooks/NAME.ipynb.

Code and outputs are those of the pages, which the tests run and compare (`tests/unit/test_docs.py`); a notebook is the
same blocks in the form of Jupyter, so that a reader can run and change them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import pages  # noqa: E402

TUTORIALS = (*sorted((HERE / "tutorials").glob("*.md")), HERE / "quickstart.md")


def notebook(page: Path) -> dict[str, Any]:
    """A page as a notebook: prose as Markdown cells, blocks as code cells with what they print."""
    text, cells, end = page.read_text("utf-8"), [], 0
    for found in pages.BLOCK.finditer(text):
        cells += _prose(text[end : found.start()])
        end = found.end()
        if found["skip"]:
            cells += _prose(found["code"])
            continue
        code = found["text"] if found["kind"] == "python" else "%%bash\n" + found["text"]
        cells.append(_code(code.rstrip("\n"), found["output"] or "", len(cells)))
    cells += _prose(text[end:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _prose(text: str) -> list[dict[str, Any]]:
    lines = text.strip("\n")
    return [{"cell_type": "markdown", "metadata": {}, "source": lines.splitlines(keepends=True)}] if lines else []


def _code(text: str, printed: str, count: int) -> dict[str, Any]:
    shown = [{"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)}] if printed else []
    return {
        "cell_type": "code",
        "metadata": {},
        "execution_count": count + 1,
        "source": text.splitlines(keepends=True),
        "outputs": shown,
    }


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """MkDocs: a tutorial links to itself as a notebook, under its title."""
    source = HERE / page.file.src_uri
    if source not in TUTORIALS:
        return markdown
    up = "../" * (page.file.url.count("/"))
    link = f'<a href="{up}notebooks/{source.stem}.ipynb" download>This page as a notebook</a>'
    return re.sub(r"^(# .*)$", lambda title: f"{title[0]}\n\n{link}", markdown, count=1, flags=re.MULTILINE)


def on_post_build(config: Any) -> None:
    """MkDocs: the notebooks beside the pages."""
    folder = Path(config["site_dir"]) / "notebooks"
    folder.mkdir(exist_ok=True)
    for page in TUTORIALS:
        (folder / f"{page.stem}.ipynb").write_text(json.dumps(notebook(page), indent=1, ensure_ascii=False), "utf-8")
