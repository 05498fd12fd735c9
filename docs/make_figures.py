"""Draws the pictures of the explanation pages (make figures); each is a small simulation.

python docs/make_figures.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeRegressor

import offpolicy as op

PICTURES = Path(__file__).parent / "pictures"
BLUE, ORANGE, GRAY = "#3b6ea5", "#d9822b", "#808890"
plt.rcParams.update(
    {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.figsize": (7, 3.2),
        "font.size": 10,
        "svg.hashsalt": "offpolicy",
        "figure.constrained_layout.use": True,
    }
)


def save(name: str) -> None:
    """Write one picture, the same bytes for the same numbers."""
    plt.savefig(PICTURES / f"{name}.svg", metadata={"Date": None})
    plt.close()


def cross_fitting(replications: int = 300, n: int = 400) -> None:
    """DR-full and DML with a tree that memorizes its training rows; the truth is 1."""
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {"DR-full": [], "DML": []}
    covered = {"DR-full": 0, "DML": 0}
    for _ in range(replications):
        x = rng.normal(size=(n, 2))
        p1 = 0.1 + 0.8 / (1 + np.exp(-2 * x[:, 0]))
        a = (rng.random(n) < p1).astype(int)
        r = x[:, 0] + a + rng.normal(size=n)
        log = op.BanditLog.from_arrays(x, a, r, np.where(a == 1, p1, 1 - p1))
        ev = op.evaluate(log, op.policies.Fixed(1), estimators=list(found), reward_model=DecisionTreeRegressor())
        for name, values in found.items():
            e = ev["policy", name]
            values.append((e.value - 1.0) / e.std_error)
            covered[name] += e.interval(0.95, "normal").covers(1.0)
    bins = np.linspace(-6, 6, 49).tolist()
    for name, color in (("DR-full", ORANGE), ("DML", BLUE)):
        label = f"{name}: 95% intervals cover {covered[name] / replications:.0%}"
        plt.hist(found[name], bins, density=True, color=color, alpha=0.55, label=label)
    z = np.linspace(-6, 6, 200)
    plt.plot(z, np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), color="black", lw=1, label="what is promised")
    plt.xlabel("(estimate − truth) / standard error")
    plt.yticks([])
    plt.legend(frameon=False, loc="upper left")
    save("cross_fitting")


def orthogonality() -> None:
    """Bias of IPW and DR when π_b (and q) are off by r times a fixed wrong direction."""
    x = np.linspace(-3, 3, 2001)
    density = np.exp(-(x**2) / 2)
    density /= density.sum()
    p, mu = 1 / (1 + np.exp(-x)), 1 + x
    wrong_p, wrong_mu = np.full_like(x, 0.5), np.ones_like(x)
    r = np.linspace(0, 1, 101)
    ipw, both = [], []
    for t in r:
        p_hat, mu_hat = p + t * (wrong_p - p), mu + t * (wrong_mu - mu)
        ipw.append(density @ (p / p_hat * mu) - 1)
        both.append(density @ (p / p_hat * (mu - mu_hat) + mu_hat) - 1)
    plt.plot(r, ipw, color=ORANGE, label="IPW, π_b wrong")
    plt.plot(r, both, color=BLUE, label="doubly robust, π_b and q both wrong")
    plt.axhline(0, color="black", lw=0.8)
    plt.xlabel("how wrong the nuisances are: η + r (η̃ − η)")
    plt.ylabel("bias")
    plt.legend(frameon=False)
    save("orthogonality")


def horizon() -> None:
    """Effective sample size of products of ratios, by step, for ε-greedy logging of a greedy target."""
    rng = np.random.default_rng(0)
    n, steps = 20_000, 60
    for epsilon, color in ((0.05, BLUE), (0.1, ORANGE), (0.3, GRAY)):
        follow = rng.random((n, steps)) < 1 - epsilon / 2
        log_rho = np.cumsum(np.where(follow, -np.log(1 - epsilon / 2), -np.inf), axis=1)
        rho = np.exp(log_rho)
        size = rho.sum(axis=0) ** 2 / np.maximum((rho**2).sum(axis=0), 1e-300)
        plt.plot(np.arange(1, steps + 1), size / n, color=color, label=f"ε = {epsilon}")
    plt.yscale("log")
    plt.xlabel("step")
    plt.ylabel("effective share of episodes")
    plt.legend(frameon=False, title="logged by ε-greedy, target greedy")
    save("horizon")


def overlap(replications: int = 400, n: int = 2_000) -> None:
    """Coverage of the normal interval as the logging policy takes the target's action less often."""
    rng = np.random.default_rng(0)
    shares = np.array([0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005])
    normal, automatic = [], []
    for p in shares:
        hits = np.zeros(2)
        told = 0
        for _ in range(replications):
            a = (rng.random(n) < p).astype(int)
            r = (rng.random(n) < 0.02).astype(float)
            log = op.BanditLog.from_arrays(None, a, r, np.where(a == 1, p, 1 - p), actions=[0, 1])
            e = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"])["policy", "IPW"]
            if not e.is_defined:
                continue
            told += 1
            hits += [e.interval(0.95, "normal").covers(0.02), e.interval(0.95).covers(0.02)]
        normal.append(hits[0] / told)
        automatic.append(hits[1] / told)
    plt.plot(1 / shares, normal, "o-", color=ORANGE, label="normal interval")
    plt.plot(1 / shares, automatic, "o-", color=BLUE, label="default interval (auto)")
    plt.axhline(0.95, color="black", lw=0.8)
    plt.xscale("log")
    plt.ylim(0, 1.02)
    plt.xlabel("importance weight of the target's action (2% click rate, 2,000 impressions)")
    plt.ylabel("coverage")
    plt.legend(frameon=False, loc="lower left")
    save("overlap")


