"""Write the tables of two pages of rewards seen in part from the results of their studies.

``python docs/make_outcomes.py`` puts `docs/replications/{labels,outcomes}.json`, each a ``results.json`` of
``offpolicy reproduce``, between the marks of the pages beside them.
"""

import json
import re
from pathlib import Path

from offpolicy_studies import labels, outcomes

FOLDER = Path(__file__).parent / "replications"
MAKERS = {"labels": labels.show, "outcomes": outcomes.show}
SHOWN = {name: show for name, show in MAKERS.items() if (FOLDER / f"{name}.json").exists()}
MARKS = "<!-- {name}: generated -->\n", "<!-- {name}: end -->"


def page(name: str) -> str:
    """A page with its tables made anew."""
    text = (FOLDER / f"{name}.md").read_text("utf-8")
    table = SHOWN[name](json.loads((FOLDER / f"{name}.json").read_text("utf-8")))
    begin, end = (mark.format(name=name) for mark in MARKS)
    return re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{table}\n\n{end}", text, flags=re.DOTALL)


if __name__ == "__main__":
    for each in SHOWN:
        (FOLDER / f"{each}.md").write_text(page(each), "utf-8")
        print(f"written: docs/replications/{each}.md")
