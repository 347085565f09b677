"""Whether a compiled training of many steps is the one of eager.

No step is further from the same training in fp64 than eager is, up to a factor. With dropout, whose
masks fp64 does not draw, eager is the reference. How far rounding alone leads apart by then is what
eager with parameters changed in their last bits shows.

A run of a training has `losses`, `draws` and `layouts` by step, and `state()`: tensors by name.
"""

import contextlib

import torch

ROUNDINGS = [f"rounded {number}" for number in range(3)]


@contextlib.contextmanager
def one_thread():
    """For tensors as small as those of tests, several threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def layout(gradient):
    """Strides of dims with one element say nothing."""
    if gradient is None:
        return None
    strides = [s for s, size in zip(gradient.stride(), gradient.shape) if size > 1]
    return gradient.dtype, gradient.shape, strides


def change_last_bits(module, seed):
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1 + (torch.randint(3, parameter.shape) - 1) * 2**-23)


def wide(batch):
    return {k: t.double() if t.is_floating_point() else t for k, t in batch.items()}


def assert_same_training(runs, factor=2, slack=2e-6):
    eager, compiled = runs["eager"], runs["compiled"]
    assert compiled.draws == eager.draws
    assert compiled.layouts == eager.layouts
    assert len(compiled.losses) == len(eager.losses)
    reference = runs.get("exact", eager)
    others = [run for name, run in runs.items() if name not in ("compiled", "exact")]
    far = 0.0
    for step, wanted in enumerate(reference.losses):
        far = max(far, *(abs(run.losses[step] - wanted) for run in others))
        off = abs(compiled.losses[step] - wanted)
        allowed = factor * far + slack * (step + 1) * max(1, abs(wanted))
        assert off <= allowed, f"loss {step}: {wanted} {eager.losses[step]} {compiled.losses[step]}"
    ours, theirs, exact = (run.state() for run in (compiled, eager, reference))
    assert ours.keys() == theirs.keys()
    for name, wanted in exact.items():
        assert (ours[name].dtype, ours[name].shape) == (theirs[name].dtype, theirs[name].shape)
        if not wanted.is_floating_point():
            assert torch.equal(ours[name], wanted), name
            continue
        far = max(distance(run.state()[name], wanted) for run in others)
        off = distance(ours[name], wanted)
        size = wanted.abs().max().item() if wanted.numel() else 0
        assert off <= 1.5 * factor * far + slack * (0.01 + size), f"{name}: {off}, eager's {far}"


def distance(a, b):
    """The root of the mean square."""
    return (a.double() - b).square().mean().sqrt().item() if a.numel() else 0.0
