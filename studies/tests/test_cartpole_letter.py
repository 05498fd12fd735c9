"""Networks by the letter against plain loops; the letter's table and the map at a tiny size."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from offpolicy.errors import UsageError  # noqa: E402
from offpolicy_studies.cartpole import (  # noqa: E402
    blocks,
    design,
    estimates,
    letter,
    map_table,
    paper_pairs,
    plain,
    policy,
    store,
    ways,
)
from offpolicy_studies.cartpole import map as cartpole_map  # noqa: E402
from offpolicy_studies.cartpole.settings import Plain, Settings  # noqa: E402

RULE = policy.Rule(9, 40, every=4, episodes=4, updates=12, environments=32, closest=True)
TINY = Settings(
    cap=25, policy=RULE, middle_policy=RULE, long_policy=RULE, batch=16, check_every=2,
    validation_rows=16, truth_rollouts=20, q_checks=4,
)  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def request(out):
    return letter.Args(
        epsilons=(0.2, 0.4), replications=2, trajectories=6, device="cpu", seed=3, out=out,
        jobs=1, settings=TINY, letter=Plain(marks=(4,), behavior_steps=4, refresh=2),
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("letter")
    return out, letter.reproduce(request(out))


def test_the_table_has_every_way_and_row(whole):
    out, summary = whole
    assert [c["epsilon"] for c in summary["cells"]] == [0.2, 0.4]
    for cell in summary["cells"]:
        assert set(cell["ways"]) == set(ways.WAYS)
        for way in ways.WAYS:
            rows = cell["ways"][way]["rows"]
            assert set(rows) == {*ways.ROWS, ways.LOGGED}
            assert rows["DM"]["mse"] == pytest.approx(rows["DM"]["bias"] ** 2 + rows["DM"]["sd"] ** 2)
    text = (out / "table.md").read_text(encoding="utf-8")
    assert text.count("\n### ") == len(ways.WAYS) + 2
    assert letter.show(summary).strip() == text.strip()


def test_a_run_in_parts_gives_the_same_numbers(whole, tmp_path):
    out, summary = whole
    first = dataclasses.replace(request(tmp_path), stage="arrays", minutes=0.0, epsilons=(0.2,))
    letter.reproduce(first)  # the second block is not begun: the first took longer than no time
    done = list((tmp_path / "arrays").rglob("*.npz"))
    assert len(done) == 1
    before = done[0].stat().st_mtime_ns
    letter.reproduce(dataclasses.replace(request(tmp_path), stage="arrays"))
    assert done[0].stat().st_mtime_ns == before
    again = letter.reproduce(dataclasses.replace(request(tmp_path), stage="estimates"))
    assert json.dumps(again["cells"]) == json.dumps(summary["cells"])
    assert (out / "middle.safetensors").read_bytes() == (tmp_path / "middle.safetensors").read_bytes()


def test_the_training_part_needs_nothing_but_torch_and_numpy(tmp_path):
    """A GPU machine may have neither data frames nor scipy."""
    code = (
        "import sys\n"
        "for name in ('narwhals', 'pandas', 'pyarrow', 'lightgbm', 'ibis', 'duckdb', 'rich', 'scipy',\n"
        "             'sklearn', 'threadpoolctl', 'matplotlib', 'joblib'):\n"
        "    sys.modules[name] = None\n"
        "import torch; torch.set_num_threads(1)\n"
        "import dataclasses, pathlib\n"
        "from offpolicy_studies.cartpole import letter, policy\n"
        "from offpolicy_studies.cartpole.settings import Plain, Settings\n"
        "rule = policy.Rule(9, 40, every=4, episodes=4, updates=4, environments=32, closest=True)\n"
        "tiny = Settings(cap=12, policy=rule, middle_policy=rule, long_policy=rule, batch=8,\n"
        "                truth_rollouts=4, q_checks=2)\n"
        "letter.reproduce(letter.Args(epsilons=(0.3,), replications=1, trajectories=4, device='cpu',\n"
        f"    out=pathlib.Path({str(tmp_path)!r}), stage='arrays', settings=tiny,\n"
        "    letter=Plain(marks=(2,), behavior_steps=2)))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert store.arrays_path(tmp_path, store.cell_name("middle", 0.3, 2), 0).exists()


def test_the_map_at_a_tiny_size(whole, tmp_path):
    for name in ("short", "middle", "long"):
        for kept in (f"{name}.safetensors", f"truth-{name}.json"):
            (tmp_path / kept).write_bytes((whole[0] / kept).read_bytes())
    options = cartpole_map.Args(
        epsilons=(0.3,), replications=1, trajectories=6, marks=(2, 4), middle_marks=(6,),
        careful=(2, 4), behavior_steps=3, policies=("middle", "short"),
        device="cpu", seed=3, out=tmp_path, jobs=1, settings=TINY,
    )  # fmt: skip
    summary = cartpole_map.reproduce(options)
    assert len(summary["cells"]) == (5 + 4) * len(map_table.WAYS)
    assert {c["steps"] for c in summary["cells"] if c["policy"] == "middle"} == {2, 4, 6}
    together = {(g["q"], g["steps"], g["way"]): g for g in summary["pooled"]}
    assert cartpole_map.show(summary).count("\n") == 7 + len(summary["cells"]) + len(together)
    assert (together["plain", 4, "true"]["data_sets"], together["plain", 6, "true"]["data_sets"]) == (2, 1)
    alone = [c for c in summary["cells"] if (c["q"], c["steps"], c["way"]) == ("plain", 4, "true")]
    # Errors are relative to each policy's value, the two policies count alike.
    want = np.mean([c["tests"]["DR-full"]["difference"] / c["value"] ** 2 for c in alone])
    assert together["plain", 4, "true"]["against_full"]["difference"] == pytest.approx(want)
    assert (tmp_path / "map.svg").stat().st_size > 1000
    assert set(summary["careful_best_step"]) == {store.cell_name(name, 0.3, 2) for name in ("short", "middle")}


def small_block(marks, behavior_steps=3):
    net = policy.Ensemble.create([1], 1, "cpu")
    cell = blocks.Cell("middle", 0.3, 2, 6, 0)
    from offpolicy_studies.cartpole import plain_blocks

    letter_plain = Plain(marks=marks, behavior_steps=behavior_steps, refresh=2)
    return plain_blocks.fit_plain_block(policy.greedy(net), cell, [0, 1], TINY, letter_plain, "cpu")[0]


def test_a_shorter_training_is_the_beginning_of_a_longer_one():
    short, longer = small_block((2,)), small_block((2, 5))
    for r in (0, 1):
        for name in ("q2_full", "q2_cross", "behavior_full", "behavior_pi_cross"):
            np.testing.assert_array_equal(short[r][name], longer[r][name])
    assert not np.array_equal(longer[0]["q2_full"], longer[0]["q5_full"])


def trainer_of(steps_to_train):
    collected = blocks.collect(
        policy.greedy(policy.Ensemble.create([1], 1, "cpu")),
        blocks.Cell("middle", 0.3, 2, 6, 0), [0], TINY, "cpu",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    groups = design.splits(rng, 0, design.fold_labels(rng, 6, 2))
    seeds = np.arange(len(groups) * 3).reshape(-1, 3)
    trainer = plain.PlainTrainer(
        collected.episodes, collected.steps, groups, seeds, TINY,
        Plain(marks=(steps_to_train,), behavior_steps=steps_to_train), 6,
    )  # fmt: skip
    trainer.minibatches([np.random.default_rng(k) for k in range(len(groups))])
    return trainer, collected, groups


def test_targets_and_first_update_equal_a_plain_loop():
    trainer, collected, groups = trainer_of(3)
    rows = trainer.table[0].long()
    q = [policy.Ensemble.create([3 * g], 1, "cpu") for g in range(len(groups))]
    images, greedy = collected.episodes.images, collected.episodes.greedy.long()
    ends = set((np.cumsum(collected.lengths) - 1).tolist())
    wanted = torch.ones(rows.shape)
    for g in range(len(groups)):
        for b, row in enumerate(rows[g].tolist()):
            if row not in ends:
                zeros = torch.zeros(1, 1, 1, 2)
                out = policy.forward(q[g], images[None, row + 1 : row + 2], zeros, train=False)
                wanted[g, b] += out[0, 0, 0, greedy[row + 1]]
    torch.testing.assert_close(trainer.targets(rows), wanted, atol=1e-5, rtol=1e-4)
    flat = trainer.net.flat[0].clone().requires_grad_()
    alone = policy.Ensemble(flat[None], q[0].running.clone(), 1, torch.float32)
    zeros = torch.zeros(1, 1, rows.shape[1], 2)
    out = policy.forward(alone, images[rows[0]][None], zeros, train=True, flat=flat[None])[0, 0]
    taken = out.gather(1, collected.episodes.actions.long()[rows[0]][:, None])[:, 0]
    optimizer = torch.optim.Adam([flat], lr=TINY.q_rate)
    ((wanted[0] - taken) ** 2).mean().backward()
    optimizer.step()
    trainer.train_step()
    # Adam's first step is the sign of the gradient: only entries that are not rounding are compared.
    clear = flat.grad.abs() > 1e-4
    torch.testing.assert_close(trainer.net.flat[0][clear], flat.detach()[clear], atol=2e-6, rtol=0)


def test_every_episode_of_a_split_trains_and_no_other():
    trainer, collected, groups = trainer_of(2)
    episode = collected.steps.episode
    for rows, held_out, split in zip(trainer.train_rows, trainer.held_out, groups, strict=True):
        train = set(episode[rows])
        assert train == {*split.fit, *split.validation}
        assert split.name == "full" or not train & set(episode[held_out])


@pytest.fixture(scope="module")
def arrays():
    return small_block((2,))[0]


def test_saturated_weights_add_the_reward_so_far_and_the_value_at_the_first_deviation(arrays):
    found = ways.estimate(arrays, 0.3, ("q2",), (ways.SATURATED,))["q2"][ways.SATURATED]
    lengths = arrays["lengths"].astype(int)
    value = arrays["q2_cross"].astype(float)[np.arange(lengths.sum()), arrays["greedy"].astype(int)]
    same, at, total = arrays["actions"] == arrays["greedy"], 0, 0.0
    for length in lengths:
        off = np.flatnonzero(~same[at : at + length])
        total += off[0] + value[at + off[0]] if len(off) else length
        at += length
    assert found["DML"][0] == pytest.approx(total / len(lengths), rel=1e-6)


def test_ways_of_knowing_the_behavior_policy(arrays):
    same = arrays["actions"] == arrays["greedy"]
    assert ways.followed(arrays, ways.TRUE, "full", 0.3) == pytest.approx(np.full(len(same), 0.85))
    assert ways.followed(arrays, ways.SHARES, "full", 0.3) == pytest.approx(np.full(len(same), same.mean()))
    fold = np.repeat(arrays["folds"], arrays["lengths"])
    crossed = ways.followed(arrays, ways.SHARES, "cross", 0.3)
    assert crossed[fold == 0] == pytest.approx(np.full((fold == 0).sum(), same[fold == 1].mean()))
    as_it_is = ways.followed(arrays, ways.STATE, "cross", 0.3)
    assert ways.followed(arrays, ways.HALF, "cross", 0.3) == pytest.approx(np.maximum(as_it_is, 0.5))
    table = ways.behavior(arrays, ways.NINE, "full", 0.3)
    assert table.sum(1) == pytest.approx(np.ones(len(same)))
    assert table[np.arange(len(same)), arrays["greedy"].astype(int)].min() >= 0.9


def test_a_network_that_is_very_sure_leaves_the_other_action_a_probability():
    table = estimates.probabilities(np.array([-45.0, 0.0, 45.0]))
    assert table[:, 0] == pytest.approx([1.0, 0.5, np.exp(-45.0)], rel=1e-12)
    assert table[:, 1] == pytest.approx([np.exp(-45.0), 0.5, 1.0], rel=1e-12)


def test_a_policy_must_differ_from_its_log_when_told_to():
    near = dataclasses.replace(RULE, closest=False, apart=0.01, apart_episodes=16)
    learned = policy.learn(1, [near], cap=25, period=10, device="cpu")[0]
    far = dataclasses.replace(near, apart=24.0)
    with pytest.raises(policy.ModelError, match="no checkpoint"):
        policy.learn(1, [far], cap=25, period=10, device="cpu")
    assert 9 <= learned.value <= 40


def test_the_papers_pairs_come_from_the_bias_and_spread_that_they_are_read_as():
    rng = np.random.default_rng(0)
    error = rng.normal(2.0, 1.5, size=(4000, 100))
    squared = error**2
    mse, std_error = squared.mean(), squared.std(axis=1, ddof=1).mean() / 10
    bias, sd = paper_pairs.decompose(mse, std_error)
    assert (bias, sd) == pytest.approx((2.0, 1.5), abs=0.05)
    fits = paper_pairs.two_readings()
    # Ten degrees of freedom: the first is an ordinary fit, the second is not (99.9% point 29.6).
    assert fits["saturated"]["chi_squared"] < 18.3
    assert fits["correct"]["chi_squared"] > 29.6
    assert paper_pairs.markdown().count("\n| D") == 4


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(UsageError, match="stage"):
        letter.reproduce(dataclasses.replace(request(tmp_path), stage="half"))
    with pytest.raises(UsageError, match="epsilons"):
        letter.reproduce(dataclasses.replace(request(tmp_path), epsilons=(0.0,)))
    with pytest.raises(UsageError, match="policies"):
        cartpole_map.reproduce(cartpole_map.Args(policies=("x",), out=tmp_path))
