"""Actions that are numbers: logs, policies, kernels, bandwidths, paths and checks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import offpolicy as op
from offpolicy.errors import DataError, ModelError, PolicyError, UsageError
from offpolicy.kinds.kernel import best_width, candidates, lepski
from offpolicy.models.behavior.density import AutoDensity, DensityData, LocationScale, MarginalDensity
from offpolicy.models.fitting.encode import encode_table
from offpolicy.policies.densities import KERNELS, nodes_of
from offpolicy.trust.diagnose import check_log

ROLES = {
    "context": ["x", "kind"],
    "action": "price",
    "reward": "revenue",
    "propensity": "density",
    "action_kind": "continuous",
}


SPLINE = op.models.SplineReward()


def frame(seed=0, n=1500):
    """Prices drawn around 5 + x; revenue is a wave of the price."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({"x": rng.uniform(-1, 1, size=n), "kind": rng.choice(["u", "v"], size=n)})
    mean = 5 + df["x"]
    df["price"] = mean + 1.5 * rng.normal(size=n)
    u = (df["price"] - mean) / 1.5
    df["density"] = np.exp(-u * u / 2) / (1.5 * np.sqrt(2 * np.pi))
    df["revenue"] = expected(df, df["price"]) + 0.3 * rng.normal(size=n)
    df["own"] = 5.2 + 0.5 * df["x"]
    df["user"] = rng.integers(0, n // 3, size=n)
    df["day"] = rng.integers(0, 3, size=n)
    return df


def expected(df, price):
    return np.sin(price) + 0.3 * (df["kind"] == "u")


def policy(context):
    return 5.2 + 0.5 * context["x"]


def log(df=None, **roles):
    return op.BanditLog.from_frame(frame() if df is None else df, **{**ROLES, **roles})


# -- logs ------------------------------------------------------------------------------------------


def test_a_log_of_numbers_says_so():
    made = log()
    assert not made.space.finite
    assert made.actions == ()
    assert "price from" in repr(made)
    assert "densities logged" in repr(made)
    part = made.take(np.arange(10))
    assert not part.space.finite
    assert part.action_range == made.action_range


def test_the_range_may_be_declared():
    assert log(actions=(-5, 20)).action_range == (-5.0, 20.0)
    with pytest.raises(DataError, match="outside the declared range 4 to 6"):
        log(actions=(4, 6))
    with pytest.raises(DataError, match=r"range \(low, high\)"):
        log(actions=["a", "b"])


def test_densities_are_not_probabilities():
    df = frame()
    df["density"] *= 50  # a density may exceed 1
    assert log(df).propensity.max() > 1
    df.loc[3, "density"] = 0.0
    with pytest.raises(DataError, match=r"'density'.*row 3 = 0.0.*not densities"):
        log(df)
    with pytest.raises(DataError, match="one density per row"):
        log(frame(), propensity=["density", "x"])


def test_bad_actions_name_the_row():
    df = frame()
    df.loc[7, "price"] = np.nan
    with pytest.raises(DataError, match=r"'price'.*row 7"):
        log(df)
    with pytest.raises(DataError, match="not numbers"):
        log(frame().assign(price="cheap"))
    with pytest.raises(DataError, match="do not differ"):
        log(frame().assign(price=2.0))


def test_labels_that_look_like_numbers_are_pointed_here():
    with pytest.raises(DataError, match="action_kind='continuous'"):
        log(action_kind="discrete", propensity=None)
    with pytest.raises(UsageError, match="action_kind="):
        log(action_kind="number")
    with pytest.raises(UsageError, match="eligible="):
        log(eligible="kind")


# -- policies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        policy,
        "own",
        pytest.param(frame()["own"].to_numpy(), id="array"),
        pytest.param(LinearRegression().fit(frame()[["x"]], frame()["own"]), id="regressor"),
    ],
)
def test_forms_of_one_policy_agree(form):
    df = frame()
    made = log(df, context=["x"]) if hasattr(form, "predict") else log(df)
    ratio = op.KernelRatio(0.8)
    one = op.evaluate(made, {"p": policy}, estimators=["IPW"], ratio=ratio)
    two = op.evaluate(made, {"p": form}, estimators=["IPW"], ratio=ratio)
    assert two["p", "IPW"].value == pytest.approx(one["p", "IPW"].value, rel=1e-9)


