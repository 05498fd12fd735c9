"""``python -m offpolicy_studies STUDY``: a study from a checkout that is not installed."""

from __future__ import annotations

import argparse

from offpolicy_studies import catalog
from offpolicy_studies.study import Study

KNOWN = {s.name: s for s in vars(catalog).values() if isinstance(s, Study)}


def main() -> None:
    """Parse the study's flags, run it and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m offpolicy_studies")
    studies = parser.add_subparsers(dest="study", required=True, metavar="STUDY")
    for study in KNOWN.values():
        study.add_arguments(studies.add_parser(study.name, help=study.help))
    arguments = parser.parse_args()
    study = KNOWN[arguments.study]
    del arguments.study
    print(study.run(arguments))


if __name__ == "__main__":
    main()
