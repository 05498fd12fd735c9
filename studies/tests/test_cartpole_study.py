"""The whole study at a tiny size: end to end, killed half way and resumed, refused when asked otherwise."""

import dataclasses
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from offpolicy.errors import ModelError, UsageError  # noqa: E402
from offpolicy_studies.cartpole import Args, environment, policy, reproduce, store  # noqa: E402
from offpolicy_studies.cartpole.estimates import BEHAVIORS, ROWS, behavior, diagnose, estimate  # noqa: E402
from offpolicy_studies.cartpole.settings import Settings  # noqa: E402

RULE = policy.Rule(12, 40, every=4, episodes=4, updates=12, environments=32, closest=True)
TINY = Settings(
    cap=25, policy=RULE, long_policy=RULE, batch=16, steps=4, check_every=2, validation_rows=16,
    truth_rollouts=20, q_checks=4,
)  # fmt: skip


def tiny(out):
    return Args(
        epsilons=(0.1, 0.3), replications=2, trajectories=8, device="cpu", seed=3, out=out, block=1, settings=TINY
    )


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    torch.set_num_threads(1)
    return reproduce(tiny(tmp_path_factory.mktemp("whole")))


def test_end_to_end_writes_every_table(whole):
    text = (whole.out / "table.md").read_text(encoding="utf-8")
    assert text == whole.markdown
    for row in ROWS:
        assert text.count(f"| {row} |") == 3 * len(BEHAVIORS)
    for cell in whole.summary["cells"]:
        for kind in BEHAVIORS:
            for row in ROWS:
                score = cell["tables"][kind][row]
                assert score["replications"] == 2
                assert score["mse"] == pytest.approx(score["bias"] ** 2 + score["variance"], nan_ok=True)
    assert whole.summary["truth"]["rollouts"] == 20
    assert json.loads((whole.out / "results.json").read_text(encoding="utf-8"))["policy"] == "short"


def test_logged_actions_and_nuisances_are_consistent(whole):
    name = store.cell_name("short", 0.3, 2)
    arrays = store.load_arrays(store.arrays_path(whole.out, name, 1))
    steps = arrays["lengths"].sum()
    assert arrays["q_cross"].shape == (steps, 2)
    assert np.isfinite(arrays["q_cross"].astype(float)).all()
    known = behavior(arrays, "true", "cross", 0.3)
    assert known[np.arange(steps), arrays["greedy"].astype(int)] == pytest.approx(np.full(steps, 0.85))
    assert 0 < (arrays["actions"] != arrays["greedy"]).mean() < 0.4
    found = diagnose(arrays, 0.3)
    share = (arrays["actions"] == arrays["greedy"]).mean()
    assert found["true"]["log_loss"] == pytest.approx(-(share * np.log(0.85) + (1 - share) * np.log(0.15)))


def test_a_killed_run_resumes_to_the_same_table(whole, tmp_path):
    out = tmp_path / "killed"
    here = Path(__file__)
    program = (
        f"import sys; sys.path.insert(0, {str(here.parent)!r})\n"
        "import torch; torch.set_num_threads(1)\n"
        "from pathlib import Path\n"
        "from test_cartpole_study import tiny\n"
        "from offpolicy_studies.cartpole import reproduce\n"
        f"reproduce(tiny(Path({str(out)!r})))\n"
    )
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    second = store.arrays_path(out, store.cell_name("short", 0.1, 2), 1)
    while not second.exists() and running.poll() is None:
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert second.exists()
    assert not (out / "table.md").exists()
    assert not store.arrays_path(out, store.cell_name("short", 0.3, 2), 1).exists()
    resumed = reproduce(tiny(out))
    assert resumed.markdown == whole.markdown
    # As text: an estimate that is not defined (NaN) must be undefined in both.
    assert json.dumps(resumed.summary["cells"]) == json.dumps(whole.summary["cells"])


