"""Grouped networks against one plain network at a time; splits and targets against loops."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from offpolicy_studies.cartpole import adam, convolution, design, ensemble  # noqa: E402
from offpolicy_studies.cartpole.marginal import marginal_ratio  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("shape", [(2, 3, 3, 40, 90), (3, 4, 2, 18, 43), (2, 5, 2, 7, 20)])
def test_windows_and_fold_are_the_convolution_and_its_transpose(shape):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(shape[0], shape[1] * 25, 6, generator=generator, dtype=torch.float64)
    weight.requires_grad_()
    # The version for CUDA, run here: its own backward pass is under test.
    ours = convolution._function().apply(x, weight)
    plain = torch.stack(
        [
            functional.conv2d(x[g].transpose(0, 1), weight[g].T.reshape(6, shape[1], 5, 5), stride=2).transpose(0, 1)
            for g in range(shape[0])
        ]
    )
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(convolution.grouped_convolution(x, weight), plain)
    pull = torch.randn(plain.shape, generator=generator, dtype=torch.float64)
    for got, wanted in zip(
        torch.autograd.grad(ours, (x, weight), pull), torch.autograd.grad(plain, (x, weight), pull), strict=True
    ):
        torch.testing.assert_close(got, wanted)


def plain_network(net, k, images, extras, running=None):
    p = {name: value[k] for name, value in net.parameters().items()}
    x, before, at = images, 3, 0
    for layer, width in enumerate(ensemble.WIDTHS):
        x = functional.conv2d(x, p[f"conv{layer}"].T.reshape(width, before, 5, 5), stride=2)
        given = (None, None) if running is None else running[:, k, at : at + width]
        x = functional.batch_norm(x, *given, p[f"scale{layer}"], p[f"shift{layer}"], training=running is None).relu()
        before, at = width, at + width
    x = torch.cat([x.flatten(1), extras], 1)
    return (x @ p["dense"] + p["dense_bias"]).relu() @ p["out"] + p["out_bias"]


def test_ensemble_equals_its_networks_one_by_one():
    net = ensemble.Ensemble.create([5, 6, 7, 8, 9, 10], 3, "cpu")
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(2, 4, 3, 40, 90, generator=generator)
    extras = torch.randn(2, 3, 4, 2, generator=generator)
    trained = ensemble.forward(net, images, extras, train=True)
    assert net.running[0].abs().max() > 0
    evaluated = ensemble.forward(net, images, extras, train=False)
    for group in range(2):
        for member in range(3):
            k = 3 * group + member
            wanted = plain_network(net, k, images[group], extras[group, member])
            torch.testing.assert_close(trained[group, member], wanted, atol=1e-5, rtol=1e-4)
            wanted = plain_network(net, k, images[group], extras[group, member], net.running)
            torch.testing.assert_close(evaluated[group, member], wanted, atol=1e-5, rtol=1e-4)


def test_first_weights_depend_on_the_seed_alone():
    alone = ensemble.start([7])
    among = ensemble.start([3, 7, 4])
    assert torch.equal(alone[0], among[1])
    assert not torch.equal(among[0], among[1])


def test_adam_equals_the_frameworks():
    generator = torch.Generator().manual_seed(2)
    flat = torch.randn(3, 5, generator=generator)
    theirs = [row.clone().requires_grad_() for row in flat]
    rates = [1e-2, 1e-3, 1e-1]
    optimizers = [torch.optim.Adam([row], lr=rate) for row, rate in zip(theirs, rates, strict=True)]
    ours = adam.Adam.create(flat, torch.tensor(rates))
    for _ in range(20):
        grad = torch.randn(3, 5, generator=generator)
        ours.update(flat, grad)
        for row, optimizer, g in zip(theirs, optimizers, grad, strict=True):
            row.grad = g.clone()
            optimizer.step()
    torch.testing.assert_close(flat, torch.stack([row.detach() for row in theirs]))


def test_targets_equal_a_loop_over_each_episode():
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, 12, 10)
    deviates = rng.random(lengths.sum()) < 0.3
    steps = design.locate(lengths, deviates, 5)
    row = 0
    for episode, length in enumerate(lengths):
        own = deviates[row : row + length]
        for t in range(length):
            later = [d for d in range(t + 1, length) if own[d]]
            d = later[0] if later else length
            assert steps.gap[row + t] == d - t
            assert steps.boot[row + t] == (row + d if later else -1)
            assert steps.clean[row + t] == (not own[: t + 1].any())
            assert (steps.time[row + t], steps.episode[row + t]) == (t, episode)
            assert steps.data_set[row + t] == episode // 5
        row += length
    assert steps.first.tolist() == [0, lengths[:5].sum(), lengths.sum()]


def test_tree_backup_with_the_true_values_is_the_true_value():
    # A chain that ends after 6 steps whatever is done: q_t = 6 - t, so the targets must say so.
    steps = design.locate(np.array([6]), np.array([False, True, False, False, True, False]), 1)
    value = 6.0 - np.arange(6)
    target = steps.gap + np.where(steps.boot >= 0, value[steps.boot], 0)
    assert target.tolist() == value.tolist()


def test_mrdr_target_equals_the_weighted_sum_of_rewards():
    gap, time, clean = np.array([1, 4]), np.array([0, 3]), np.array([True, False])
    target, weight = design.mrdr(gap, time, clean, 0.9)
    assert target == pytest.approx([1.0, sum(0.9**-k for k in range(4))])
    assert weight == pytest.approx([1.0, 0.0])


@pytest.mark.parametrize("folds", [2, 3, 4])
def test_a_split_never_trains_on_what_it_predicts(folds):
    rng = np.random.default_rng(5)
    labels = design.fold_labels(rng, 21, folds)
    full, *crossed = design.splits(rng, 0, labels)
    assert len(crossed) + 1 == design.split_count(folds)
    if folds > 2:  # DR-half scores half of the episodes whatever the number of folds
        half = crossed.pop()
        assert (half.name, len(half.held_out)) == (design.HALF, 11)
        assert not set(np.concatenate([half.fit, half.validation])) & set(half.held_out)
    assert len(full.held_out) == 21
    assert sorted(np.concatenate([s.held_out for s in crossed])) == list(range(21))
    for split in crossed:
        train = np.concatenate([split.fit, split.validation])
        assert not set(train) & set(split.held_out)
        assert sorted([*train, *split.held_out]) == list(range(21))
    for split in (full, *crossed):
        assert not set(split.fit) & set(split.validation)


def test_marginal_ratio_of_a_two_step_chain_is_the_known_one():
    # The first action decides the next state's sign; the target always goes up, the log half the time.
    rng = np.random.default_rng(6)
    n = 4000
    up = rng.random(n) < 0.5
    physics = rng.normal(size=(2 * n, 4))
    physics[1::2, 0] = np.where(up, 1.0, -1.0)
    ratio = np.ones(2 * n)
    ratio[0::2] = np.where(up, 2.0, 0.0)
    w = marginal_ratio(physics, np.full(n, 2), ratio, np.arange(n) % 2)
    assert w[0::2] == pytest.approx(ratio[0::2])
    assert w[1::2] == pytest.approx(np.where(up, 2.0, 0.0), abs=0.05)
