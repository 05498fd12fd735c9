"""The ads map at a five-hundredth of its size: every cell there, resumable, tests that can tell estimators apart."""

import json
from dataclasses import replace

import numpy as np
import pytest

from offpolicy.errors import UsageError
from offpolicy_studies.ads.config import AdConfig
from offpolicy_studies.ads.map import Args, reproduce, show
from offpolicy_studies.ads.map_summary import pooled
from offpolicy_studies.ads.map_worlds import ESTIMATORS, MODELS, PLACES
from offpolicy_studies.folder import read_lines
from offpolicy_studies.paired import compare, parts


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return Args(
        scale=0.001, seeds=(0,), batches=(1,), campaigns=(3,), workers=1,
        out=tmp_path_factory.mktemp("map"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def summary(options):
    return reproduce(options)


def test_every_combination_of_factors_is_there(options, summary):
    names = ("rate", "effects", "overlap", "model", "behavior")
    assert len({tuple(cell[n] for n in names) for cell in summary["cells"]}) == 32
    assert all(set(cell["rmse"]) == set(ESTIMATORS) for cell in summary["cells"])
    assert show(summary).count("\n| ×") == 32
    assert all((cell["toward_paper"] > 0) == cell["paper_order"] for cell in summary["cells"])
    assert (options.out / "map.svg").read_text().count("<svg") == 1


def test_the_factors_are_what_they_say():
    usual, poor = (place.config(0.001) for place in PLACES[:2])
    assert usual == AdConfig().scaled(0.001)
    assert (poor.mab_prior(0), poor.mab_memory) == ((1.0, 1.0), 1.0)
    assert PLACES[-1].config(0.001).click_rates[0] == pytest.approx(10 * usual.click_rates[0])
    assert PLACES[-1].config(0.001).column_sd == 1.0


def test_a_map_is_taken_up_where_it_stopped(options, summary, tmp_path):
    lines = (options.out / "cells.jsonl").read_text().splitlines(keepends=True)
    tmp_path.joinpath("cells.jsonl").write_text("".join(lines[:10]) + lines[10][:40])
    again = reproduce(replace(options, out=tmp_path))
    # As text: a ratio that is not defined (NaN) must be undefined in both.
    assert json.dumps(again["cells"]) == json.dumps(summary["cells"])


def test_an_over_fitting_model_looks_better_where_it_was_fitted(summary):
    share = {
        model: np.nanmean([c["in_sample_share"] for c in summary["cells"] if c["model"] == model]) for model in MODELS
    }
    assert share["over-fitting"] < 0.9 * share["tuned"]


def test_results_are_plain_json(options, summary):
    stored = json.loads((options.out / "results.json").read_text())
    assert stored["records"] == len(PLACES) * len(MODELS) == summary["records"]


def test_all_worlds_together_count_a_seeds_batch_once(options, summary):
    # One seed, campaign and batch: whatever the number of worlds, there is one difference, and no test of it.
    groups = {(g["model"], g["behavior"]): g for g in summary["pooled"]}
    assert len(groups) == 4
    for (model, behavior), group in groups.items():
        own = [c for c in summary["cells"] if (c["model"], c["behavior"]) == (model, behavior)]
        assert group["records"] == len(own) == len(PLACES)
        gaps = [c["against_full"]["difference"] for c in own]
        assert group["against_full"]["difference"] == pytest.approx(np.mean(gaps))
        assert group["against_full"]["p_value"] == 1.0
    lines = read_lines(options.out / "cells.jsonl")
    twice = [{**line, "key": [*line["key"][:1], 1, *line["key"][2:]]} for line in lines]
    assert pooled([*lines, *twice])[0]["records"] == 2 * len(PLACES)


def test_some_worlds_and_models_can_be_asked_for(options, tmp_path):
    some = replace(options, places=("x10-c1-good",), models=("over-fitting",), out=tmp_path)
    got = reproduce(some)
    assert {(c["rate"], c["effects"], c["model"]) for c in got["cells"]} == {(10, 1, "over-fitting")}
    for wrong in ({"places": ("x2-c1-good",)}, {"models": ()}):
        with pytest.raises(UsageError, match=f"{next(iter(wrong))} must be among"):
            reproduce(replace(some, **wrong))


def test_an_empty_request_is_refused(tmp_path):
    with pytest.raises(UsageError, match="at least one"):
        reproduce(Args(seeds=(), out=tmp_path))


def test_paired_tests_find_a_difference_and_none():
    rng = np.random.default_rng(1)
    noise = rng.normal(size=300)
    worse = compare(noise + 1, noise)
    assert worse["difference"] == pytest.approx(np.mean((noise + 1) ** 2 - noise**2))
    assert sum(parts(noise + 1, noise).values()) == pytest.approx(worse["difference"])
    assert worse["p_value"] < 1e-6
    assert worse["ranks"] > 0 > compare(noise, noise + 1)["ranks"]
    assert compare(noise, rng.permutation(noise))["p_value"] > 0.05