def test_the_longer_policy_adds_drl(tmp_path):
    request = dataclasses.replace(tiny(tmp_path), policy="long", epsilons=(0.1,), replications=1)
    score = reproduce(request).summary["cells"][0]["tables"]["true"]["DRL"]
    arrays = store.load_arrays(store.arrays_path(tmp_path, store.cell_name("long", 0.1, 2), 0))
    assert arrays["physics"].shape == (arrays["lengths"].sum(), 4)
    assert np.isfinite(score["mse"])


def test_with_three_folds_dr_half_scores_one_half_with_the_other_halfs_networks(tmp_path):
    request = dataclasses.replace(tiny(tmp_path), folds=3, epsilons=(0.3,), replications=1)
    reproduce(request)
    name = store.cell_name("short", 0.3, 3)
    arrays = store.load_arrays(store.arrays_path(tmp_path, name, 0))
    assert (arrays["halves"] == 0).sum() == 4
    got = estimate(arrays, 0.3)["true"]["DR-half"]["value"]
    rows = np.repeat(arrays["halves"] == 0, arrays["lengths"])
    wide = {k: v[rows] for k, v in arrays.items() if len(v) == len(rows)}
    episodes = arrays["lengths"][arrays["halves"] == 0].astype(int)
    q, at, total = wide["q_half"].astype(float), 0, 0.0
    for length in episodes:
        weight = 1.0
        for t in range(at, at + length):
            action, greedy = int(wide["actions"][t]), int(wide["greedy"][t])
            after = weight * (action == greedy) / 0.85
            total += after * (1 - q[t, action]) + weight * q[t, greedy]
            weight = after
        at += length
    assert got == pytest.approx(total / len(episodes))


def test_another_request_in_the_same_folder_is_refused(whole):
    with pytest.raises(UsageError, match="seed = 3, now 4"):
        reproduce(dataclasses.replace(tiny(whole.out), seed=4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stage": "half"}, "stage"),
        ({"epsilons": (0.0,)}, "epsilons"),
        ({"folds": 1}, "folds"),
        ({"policy": "x"}, "policy"),
    ],
)
def test_bad_requests_are_refused(tmp_path, change, message):
    with pytest.raises(UsageError, match=message):
        reproduce(dataclasses.replace(tiny(tmp_path), **change))


def test_a_policy_that_cannot_be_found_is_an_error():
    rule = dataclasses.replace(RULE, low=190, high=200, updates=4, closest=False)
    with pytest.raises(ModelError, match="no checkpoint within 4 updates"):
        policy.learn(1, [rule], cap=25, period=10, device="cpu")


def always(action):
    return lambda states: torch.full((len(states),), action)


def test_values_by_simulation_equal_the_rest_of_the_episode():
    draws = environment.draw_start(np.random.default_rng(0), 6, 25)
    done = environment.roll_out(always(1), draws, epsilon=0, cap=25, period=5, device="cpu", image_dtype=torch.float32)
    assert len(done.images) == int(done.lengths.sum())
    first = done.lengths.cumsum(0) - done.lengths
    assert done.images[first].abs().max() == 0
    assert done.images.abs().max() > 0.1
    for t in (0, 3):
        value = environment.values_from(
            always(1), done.physics[first + t], torch.tensor(draws.pattern), torch.full((6,), t),
            torch.ones(6, dtype=torch.long), cap=25, period=5,
        )  # fmt: skip
        assert value.tolist() == (done.lengths - t).tolist()


def test_exploration_happens_at_the_stated_rate():
    draws = environment.draw_start(np.random.default_rng(1), 60, 25)
    done = environment.roll_out(always(0), draws, epsilon=0.4, cap=25, period=0, device="cpu")
    other = (done.actions != 0).double().mean()
    assert abs(float(other) - 0.2) < 4 * np.sqrt(0.2 * 0.8 / len(done.actions))


def test_weights_survive_the_file(tmp_path, whole):
    learned = policy.load(whole.out / "short.safetensors", "cpu")
    policy.save(learned, tmp_path / "again.safetensors")
    again = policy.load(tmp_path / "again.safetensors", "cpu")
    assert torch.equal(learned.net.flat, again.net.flat)
    assert (learned.update, learned.value) == (again.update, again.value)