def test_constants_in_numbers_and_words():
    ratio = op.KernelRatio(0.8)
    ev = op.evaluate(log(), {"a": 5.5, "b": "always:5.5"}, estimators=["IPW"], ratio=ratio)
    assert ev["a", "IPW"].value == ev["b", "IPW"].value
    alone = op.evaluate(log(), 5.5, estimators=["IPW"], ratio=ratio)
    assert alone["policy", "IPW"].value == ev["a", "IPW"].value


def test_actions_outside_the_log_are_refused_with_the_figure():
    with pytest.raises(PolicyError, match=r"'far' takes actions outside the logged range .* in 100%"):
        op.evaluate(log(), {"far": 50.0})
    with pytest.raises(PolicyError, match=r"12\.\d*% of its distribution|% of its distribution is"):
        op.evaluate(log(), {"wide": Shifted()}, estimators=["IPW"])


class Shifted:
    """A density that mostly lies beyond the log."""

    def density(self, context, action):
        return np.where(action > 9, 1.0, 0.0)


class Halves:
    """Uniform between 4 and 6, with nothing but a density."""

    def density(self, context, action):
        return np.where((action >= 4) & (action <= 6), 0.5, 0.0)


def test_a_density_is_all_that_a_distribution_needs():
    ev = op.evaluate(
        log(), {"own": Halves(), "built in": op.policies.UniformRange(4.0, 6.0)}, reward_model=LinearRegression()
    )
    for name in ("IPW", "DML"):
        assert ev["own", name].value == pytest.approx(ev["built in", name].value, rel=3e-3)
        assert ev["own", name].allowance == 0.0


def test_nodes_integrate():
    context = np.zeros((2, 1))
    span = (0.0, 10.0)
    for made in (op.policies.Normal(4.0, 0.5), op.policies.Normal(9.9, 0.5), op.policies.UniformRange(2.0, 8.0)):
        bound = made.within(span)
        points, weights = nodes_of(bound, context, span)
        grid = np.linspace(*span, 20_001)
        density = bound.density(np.zeros((len(grid), 1)), grid)
        mean = np.average(grid, weights=density)
        assert weights.sum(axis=1) == pytest.approx(1.0)
        assert (points * weights).sum(axis=1) == pytest.approx(mean, rel=1e-4)
        assert density.mean() * 10 == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"bandwidth": 0}, "bandwidth="),
        ({"bandwidth": "wide"}, "bandwidth="),
        ({"kernel": "epanechnikow"}, "epanechnikov"),
        ({"edge": "drop"}, "edge="),
    ],
)
def test_kernel_ratio_refuses(bad, match):
    with pytest.raises(UsageError, match=match):
        op.KernelRatio(**bad)


def test_kernels_are_for_numbers_only():
    labels = op.BanditLog.from_arrays(None, [0, 1] * 20, [0.0, 1.0] * 20, [0.5] * 40)
    with pytest.raises(UsageError, match="action_kind='continuous'"):
        op.evaluate(labels, op.policies.Fixed(1), ratio=op.KernelRatio(1.0))
    with pytest.raises(UsageError, match="gamma="):
        op.evaluate(log(propensity=None), policy, gamma=1.5)


# -- bandwidths and their allowance ----------------------------------------------------------------


def test_lepski_stops_at_the_first_contradiction():
    apart = np.array([0.0, 0.5, 1.0, 9.0, 0.0])
    assert lepski(apart, np.eye(5)) == 2
    assert lepski(np.zeros(4), np.eye(4)) == 3
    # Half of a bandwidth is two steps down: the third is the narrowest that can be judged.
    assert best_width(np.array([0.0, 9.0, 0.0, 0.0]), np.eye(4)) == 2
    widths = candidates(8.0)
    assert widths[0] == 4.0
    assert widths[2] == pytest.approx(2.0)


