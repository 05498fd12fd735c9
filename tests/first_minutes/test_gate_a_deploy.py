"""The pipeline examples of "Gate a deploy", parsed and run as their systems would run them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "gate_a_deploy.md"


def fences(kind: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The page's files in a folder, with `offpolicy` on the path."""
    (tmp_path / "gate.toml").write_text(fences("toml")[0], encoding="utf-8")
    code = fences("python")[0].replace("8_000", "3_000")
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    command = tmp_path / "bin" / "offpolicy"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m offpolicy "$@"\n')
    command.chmod(0o755)
    return tmp_path


def typed(script: str, project: Path) -> int:
    env = {**os.environ, "PATH": f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    env["GITHUB_STEP_SUMMARY"] = str(project / "step.md")
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(shell, cwd=project, env=env, check=False, capture_output=True).returncode


def steps() -> list[str]:
    """Shell steps of the workflow, but for the installation."""
    workflow = yaml.safe_load(fences("yaml")[0])
    found = [step["run"] for step in workflow["jobs"]["gate"]["steps"] if "run" in step]
    return [script for script in found if not script.startswith("pip install")]


def test_the_workflow_passes_a_better_policy_and_stops_a_worse_one(project: Path) -> None:
    assert len(steps()) == 2
    assert [typed(script, project) for script in steps()] == [0, 0]
    assert (project / "report.html").exists()
    assert (project / "result.json").exists()
    assert "passed" in (project / "step.md").read_text(encoding="utf-8")
    run_file = project / "gate.toml"
    run_file.write_text(run_file.read_text().replace('"candidate"', '"always:a"'))
    assert typed(steps()[-1], project) == 3
    assert "failed" in (project / "step.md").read_text(encoding="utf-8")


def test_the_hook_runs(project: Path) -> None:
    (hook,) = yaml.safe_load(fences("yaml")[1])["repos"][0]["hooks"]
    assert hook["pass_filenames"] is False
    assert all(re.search(hook["files"], name) for name in ("gate.toml", "log.csv", "policies/new.py"))
    assert typed(shlex.join(shlex.split(hook["entry"])), project) == 0
    assert (project / "gate.md").exists()
