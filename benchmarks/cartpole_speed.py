"""Training frames per second of the nuisance networks: python benchmarks/cartpole_speed.py

Times one training step (forward, backward, Adam) of G groups of four networks on random pictures, as a
CUDA graph where there is CUDA, then says which kernels take the time. ``--library`` also times
the framework's own grouped convolution for comparison.
"""

import argparse
import time

import torch
from torch.nn import functional

from offpolicy_studies.cartpole import convolution, ensemble
from offpolicy_studies.cartpole.adam import Adam


def library_convolution(x, weight):
    """The same convolution through torch's conv2d with groups."""
    groups, channels, batch, height, width = x.shape
    out = weight.shape[-1]
    images = x.permute(2, 0, 1, 3, 4).reshape(batch, groups * channels, height, width)
    kernel = weight.transpose(1, 2).reshape(groups * out, channels, 5, 5)
    result = functional.conv2d(images, kernel, stride=2, groups=groups)
    return result.view(batch, groups, out, *result.shape[-2:]).permute(1, 2, 0, 3, 4)


def timed(groups, networks, device, batch=128, repeats=10):
    net = ensemble.Ensemble.create(list(range(groups * networks)), networks, device)
    pool = torch.randn(groups * 200, 3, 40, 90, device=device).to(net.dtype)
    rows = torch.randint(len(pool), (groups * batch,), device=device)
    extras = torch.randn(groups, networks, batch, 2, device=device)
    adam = Adam.create(net.flat, torch.full((groups * networks,), 1e-4))

    def step():
        flat = net.flat.detach().requires_grad_()
        images = pool.index_select(0, rows).view(groups, batch, 3, 40, 90)
        out = ensemble.forward(net, images, extras, train=True, flat=flat)
        (grad,) = torch.autograd.grad(out.square().mean(-2).sum(), flat)
        adam.update(net.flat, grad)

    if device == "cpu":
        step()
        begin = time.perf_counter()
        step()
        return groups * networks * batch / (time.perf_counter() - begin), step
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(repeats):
        graph.replay()
    torch.cuda.synchronize()
    return groups * networks * batch * repeats / (time.perf_counter() - begin), step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[25, 150])
    parser.add_argument("--networks", type=int, default=4)
    parser.add_argument("--library", action="store_true")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for groups in options.groups:
        rate, step = timed(groups, options.networks, device)
        print(f"{groups} groups x {options.networks}: {rate / 1e6:.3f} M frames/s", flush=True)
        if device == "cuda":
            print(f"  peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB", flush=True)
    if options.profile:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            step()
            if device == "cuda":
                torch.cuda.synchronize()
        key = "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total"
        print(seen.key_averages().table(sort_by=key, row_limit=25, max_name_column_width=70))
    if options.library:
        ensemble.grouped_convolution = library_convolution
        for groups in options.groups:
            rate, _ = timed(groups, options.networks, device)
            print(f"library, {groups} groups: {rate / 1e6:.3f} M frames/s", flush=True)
        ensemble.grouped_convolution = convolution.grouped_convolution


if __name__ == "__main__":
    main()
