"""The batched dynamics and pictures against Gymnasium, pygame and Pillow."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("pygame")
Image = pytest.importorskip("PIL.Image")

from offpolicy_studies.cartpole import dynamics, noise, picture  # noqa: E402


@pytest.fixture
def env(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    made = gymnasium.make("CartPole-v1", render_mode="rgb_array").unwrapped
    yield made
    made.close()


def test_dynamics_equal_gymnasium_step_by_step(env):
    rng = np.random.default_rng(1)
    for episode in range(30):
        env.reset(seed=episode)
        ours = torch.tensor(np.array(env.state), dtype=torch.float64)[None]
        for _ in range(200):
            action = int(rng.integers(2))
            _, _, terminated, _, _ = env.step(action)
            ours = dynamics.step(ours, torch.tensor([action]))
            np.testing.assert_allclose(ours[0].numpy(), np.array(env.state), atol=1e-6)
            assert bool(dynamics.failed(ours)[0]) == terminated
            if terminated:
                break


def reference_patch(env, x, angle):
    env.state = np.array([x, 0.0, angle, 0.0])
    screen = env.render()
    location, half = int(x * 125 + 300), 180
    if location < half:
        view = slice(0, 360)
    elif location > 600 - half:
        view = slice(240, 600)
    else:
        view = slice(location - half, location + half)
    window = Image.fromarray(np.ascontiguousarray(screen[160:320, view]))
    resized = window.resize((90, 40), Image.Resampling.BICUBIC)
    return np.asarray(resized, dtype=np.float64).transpose(2, 0, 1) / 255


def test_pictures_equal_pygame_after_crop_and_resize(env):
    env.reset(seed=0)
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(-0.9, 0.9, 60), rng.uniform(-2.4, 2.4, 40)])
    angle = rng.uniform(-0.25, 0.25, 100)
    ours = picture.draw(torch.tensor(x), torch.tensor(angle)).double().numpy()
    theirs = np.stack([reference_patch(env, *pair) for pair in zip(x, angle, strict=True)])
    difference = np.abs(ours - theirs)
    assert difference.mean() <= 0.0005
    assert difference.max() <= 0.08
    # The picture must show the pole at all: a tenth of its pixels is not white.
    assert (theirs < 0.9).mean() > 0.02


def steps(time):
    return torch.full((5,), time)


def test_noise_covers_a_tenth_and_moves_right():
    pattern = torch.tensor(noise.patterns(np.random.default_rng(3), 5))
    white = torch.ones(5, 3, picture.HEIGHT, picture.WIDTH)
    start = noise.black_out(white, pattern, noise.shift(steps(0), 5))
    assert ((start == 0).double().mean((1, 2, 3)) - 0.1).abs().max() < 1e-9
    later = noise.black_out(white, pattern, noise.shift(steps(5), 5))
    assert torch.equal(later[..., 1:], start[..., :-1])
    assert torch.equal(later[..., 0], start[..., -1])
    assert not torch.equal(later, start)
    assert torch.equal(noise.black_out(white, pattern, noise.shift(steps(4), 5)), start)
    # Episodes differ.
    assert not torch.equal(pattern[0], pattern[1])
