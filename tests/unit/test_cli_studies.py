"""`offpolicy reproduce`: whatever studies are installed, by the protocol alone."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from offpolicy.cli import main, studies


class Toss:
    name = "toss"
    help = "a coin"

    def add_arguments(self, parser):
        parser.add_argument("--times", type=int, default=1)

    def run(self, arguments):
        return f"tossed {arguments.times} times"


@pytest.fixture
def install(monkeypatch):
    """Pretend that distributions announce these entry points."""
    module = ModuleType("coins")
    module.toss = Toss()
    monkeypatch.setitem(sys.modules, "coins", module)

    def announce(**places):
        points = [EntryPoint(name, place, studies.GROUP) for name, place in places.items()]
        monkeypatch.setattr(studies, "entry_points", lambda group: points)

    return announce


def test_a_study_gets_its_own_flags(install, capsys):
    install(toss="coins:toss")
    assert main(["reproduce", "toss", "--times", "3"]) == 0
    assert capsys.readouterr().out == "tossed 3 times\n"


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_installed_studies_are_listed(install, capsys, words):
    install(toss="coins:toss", broken="coins:nothing")
    assert main(["reproduce", *words]) == 0
    out = capsys.readouterr().out
    assert "toss    a coin" in out
    assert "broken  cannot be loaded" in out


def test_a_misspelled_study_is_named(install, capsys):
    install(toss="coins:toss")
    assert main(["reproduce", "tos"]) == 1
    assert "Did you mean 'toss'?" in capsys.readouterr().err


def test_without_studies_the_remedy_is_said(install, capsys):
    install()
    assert main(["reproduce", "toss"]) == 1
    assert "pip install ./studies" in capsys.readouterr().err
    assert main(["reproduce"]) == 0
    assert "pip install ./studies" in capsys.readouterr().out


def test_a_bad_flag_of_a_study_is_bad_usage(install, capsys):
    install(toss="coins:toss")
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "toss", "--often", "3"])
    assert stop.value.code == 1
    assert "--often" in capsys.readouterr().err