def test_the_allowance_is_what_halving_shows():
    made = log()
    ev = op.evaluate(made, {"p": policy}, ratio=op.KernelRatio(1.0), estimators=["SNIPW", "DML"], reward_model=SPLINE)
    half = op.evaluate(made, {"p": policy}, ratio=op.KernelRatio(0.5), estimators=["SNIPW", "DML"], reward_model=SPLINE)
    for name in ("SNIPW", "DML"):
        e, finer = ev["p", name], half["p", name]
        assert e.smoothed.finer.value == pytest.approx(finer.value, rel=1e-12)
        bias, error = e.smoothing
        assert bias == pytest.approx(4 / 3 * (e.value - finer.value), rel=1e-9)
        assert e.allowance == pytest.approx(abs(bias) + error)
        plain = op.Estimate.from_scores(e.psi).interval(method="normal")
        assert e.interval(method="normal").low == pytest.approx(plain.low - e.allowance)
        assert "window of half width 1 (epanechnikov)" in " ".join(e.notes)


def test_differences_and_lifts_carry_their_allowance():
    ev = op.evaluate(log(), {"p": policy, "q": 5.4}, ratio=op.KernelRatio(1.0), estimators=["DML"], reward_model=SPLINE)
    a, b = ev["p", "DML"], ev["q", "DML"]
    gap = a - b
    assert gap.smoothing[0] == pytest.approx(a.smoothing[0] - b.smoothing[0])
    assert 0 < gap.allowance <= a.allowance + b.allowance + 1e-12
    assert (a - ev.logged).allowance == pytest.approx(a.allowance)
    low, high = a.lift(ev.logged).interval()
    assert high - low > 2 * a.lift(ev.logged).allowance > 0
    together = ev.compare()
    assert together.values["p"].width > 2 * a.allowance
    halves = a.within(np.arange(1500) < 700)
    assert halves.allowance > 0
    assert halves.n == 700


def test_windows_at_the_end_of_the_range_count_double():
    made = log(actions=(0.0, 12.0))
    top = op.evaluate(
        made, {"p": lambda c: np.full(len(c), 5.0)}, ratio=op.KernelRatio(0.5), estimators=["DML"], reward_model=SPLINE
    )
    df = frame()
    uniform = df.assign(price=np.random.default_rng(1).uniform(2, 8, len(df)), density=1 / 6)
    edge = op.evaluate(log(uniform), {"p": 7.9}, ratio=op.KernelRatio(0.5), estimators=["DML"], reward_model=SPLINE)
    assert top["p", "DML"].smoothed.extrapolation == pytest.approx(4 / 3)
    assert edge["p", "DML"].smoothed.extrapolation == 2.0
    assert "the window reaches the end of the logged range" in " ".join(edge["p", "DML"].notes)
    assert edge.diagnostics["p", "mean_weight"].level == "ok"


@pytest.mark.parametrize("n", [250, 1500])
def test_windows_cut_at_the_end_stay_narrow(n):
    """What a model leaves has mean 0 over wide windows, also where it is far off at the end."""
    rng = np.random.default_rng(2)
    price = rng.uniform(0, 6, size=n)
    revenue = np.sin(price) + 0.5 * rng.normal(size=n)
    made = op.BanditLog.from_arrays(
        rng.normal(size=(n, 1)), price, revenue, np.full(n, 1 / 6), action_kind="continuous", actions=(0, 6)
    )
    ev = op.evaluate(made, {"top": 5.95}, reward_model=SPLINE, estimators=["DML"])
    # A small log has no three narrow windows with enough rows: then the three narrowest.
    assert ev.settings["bandwidths"]["top"] <= (0.75 if n > 1000 else 3.0) + 1e-9
    assert ev["top", "DML"].interval().covers(np.sin(5.95))


