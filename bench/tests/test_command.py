"""`offpolicy bench` is the command of this distribution, found by its entry point."""

from importlib.metadata import EntryPoint

import pytest

from offpolicy.cli import main, studies


@pytest.fixture
def announced(monkeypatch):
    """As if installed, whether it is or not."""
    point = EntryPoint("bench", "offpolicy_bench.command:BENCH", studies.COMMANDS)
    monkeypatch.setattr(studies, "entry_points", lambda group: [point] if group == studies.COMMANDS else [])


def test_the_command_lists_tasks_and_entries(announced, capsys):
    assert main(["bench", "list"]) == 0
    out = capsys.readouterr().out
    assert "sepsis" in out
    assert "doubleml" in out


def test_its_help_is_its_own(announced, capsys):
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    assert "put logs to entries" in capsys.readouterr().out


def test_where_it_is_not_installed_the_remedy_is_said(monkeypatch, capsys):
    monkeypatch.setattr(studies, "entry_points", lambda group: [])
    assert main(["bench", "list"]) == 1
    assert "pip install ./bench" in capsys.readouterr().err
