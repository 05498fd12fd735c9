"""The studies as `offpolicy reproduce` finds them: announced, listed, run with their own flags."""

import argparse
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from offpolicy.cli import main
from offpolicy_studies import catalog
from offpolicy_studies.study import Study

ROOT = Path(__file__).parents[2]
STUDIES = {s.name: s for s in vars(catalog).values() if isinstance(s, Study)}


def test_every_study_is_announced_under_its_name():
    found = {e.name: e.load() for e in entry_points(group="offpolicy.studies")}
    assert {name: found[name] for name in STUDIES} == STUDIES


def test_the_readme_lists_every_study_with_a_page_that_exists():
    rows = [r for r in (ROOT / "studies" / "README.md").read_text("utf-8").splitlines() if "|" in r]
    assert {name for r in rows for name in re.findall(r"`([\w-]+)`", r.split("|")[1])} == set(STUDIES)
    pages = [page for r in rows for page in re.findall(r"`(docs/[^`]+)`", r)]
    assert pages
    assert [page for page in pages if not (ROOT / page).is_file()] == []


def test_the_list_imports_no_study():
    code = (
        "import sys; from offpolicy.cli import main; main(['reproduce']); "
        "print(sorted(m for m in sys.modules if m.startswith('offpolicy_studies')))"
    )
    listed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert all(f"  {name}" in listed.stdout for name in STUDIES)
    loaded = "['offpolicy_studies', 'offpolicy_studies.catalog', 'offpolicy_studies.study']"
    assert listed.stdout.splitlines()[-1] == loaded


@pytest.mark.parametrize("study", STUDIES.values(), ids=lambda s: s.name)
def test_every_flag_has_a_line_of_help(study):
    parser = argparse.ArgumentParser(add_help=False)
    study.add_arguments(parser)
    assert [a.dest for a in parser._actions if not a.help] == []
    parser.format_help()


def test_a_study_from_the_command_line(tmp_path, capsys):
    flags = ["--replications", "2", "--settings", "ModelFail,ModelWin", "--workers", "1"]
    assert main(["reproduce", "tabular", *flags, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == (tmp_path / "table.md").read_text().strip()
    assert "**ModelWin**" in (tmp_path / "table.md").read_text()


def test_a_study_without_an_installation(tmp_path):
    flags = ["--replications", "1", "--settings", "ModelFail", "--workers", "1"]
    command = [sys.executable, "-m", "offpolicy_studies", "tabular", *flags, "--out", str(tmp_path)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "**ModelFail**" in said