def test_auto_chooses_a_bandwidth_for_each_policy_and_way():
    ev = op.evaluate(log(), {"p": policy, "d": op.policies.Normal(5.0, 0.5)}, reward_model=SPLINE)
    assert set(ev.settings["bandwidths"]) == {"p"}
    model, alone = ev.settings["bandwidths"]["p"], ev.settings["bandwidths_without_model"]["p"]
    assert alone < model  # a model leaves less to smooth
    truth = float(expected(frame(), policy(frame())).mean())
    for e in ev.estimators:
        assert ev["p", e.name].interval().covers(truth)
    assert (
        ev["p", "auto"].value
        == op.evaluate(log(), {"p": policy}, estimators=["SNDR"], ratio=op.KernelRatio(model), reward_model=SPLINE)[
            "p", "SNDR"
        ].value
    )


def test_a_smoothed_model_values_the_smoothed_policy():
    ratio = op.KernelRatio(1.0, smooth_model=True)
    ev = op.evaluate(log(), {"p": policy}, ratio=ratio, estimators=["DM", "DML", "SNIPW"], reward_model=SPLINE)
    plain = op.evaluate(log(), {"p": policy}, ratio=op.KernelRatio(1.0), estimators=["DM", "DML"], reward_model=SPLINE)
    dm, snipw = ev["p", "DM"].value, ev["p", "SNIPW"].value
    # All estimate the same, the smoothed policy: it lies between the wave's trough and its surroundings.
    assert abs(ev["p", "DML"].value - snipw) < abs(plain["p", "DML"].value - snipw)
    assert abs(dm - snipw) < 0.1


def test_too_wide_a_window_is_said():
    ev = op.evaluate(log(), {"p": policy}, ratio=op.KernelRatio(3.0), estimators=["SNIPW"])
    finding = ev.diagnostics["p", "smoothing_bias"]
    assert finding.level in {"caution", "alarm"}
    assert ev.verdict("p").level != "trust"
    narrow = op.evaluate(log(), {"p": policy}, ratio=op.KernelRatio(0.3), estimators=["SNIPW"])
    assert narrow.diagnostics["p", "smoothing_bias"].level == "ok"
    assert "for smoothing bias" in " ".join(narrow.verdict("p").reasons)


# -- checks, report, gates -------------------------------------------------------------------------


def test_checks_about_labels_say_that_they_are(tmp_path):
    ev = op.evaluate(log(batch="day"), {"p": policy, "q": 5.5}, reward_model=SPLINE)
    finding = ev.diagnostics["p", "mean_weight_by_action"]
    assert not finding.ran
    assert "numbers" in finding.sentence
    for name in ("balance", "sample_ratio_mismatch", "unsupported_mass", "duplicates"):
        assert ev.diagnostics["p", name].ran
        assert ev.diagnostics["p", name].level == "ok"
    assert ev.diagnostics["p", "mean_weight"].ran
    assert ev.diagnostics["p", "mean_weight_by_batch"].ran
    text = ev.report(tmp_path / "r.html").read_text("utf-8")
    assert "price from" in text
    assert '"action_range"' in ev.to_json()
    assert ev.compare().best.leader in {"p", "q", "(logging policy)"}


def test_densities_of_other_contexts_and_copied_rows_are_found():
    df = frame()
    mixed = df.assign(density=np.random.default_rng(0).permutation(df["density"].to_numpy()))
    found = check_log(log(mixed))
    assert found["balance"].level == "alarm"
    assert found["balance"].details["column"] == "x"
    copied = check_log(log(pd.concat([df, df.iloc[:100]], ignore_index=True)))
    assert copied["duplicates"].level == "alarm"


def test_without_densities_no_bound_is_offered_that_does_not_exist():
    ev = op.evaluate(log(propensity=None), {"p": policy}, estimators=["SNIPW"])
    reasons = " ".join(ev.verdict("p").reasons)
    assert "randomized=True" in reasons
    assert "gamma=" not in reasons


