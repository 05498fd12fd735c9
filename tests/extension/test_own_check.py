"""A check from outside: rewards of a device that are off from their predictions, wherever the rows are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from extension.four_ways import WAYS, source
from sklearn.linear_model import Ridge

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.trust import Check, Threshold, forget, register

LIMITS = Threshold(3.3, 5.0, "above", "Look at how rewards of this device are counted.", decides=True)


def by_device(view):
    """What the reward model leaves, device by device: noise of mean 0."""
    rest, device = view.decisions.reward - view.decisions.q, view.context("device")
    return {str(name): rest * (device == name) for name in sorted(set(device))}


CHECK = Check(
    "reward_by_device",
    LIMITS,
    columns=by_device,
    sentence=lambda worst: (
        "rewards of every device are as predicted."
        if worst.fine
        else f"rewards on {worst.label} are off from their predictions (z = {worst.z:.3g})."
    ),
    applies=lambda view: "" if view.value_split else "no estimate needed a reward model.",
)
ROLES = {"context": ["x", "device"], "action": "a", "reward": "r", "propensity": "p", "id": "i"}


@pytest.fixture(autouse=True)
def registered():
    register(CHECK)
    yield
    forget(CHECK.name)


def frame(*, broken: bool, n: int = 6000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    device = rng.choice(["phone", "tablet", "desk"], n, p=[0.5, 0.1, 0.4])
    x, a = rng.normal(size=n), rng.integers(2, size=n)
    r = 0.5 * x + a + rng.normal(size=n) + 3.0 * broken * (device == "tablet")
    return pd.DataFrame({"i": np.arange(n), "x": x, "device": device, "a": a, "r": r, "p": 0.5})


class Blind(Ridge):
    """Looks at numbers only: it cannot know of devices."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(np.asarray(X)[:, :1].astype(float), y, sample_weight)

    def predict(self, X):
        return super().predict(np.asarray(X)[:, :1].astype(float))


def on(way: str, df: pd.DataFrame, folder, **options) -> op.Evaluation:
    """The evaluation of the rows, as a frame or wherever they are."""
    if way == "frame":
        return op.evaluate(op.BanditLog.from_frame(df, **ROLES), {"one": "always:1"}, **options)
    rows, more = source(way, df, folder, __name__)
    with op.scan(rows, **ROLES, **{**more, "chunk_rows": 2000}) as log:
        ev = op.evaluate(log, {"one": "always:1"}, **options)
        assert ev.diagnostics
    return ev


@pytest.mark.parametrize("way", ["frame", *WAYS])
def test_it_finds_the_same_wherever_the_rows_are(way, tmp_path):
    whole = on("frame", frame(broken=True), tmp_path, reward_model=Blind()).diagnostics["one"][CHECK.name]
    found = on(way, frame(broken=True), tmp_path, reward_model=Blind()).diagnostics["one"][CHECK.name]
    assert found.level == "alarm"
    assert "rewards on tablet are off" in found.sentence
    assert found.value == pytest.approx(whole.value, rel=1e-9)


@pytest.mark.parametrize("way", ["frame", "parquet"])
def test_its_alarm_decides(way, tmp_path):
    ev = on(way, frame(broken=True), tmp_path, reward_model=Blind())
    verdict = ev.verdict("one")
    assert verdict.level == "insufficient evidence"
    assert any(LIMITS.remedy in reason for reason in verdict.reasons)
    assert ev.gate("one - logged > -9").exit_code == 4


def test_it_is_calm_and_says_where_it_does_not_apply(tmp_path):
    assert on("frame", frame(broken=False), tmp_path).diagnostics["one"][CHECK.name].level == "ok"
    alone = on("frame", frame(broken=False), tmp_path, estimators=["IPW"])
    assert not alone.diagnostics["one"][CHECK.name].ran


def test_names_are_taken_once():
    with pytest.raises(UsageError, match="named 'balance' already"):
        register(Check("balance", LIMITS, by_device, str))
    with pytest.raises(UsageError, match="you have not added a check"):
        forget("balance")
