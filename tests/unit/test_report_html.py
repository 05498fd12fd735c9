"""The report file: what it holds, what it must not hold, and what plots and notebooks show."""

import re
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy._visible import esc
from offpolicy.errors import MissingDependencyError, UsageError
from offpolicy.show import html, plots
from offpolicy.show.html import content_hash

EVIL = '</script><img src=x onerror="window.hacked=1">'


def log_with(names, n=800, seed=0, **more):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=n), "place": rng.choice(names, size=n)})
    a = rng.integers(len(names), size=n)
    frame["a"] = np.array(names, dtype=object)[a]
    frame["r"] = (rng.random(n) < 0.2 + 0.3 * (a == 1)).astype(float)
    frame["p"] = 1 / len(names)
    frame["hour"] = np.sort(rng.integers(6, size=n))
    return op.BanditLog.from_frame(
        frame, context=["x", "place"], action="a", reward="r", propensity="p", batch="hour", **more
    )


@pytest.fixture(scope="module")
def evil():
    log = log_with(["plain", EVIL, "a & b"])
    policies = {EVIL: op.policies.Fixed(EVIL), "uniform": op.policies.Uniform()}
    return op.evaluate(log, policies, estimators=["DML", "IPW", "SNIPW", "DM"])


@pytest.fixture(scope="module")
def text(evil, tmp_path_factory):
    path = evil.report(tmp_path_factory.mktemp("report") / "r.html", title=EVIL, command=EVIL)
    return path.read_text(encoding="utf-8")


class Reader(HTMLParser):
    """Elements, attributes and ids as a browser would see them, scripts apart."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links, self.scripts = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[k] for k in ("src", "href") if values.get(k)]
        self.scripts += [values.get("type")] if tag == "script" else []


def test_one_small_file_without_links_to_anywhere(text):
    assert len(text.encode()) < 300_000
    page = Reader(text)
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert page.scripts == [None]
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_names_from_the_data_stay_text(text):
    assert "img" not in Reader(text).tags
    assert EVIL not in text
    assert esc(EVIL) in text


def test_the_security_policy_allows_exactly_the_scripts_of_the_file(text):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(scripts) == 1
    for script in scripts:
        assert content_hash(script) in policy
    assert "unsafe-eval" not in policy
    assert "default-src 'none'" in policy


def test_every_chart_is_drawn_and_every_mark_has_its_row_of_numbers(text):
    figures = re.findall(r'<figure class="chart">.*?</figure>', text, flags=re.DOTALL)
    names = [re.search(r'id="chart-([^"]*)"', f).group(1) for f in figures]
    for name in ("forest", "differences", "weights-0", "overlap-1", "batches-0", "clipping-1"):
        assert name in names
    for name, figure in zip(names, figures, strict=True):
        marks = {int(i) for i in re.findall(r'data-i="?(\d+)', figure)}
        rows = figure.split("<tbody>")[1].count("<tr")
        assert marks, name
        assert marks <= set(range(rows)), name
        assert "nan" not in figure.lower().split("<details")[0], name


def test_forty_policies_fit_in_a_small_file():
    log = log_with(["plain", "other", "third"])
    policies = {f"policy {i}": op.policies.EpsilonGreedy(op.policies.Fixed("plain"), i / 40) for i in range(40)}
    ev = op.evaluate(log, policies, estimators=["DML", "IPW", "SNIPW", "DM"])
    assert len(html.page(ev).encode()) < 1_300_000


def test_settings_hash_and_command_are_in_the_file(text):
    assert re.search(r"<dd>[0-9a-f]{32}</dd>", text)
    assert "<dt>seed</dt><dd>0</dd>" in text
    assert f"<dt>numpy</dt><dd>{np.__version__}</dd>" in text


def test_a_report_is_html(evil, tmp_path):
    with pytest.raises(UsageError, match=r"must end in \.html"):
        evil.report(tmp_path / "report.pdf")


def test_episodes_have_a_horizon_and_no_batches():
    rng = np.random.default_rng(0)
    states = rng.integers(3, size=(60, 4))
    log = op.Trajectories.from_arrays(
        states, rng.integers(2, size=(60, 4)), rng.random((60, 4)), propensities=np.full((60, 4), 0.5)
    )
    ev = op.evaluate(log, op.policies.Fixed(0), estimators=["IPW", "SNIPW"])
    page = html.page(ev)
    assert 'id="chart-horizon-0"' in page
    assert 'id="chart-batches-0"' not in page
    assert "per episode" in page


def test_a_log_without_overlap_still_has_a_report():
    rng = np.random.default_rng(0)
    log = op.BanditLog.from_arrays(None, [0] * 50, rng.random(50), [0.5] * 50, actions=[0, 1])
    ev = op.evaluate(log, {"never": op.policies.Fixed(1)}, estimators=["IPW", "DM"])
    page = html.page(ev)
    assert "The log has no evidence about" in page
    assert "Insufficient evidence" in page


@pytest.mark.parametrize("kind", plots.KINDS)
def test_plots_return_axes_with_something_on_them(evil, kind):
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot as plt

    axes = evil.plot(kind, policy=EVIL)
    axes.figure.canvas.draw()
    assert axes.lines or axes.patches or axes.collections or axes.texts
    plt.close(axes.figure)


def test_plots_draw_where_they_are_told(evil):
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot as plt

    figure, own = plt.subplots()
    assert evil.plot("forest", ax=own) is own
    labels = [t.get_text() for t in own.get_yticklabels()]
    assert labels[0] == f"{EVIL} · DML"
    assert len(labels) == 8
    plt.close(figure)


def test_dollars_in_names_are_not_mathematics():
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot as plt

    log = log_with(["$\\frac{$", "b"])
    policies = {"$x_{$": op.policies.Fixed("b"), "other": op.policies.Uniform()}
    ev = op.evaluate(log, policies, estimators=["IPW"])
    for kind in ("forest", "overlap", "segments"):
        axes = ev.plot(kind, policy="$x_{$")
        axes.figure.canvas.draw()
        plt.close(axes.figure)


def test_plots_name_what_is_not_there(evil):
    with pytest.raises(UsageError, match="Did you mean 'forest'"):
        evil.plot("forrest")
    with pytest.raises(UsageError, match="name the policy"):
        evil.plot("weights")


def test_plots_without_matplotlib_say_what_to_install(evil, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"offpolicy\[plot\]"):
        evil.plot("forest")


def test_notebooks_show_tables_with_escaped_names(evil):
    whole = evil._repr_html_()
    assert "img" not in Reader(whole).tags
    assert esc(EVIL) in whole
    one = evil[EVIL, "DML"]._repr_html_()
    assert "img" not in Reader(one).tags
    assert "95% interval" in one