@pytest.mark.parametrize(
    ("kind", "mean"),
    [("corner", lambda u: -np.abs(u)), ("jump", lambda u: 1.0 * (u >= 0)), ("none", lambda u: -(u**2) / 3)],
)
def test_a_break_where_the_policy_sits_is_found(kind, mean):
    rng = np.random.default_rng(5)
    x, a = rng.uniform(-1, 1, 2000), rng.uniform(0, 6, 2000)
    reward = mean(a - 3 - x) + 0.5 * rng.normal(size=2000)
    made = op.BanditLog.from_arrays(x, a, reward, np.full(2000, 1 / 6), action_kind="continuous", actions=(0.0, 6.0))
    ev = op.evaluate(made, lambda x: 3 + np.asarray(x).ravel(), estimators=["DML"], reward_model=SPLINE)  # fmt: skip
    finding = ev.diagnostics["policy", "break_at_policy"]
    assert finding.details["kind"] == kind
    assert finding.level == {"none": "ok", "corner": "caution", "jump": "alarm"}[kind]
    assert ev["policy", "DML"].smoothed.extrapolation == (2.0 if kind == "corner" else 4 / 3)
    if kind == "corner":
        assert finding.details["size"] == pytest.approx(-2.0, abs=0.8)
    else:
        assert ev["policy", "DML"].smoothed.corner == 0.0


def test_a_corner_is_allowed_for_by_its_size():
    """Half its change of slope times the mean distance of the window, also where halving the window shows less."""
    rng = np.random.default_rng(5)
    x, a = rng.uniform(-1, 1, 2000), rng.uniform(0, 6, 2000)
    reward = 3 - np.abs(a - 3 - x) + 0.5 * rng.normal(size=2000)
    made = op.BanditLog.from_arrays(x, a, reward, np.full(2000, 1 / 6), action_kind="continuous", actions=(0.0, 6.0))
    policies = {"at": lambda x: 3 + np.asarray(x).ravel(), "beside": lambda x: 4 + np.asarray(x).ravel()}
    ev = op.evaluate(made, policies, ratio=op.KernelRatio(0.4), estimators=["DML", "SNIPW"], reward_model=SPLINE)
    size = ev.diagnostics["at", "break_at_policy"].details["size"]
    modeled, other = ev["at", "DML"], ev["beside", "DML"]
    assert modeled.smoothed.corner == pytest.approx(size / 2 * 3 / 8 * 0.4)
    for e in (modeled, ev["at", "SNIPW"]):
        bias, error = e.smoothing
        assert e.smoothed.corner < 0 < error
        assert e.allowance == pytest.approx(max(abs(bias), abs(e.smoothed.corner)) + error)
        assert e.interval().covers(3.0)
    sharper = replace(modeled, smoothed=replace(modeled.smoothed, corner=-9.0))
    assert sharper.allowance == pytest.approx(9 + modeled.smoothing[1])
    assert other.smoothed.corner == 0.0
    assert (modeled - other).smoothed.corner == (modeled - ev.logged).smoothed.corner == modeled.smoothed.corner
    assert (other - modeled).smoothed.corner == -modeled.smoothed.corner
    assert (modeled + other).smoothed.corner == modeled.smoothed.corner
    assert (-2 * modeled).smoothed.corner == -2 * modeled.smoothed.corner
    assert modeled.lift(other).smoothed.corner == pytest.approx(modeled.smoothed.corner / other.value)
    back = other.lift(modeled)
    assert back.smoothed.corner == pytest.approx(-other.value * modeled.smoothed.corner / modeled.value**2)


@pytest.mark.parametrize("name", list(KERNELS))
def test_kernels_know_how_far_they_reach_on_average(name):
    kernel = KERNELS[name]
    u = np.linspace(-8, 8, 160_001)
    distance = np.trapezoid(np.abs(u) * kernel.density(u), u)
    assert kernel.mean_distance == pytest.approx(distance, abs=1e-4)


def test_wrong_densities_are_found():
    df = frame()
    ev = op.evaluate(log(df.assign(density=2 * df["density"])), {"p": policy}, estimators=["SNIPW"])
    assert ev.diagnostics["p", "mean_weight"].level == "alarm"
    assert ev.verdict("p").level == "insufficient evidence"


# -- every path ------------------------------------------------------------------------------------