def slates(n: int = 5_000) -> None:
    """Clicks by position of a ranking policy, from a log that shuffles."""
    rng = np.random.default_rng(0)
    young = rng.random(n) < 0.5
    appeal = np.where(young[:, None], [0.1, 0.4, 0.6, 0.5], [0.7, 0.6, 0.1, 0.2])
    shown = np.array([rng.permutation(4)[:3] for _ in range(n)])
    columns: dict[str, list[Any]] = {"request": [], "pos": [], "young": [], "item": [], "click": [], "p": []}
    for k in range(3):
        tired = (np.take_along_axis(appeal, shown[:, :k], axis=1) > 0.5).sum(axis=1)
        click = rng.random(n) < appeal[np.arange(n), shown[:, k]] * 0.6**tired
        parts = (np.arange(n), np.full(n, k + 1), young, shown[:, k], click * 1.0, np.full(n, 1 / (4 - k)))
        for name, values in zip(columns, parts, strict=True):
            columns[name].append(values)
    frame = pd.DataFrame({name: np.concatenate(values) for name, values in columns.items()})
    log = op.Slates.from_frame(
        frame, slate="request", position="pos", context=["young"], action="item", reward="click", propensity="p",
    )  # fmt: skip

    def scorer(rows: Any) -> Any:
        return np.where(rows["young"].to_numpy()[:, None], [0.1, 0.4, 0.6, 0.5], [0.7, 0.6, 0.1, 0.2])

    ev = op.evaluate(log, op.policies.PlackettLuce(scorer, temperature=0.3), estimators=["SNIPW"])
    ev.plot("positions").set_ylabel("clicks")
    save("slates")


