"""Run every page and write what its blocks print behind them: make outputs, or with names of pages.

python docs/make_outputs.py                     # all pages
python docs/make_outputs.py docs/quickstart.md  # some
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pages


def main() -> None:
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or pages.PAGES
    here = Path.cwd()
    for page in chosen:
        if not pages.blocks(page):
            continue
        if missing := pages.missing_data(page):
            print(f"left as it is, for want of the data {missing!r}: {page.relative_to(pages.ROOT)}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            printed = pages.outputs(page)
            os.chdir(here)
        text = page.read_text("utf-8")
        new = pages.filled(text, printed)
        if new != text:
            page.write_text(new, "utf-8")
            print(f"written: {page.relative_to(pages.ROOT)}")


if __name__ == "__main__":
    main()