@pytest.mark.parametrize("roles", [{}, {"propensity": None}, {"cluster": "user", "batch": "day"}])
def test_streamed_rows_give_the_same(tmp_path, roles):
    df = frame(n=900)
    df.to_parquet(tmp_path / "log.parquet")
    policies = {"p": policy, "own": "own", "d": op.policies.Normal(5.5, 0.7)}
    one = op.evaluate(log(df, **roles), policies, reward_model=SPLINE)
    names = {**ROLES, **roles}
    for way in ("rows", "stream"):
        with op.scan(tmp_path / "log.parquet", **names, way=way, chunk_rows=250) as scanned:
            two = op.evaluate(scanned, policies, reward_model=SPLINE)
            columns = ["value", "std_error", "low", "high", "difference"]
            np.testing.assert_allclose(two.frame()[columns], one.frame()[columns], rtol=1e-10)
            assert two.settings["bandwidths"] == one.settings["bandwidths"]
            assert two.verdict("p").level == one.verdict("p").level
            more = two.add({"q": 5.5})["q", "DML"]
            assert more.value == pytest.approx(one.add({"q": 5.5})["q", "DML"].value, rel=1e-10)


def test_scans_check_what_logs_check(tmp_path):
    df = frame(n=300)
    df.loc[5, "density"] = -1.0
    df.to_parquet(tmp_path / "bad.parquet")
    with op.scan(tmp_path / "bad.parquet", **ROLES) as scanned, pytest.raises(DataError, match="not densities"):
        scanned.check()
    with pytest.raises(UsageError, match="seldom repeat"):
        op.scan(tmp_path / "bad.parquet", **ROLES, way="cells")


# -- models ----------------------------------------------------------------------------------------


def density_data(seed, n, hetero):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 1))
    sd = 0.5 + 0.4 * x[:, 0] if hetero else np.full(n, 0.7)
    a = 3 * x[:, 0] + sd * rng.normal(size=n)
    return DensityData(encode_table(x), a, None, (float(a.min()), float(a.max()))), sd, x


@pytest.mark.parametrize("hetero", [False, True])
def test_the_fitted_density_is_the_true_one(hetero):
    data, _, _ = density_data(0, 4000, hetero)
    test, sd, x = density_data(1, 2000, hetero)
    fit = AutoDensity().fit_density(data, 0)
    u = (test.action - 3 * x[:, 0]) / sd
    truth = np.exp(-u * u / 2) / (sd * np.sqrt(2 * np.pi))
    gap = np.log(truth) - np.log(fit.density(test.X, test.action))
    plain = MarginalDensity().fit_density(data, 0)
    assert gap.mean() < 0.02
    assert (np.log(truth) - np.log(plain.density(test.X, test.action))).mean() > 0.5


def test_a_density_integrates_to_one():
    data, _, _ = density_data(0, 2000, False)
    grid = np.linspace(-8, 8, 4001)
    table = encode_table(np.zeros((len(grid), 1)))
    for model in (LocationScale(), LocationScale("trees"), LocationScale(LinearRegression(), shape="normal")):
        given = data if model.wants_encoded else DensityData(data.X.matrix, data.action, None, data.span)
        fit = model.fit_density(given, 0)
        X = table if model.wants_encoded else table.matrix
        assert fit.density(X, grid).mean() * 16 == pytest.approx(1.0, abs=0.01)


def test_fitted_densities_stand_for_logged_ones():
    truth = float(expected(frame(), policy(frame())).mean())
    ev = op.evaluate(log(propensity=None), {"p": policy}, estimators=["DML", "SNIPW"], randomized=True)
    assert ev["p", "DML"].interval().covers(truth)
    own = op.evaluate(log(propensity=None), {"p": policy}, estimators=["DML"], behavior_model=LinearRegression())
    assert abs(own["p", "DML"].value - truth) < 0.1
    given = op.evaluate(
        log(),
        {"p": policy},
        estimators=["IPW"],
        behavior_model=frame()["density"].to_numpy(),
        ratio=op.KernelRatio(1.0),
    )
    known = op.evaluate(log(), {"p": policy}, estimators=["IPW"], ratio=op.KernelRatio(1.0))
    assert given["p", "IPW"].value == known["p", "IPW"].value
    with pytest.raises(ModelError, match="behavior_model= as a word"):
        op.evaluate(log(), {"p": policy}, behavior_model="boosted", estimators=["IPW"])