def many_actions(n: int = 4_000) -> None:
    """Standard errors of IPW with exact ratios and with ratios of 12 cells, for a target that takes one action."""
    rng = np.random.default_rng(0)
    sizes = [12, 30, 100, 300, 1_000, 3_000]
    found: dict[str, list[float]] = {"exact": [], "cells": []}
    for k in sizes:
        cell = np.arange(k) % 12
        action = rng.integers(k, size=n)
        reward = (rng.random(n) < 0.1 + 0.05 * cell[action]).astype(float)
        log = op.BanditLog.from_arrays(None, action, reward, np.full(n, 1 / k), actions=range(k), action_features=cell)
        for name, ratio in (("exact", "exact"), ("cells", op.CoarseRatio(bins=12))):
            ev = op.evaluate(
                log, op.policies.Fixed(5), estimators=["IPW"], ratio=ratio, behavior_model=op.policies.Uniform()
            )
            found[name].append(ev["policy", "IPW"].std_error)
    for name, color in (("exact", ORANGE), ("cells", BLUE)):
        label = "ratios of actions" if name == "exact" else "ratios of 12 cells"
        errors = np.where(np.array(found[name]) > 0, found[name], np.nan)
        plt.plot(sizes, errors, "o-", color=color, label=label)
    plt.xscale("log")
    plt.yscale("log")
    plt.xticks(sizes, [f"{k:,}" for k in sizes])
    plt.yticks([0.03, 0.1, 0.3], ["0.03", "0.1", "0.3"])
    plt.minorticks_off()
    plt.xlabel("actions")
    plt.ylabel("standard error of IPW")
    plt.legend(frameon=False, loc="upper left")
    save("many_actions")


def value_curve(n: int = 4_000) -> None:
    """Revenue of one price for everyone, with its band, beside the truth; the log of the page on prices."""
    rng = np.random.default_rng(0)
    income = rng.uniform(-1, 1, size=n)
    price = rng.uniform(2, 12, size=n)

    def chance(p: Any, x: Any) -> Any:
        return 1 / (1 + np.exp(0.8 * (p - 7 - 2 * x)))

    revenue = price * (rng.random(n) < chance(price, income))
    log = op.BanditLog.from_arrays(income[:, None], price, revenue, np.full(n, 0.1), action_kind="continuous")
    ev = op.evaluate(log, {"7 for all": 7.0}, reward_model=op.models.SplineReward())
    curve = ev.value_curve(np.linspace(3, 11, 17))
    axes = plt.gca()
    many = np.linspace(-1, 1, 2001)
    truth = [float(np.mean(p * chance(p, many))) for p in curve.action]
    axes.plot(curve.action, truth, color=GRAY, ls="--", lw=1.2, label="the truth", zorder=3)
    curve.plot(axes)
    axes.set_xlabel("price for everyone")
    axes.set_ylabel("revenue per visitor")
    save("value_curve")


def bandwidths() -> None:
    """Bias and error by bandwidth, from the numbers of ``offpolicy reproduce continuous``."""
    path = Path(__file__).parent / "replications" / "continuous.json"
    curves = json.loads(path.read_text("utf-8"))["bandwidths"]
    h = [float(width) for width in curves]
    figure, axes = plt.subplots(1, 2)
    labels = {"IPW": "kernel IPS", "OBP DR": "kernel DR, one array", "DML": "DML"}
    for name, color in (("IPW", ORANGE), ("OBP DR", GRAY), ("DML", BLUE)):
        for panel, what in zip(axes, ("bias", "rmse"), strict=True):
            values = [row[name][what][0] for row in curves.values()]
            panel.plot(h, values, "o-", ms=4, color=color, label=labels[name])
    axes[0].axhline(0, color="black", lw=0.6)
    for panel, what in zip(axes, ("bias", "root mean squared error"), strict=True):
        panel.set_title(what, loc="left", fontsize=10)
        panel.set_xlabel("bandwidth h")
    axes[1].set_yscale("log")
    axes[0].legend(frameon=False)
    figure.align_labels()
    save("bandwidths")


def main() -> None:
    """Draw them all."""
    PICTURES.mkdir(exist_ok=True)
    pictures: tuple[Any, ...] = (
        cross_fitting,
        orthogonality,
        horizon,
        overlap,
        slates,
        many_actions,
        value_curve,
        bandwidths,
    )
    for picture in pictures:
        picture()
        print(f"{picture.__name__}.svg")


if __name__ == "__main__":
    main()
