"""Kernel estimators of actions that are numbers: plain loops over rows, and the Open Bandit Pipeline."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from tests.reference.make_obp_continuous import BANDWIDTHS, KERNELS, inputs

import offpolicy as op

D = inputs()
FIXTURE = json.loads((Path(__file__).parent / "fixtures" / "obp_continuous.json").read_text("utf-8"))
LOOPS = {
    "gaussian": lambda u: math.exp(-u * u / 2) / math.sqrt(2 * math.pi),
    "epanechnikov": lambda u: 0.75 * (1 - u * u) if abs(u) <= 1 else 0.0,
    "triangular": lambda u: 1 - abs(u) if abs(u) <= 1 else 0.0,
    "cosine": lambda u: math.pi / 4 * math.cos(math.pi / 2 * u) if abs(u) <= 1 else 0.0,
    "uniform": lambda u: 0.5 if abs(u) <= 1 else 0.0,
}


def log():
    return op.BanditLog.from_arrays(D["context"], D["action"], D["reward"], D["density"], action_kind="continuous")


def evaluated(kernel, h, model, names, **settings):
    ratio = op.KernelRatio(h, kernel, **{"edge": "none", **settings})
    return op.evaluate(log(), {"new": D["policy"]}, reward_model=model, estimators=names, ratio=ratio)


def inside(kernel, center, h, low, high, steps=4000):
    """Share of a kernel inside a range, by the midpoint rule."""
    width = (high - low) / steps
    total = 0.0
    for i in range(steps):
        total += LOOPS[kernel]((low + (i + 0.5) * width - center) / h) / h * width
    return total


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("h", BANDWIDTHS)
def test_obp(kernel, h):
    # OBP's doubly robust estimator takes one array for the model at the logged and at the chosen action.
    ev = evaluated(kernel, h, {"logged": D["v"], "new": D["v"]}, ["IPW", "SNIPW", "DML"])
    for name, value in FIXTURE["values"][f"{kernel} {h:g}"].items():
        assert ev["new", name].value == pytest.approx(value, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("kernel", LOOPS)
def test_plain_loops(kernel):
    h, n = 0.7, len(D["action"])
    model = {"logged": D["q"], "new": D["v"]}
    ev = evaluated(kernel, h, model, ["DM", "IPW", "SNIPW", "DML", "SNDR"])
    ipw = dr = weight = weighted = residual = direct = 0.0
    for i in range(n):
        w = LOOPS[kernel]((D["action"][i] - D["policy"][i]) / h) / h / D["density"][i]
        ipw += w * D["reward"][i] / n
        dr += (w * (D["reward"][i] - D["q"][i]) + D["v"][i]) / n
        weight += w
        weighted += w * D["reward"][i]
        residual += w * (D["reward"][i] - D["q"][i])
        direct += D["v"][i] / n
    loops = {"DM": direct, "IPW": ipw, "SNIPW": weighted / weight, "DML": dr, "SNDR": direct + residual / weight}
    for name, value in loops.items():
        assert ev["new", name].value == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("kernel", LOOPS)
@pytest.mark.parametrize("edge", ["renormalize", "reflect"])
def test_kernels_at_the_end_of_the_range(kernel, edge):
    """What a kernel loses over the end comes back: its density integrates to 1, row by row."""
    span, h = (0.0, 4.0), 0.9
    ratio = op.KernelRatio(h, kernel, edge)
    grid = np.linspace(*span, 40_001)
    middle = (grid[1:] + grid[:-1]) / 2
    # Folded once, a normal kernel in the middle still loses what lies beyond the mirror images.
    off = 1e-5 if kernel == "gaussian" and edge == "reflect" else 1e-6
    for center in (0.0, 0.3, 2.0, 3.9):
        total = ratio.density(middle, np.full(len(middle), center), span).mean() * 4.0
        assert total == pytest.approx(1.0, abs=off if kernel != "uniform" else 1e-4)
    share = ratio.mass_inside(np.array([0.3]), span)[0]
    assert share == pytest.approx(inside(kernel, 0.3, h, *span), abs=1e-3)


def test_renormalized_weights_by_loops():
    low, high = float(D["action"].min()), float(D["action"].max())
    ev = evaluated("epanechnikov", 1.5, None, ["IPW"], edge="renormalize")
    total = 0.0
    for a, c, r, p in zip(D["action"], D["policy"], D["reward"], D["density"], strict=True):
        share = inside("epanechnikov", c, 1.5, low, high, 20_000)
        total += LOOPS["epanechnikov"]((a - c) / 1.5) / 1.5 / share * r / p
    assert ev["new", "IPW"].value == pytest.approx(total / len(D["action"]), rel=1e-6)


def test_a_grid_of_numbers_is_a_bandit():
    """Windows narrower than the spacing, densities = probability / spacing: the bandit's own numbers."""
    rng = np.random.default_rng(5)
    n, spacing = 600, 0.5
    grid = np.array([1.0, 1.5, 2.0, 2.5])
    x = rng.normal(size=(n, 1))
    logits = x * np.array([0.2, 0.4, -0.1, 0.3])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    code = (rng.uniform(size=(n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    reward = grid[code] * x[:, 0] + rng.normal(size=n)
    chosen = (x[:, 0] > 0).astype(int) + 1
    q = rng.normal(size=(n, 4))
    rows = np.arange(n)
    names = ["DM", "IPW", "SNIPW", "DML", "SNDR"]
    bandit = op.BanditLog.from_arrays(x, code, reward, p[rows, code])
    one = op.evaluate(bandit, {"new": lambda x: (x[:, 0] > 0).astype(int) + 1}, estimators=names, reward_model=q)
    numbers = op.BanditLog.from_arrays(
        x, grid[code], reward, p[rows, code] / spacing, action_kind="continuous", actions=(0.75, 2.75)
    )
    two = op.evaluate(
        numbers,
        {"new": grid[chosen]},
        estimators=names,
        reward_model={"logged": q[rows, code], "new": q[rows, chosen]},
        ratio=op.KernelRatio(spacing / 2, "uniform"),
    )
    for name in names:
        a, b = one["new", name], two["new", name]
        assert b.value == pytest.approx(a.value, rel=1e-10)
        assert b.score_error == pytest.approx(a.std_error, rel=1e-10)
        difference = (b - two.logged, a - one.logged)
        assert difference[1].score_error == pytest.approx(difference[0].score_error, rel=1e-10)


def test_a_distribution_by_loops():
    """v is the integral of density × q; weights are ratios of densities."""
    ev = op.evaluate(
        log(),
        {"new": op.policies.Normal(lambda x: 1.0 + 0.5 * x[:, 1], 0.4, low=-1.0, high=3.0)},
        estimators=["DM", "IPW"],
        reward_model=Quadratic(),
    )
    total = direct = 0.0
    n = len(D["action"])
    for a, x, r, p in zip(D["action"], D["context"], D["reward"], D["density"], strict=True):
        mean = 1.0 + 0.5 * x[1]
        mass = 0.5 * (math.erf((3 - mean) / 0.4 / 2**0.5) - math.erf((-1 - mean) / 0.4 / 2**0.5))
        f = math.exp(-(((a - mean) / 0.4) ** 2) / 2) / (0.4 * math.sqrt(2 * math.pi)) / mass
        total += (f if -1 <= a <= 3 else 0.0) / p * r / n
        steps = 400
        for i in range(steps):
            b = -1 + (i + 0.5) * 4 / steps
            g = math.exp(-(((b - mean) / 0.4) ** 2) / 2) / (0.4 * math.sqrt(2 * math.pi)) / mass
            direct += g * (b * b + x[0] * b) * 4 / steps / n
    assert ev["new", "IPW"].value == pytest.approx(total, rel=1e-10)
    assert ev["new", "DM"].value == pytest.approx(direct, rel=1e-3)


class Quadratic:
    """A reward model that needs no fit: a² + x₀ a."""

    def fit_reward(self, data, seed):
        return self

    def predict(self, X, codes):
        return codes**2 + np.asarray(X)[:, 0] * codes