def test_models_of_labels_are_refused():
    with pytest.raises(ModelError, match="PerAction"):
        op.evaluate(log(), {"p": policy}, reward_model=op.models.PerAction(LinearRegression()), estimators=["DM"])
    with pytest.raises(ModelError, match="'logged'"):
        op.evaluate(log(), {"p": policy}, reward_model={"p": np.zeros(1500)}, estimators=["DM"])


# -- value curves ----------------------------------------------------------------------------------


def of_five():
    return op.evaluate(log(), {"five": 5.0}, estimators=["auto"], reward_model=SPLINE)


def test_a_value_curve_has_a_band_that_holds_together():
    made = of_five().value_curve(np.linspace(4, 6.5, 4))
    truth = [float(expected(frame(), a).mean()) for a in made.action]
    assert ((made.low <= truth) & (truth <= made.high)).all()
    single = made.evaluation["4", "auto"].interval()
    assert made.high[0] - made.low[0] >= single.width - 1e-12
    assert list(made.frame().columns) == ["action", "value", "std_error", "low", "high"]
    assert made.best == [6.5]
    axes = made.plot()
    assert axes.get_xlabel() == "price"
    assert "4 actions from 4 to 6.5" in repr(made)


def test_value_curves_are_for_numbers():
    labels = op.BanditLog.from_arrays(None, [0, 1] * 9, [0.0, 1.0] * 9, [0.5] * 18)
    ev = op.evaluate(labels, "always:1", estimators=["IPW"])
    with pytest.raises(UsageError, match="action_kind='continuous'"):
        ev.value_curve()
    with pytest.raises(UsageError, match="twice"):
        of_five().value_curve([5, 5])


def test_the_command_line_takes_numbers(tmp_path, capsys):
    from offpolicy.cli import main

    path = tmp_path / "log.csv"
    frame(n=600).to_csv(path, index=False)
    roles = ["--context", "x,kind", "--action", "price", "--reward", "revenue", "--propensity", "density"]
    kind = ["--action-kind", "continuous"]
    asked = ["--policy", "own=own", "--policy", "flat=always:5.5", "--reward-model", "linear"]
    assert main(["evaluate", str(path), *roles, *kind, *asked, "--bandwidth", "0.8"]) == 0
    assert "window of half width 0.8" in capsys.readouterr().out
    assert main(["evaluate", str(path), *roles, *asked]) == 1
    assert "--action-kind" in capsys.readouterr().err
    assert main(["check", str(path), *roles, *kind]) == 0


def test_the_printed_standard_error_holds_what_smoothing_is_off_by():
    """Errors of a policy that names a number, in printed standard errors: how much is smoothed is part of them."""
    errors = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=1500)
        a = 0.3 * x + 0.9 * rng.normal(size=1500)
        d = np.exp(-0.5 * ((a - 0.3 * x) / 0.9) ** 2) / (0.9 * (2 * np.pi) ** 0.5)
        r = 4 - (a - 0.6 * x) ** 2 + (0.5 + 0.5 * abs(a)) * rng.normal(size=1500)
        frame = pd.DataFrame({"x": x, "a": a, "d": d, "r": r})
        log = op.BanditLog.from_frame(
            frame, context=["x"], action="a", reward="r", propensity="d", action_kind="continuous"
        )
        policies = {"p": lambda c: 0.5 * c["x"] + 0.2, "s": lambda c: 0.2 * c["x"] - 0.3}
        ev = op.evaluate(log, policies, estimators=["SNIPW"])
        e, gap = ev["p", "SNIPW"], ev["p", "SNIPW"] - ev["s", "SNIPW"]
        for one, truth in ((e, 4 - 0.01 - 0.04), (gap, (4 - 0.05) - (4 - 0.16 - 0.09))):
            assert one.std_error == pytest.approx(np.hypot(one.score_error, np.hypot(*one.smoothing)))
            errors.append((one.value - truth) / one.std_error)
    assert np.sqrt(np.mean(np.square(errors))) < 1.2
