"""Strides of what compiled code with symbolic sizes gives: eager's, also of dimensions of size 1 and of
empty tensors."""

import braze
import pytest
import torch
import torch.nn.functional as F

CHANNELS_LAST = {"memory_format": torch.channels_last}
LAYOUTS = {
    "plain": lambda x: x,
    "channels last": lambda x: x.contiguous(**CHANNELS_LAST),
    "permuted": lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
    "transposed": lambda x: x.transpose(0, 3).contiguous().transpose(0, 3),
    "sliced": lambda x: torch.cat([x, x], 1)[:, : x.shape[1]],
    "stepped": lambda x: torch.cat([x, x], 3)[..., ::2],
    "expanded": lambda x: x[:, :1].expand(x.shape),
}
SIZES = [
    (2, 3, 4, 5),
    (2, 1, 4, 4),
    (1, 1, 4, 4),
    (3, 2, 1, 4),
    (3, 1, 1, 2),
    (1, 3, 1, 1),
    (2, 0, 3, 2),
]


def elementwise(x):
    y = x.clone()
    y += 1
    return (
        x + 1, 1 - x, (x * 2).relu(), x.exp(), x > 1, x**2, x.clamp(0, 1), x.masked_fill(x > 1, 2.0), y,
        torch.where(x > 1, x, 0.0), F.gelu(x), x.double(), x.clone(), x.contiguous(), x.nan_to_num(), -x,
        torch.zeros_like(x), x + x[:1], x * x[..., :1], x + x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    )  # fmt: skip


def rearranging(x):
    return (
        x.flip(0), x.roll(1, 0), torch.cat([x, x + 1], 1), torch.stack([x, x], 1), x.flatten(), x.unsqueeze(1) + 0,
        x.transpose(0, 3) * 2, x.permute(3, 1, 0, 2) + 1, x[1:] + 1, x[:, :, ::2], x.reshape(x.shape[0], -1),
        x.expand(2, *x.shape), x.repeat(2, 1, 1, 1), F.pad(x, (1, 1)), x.tril(), x[None, :, None], x.movedim(0, -1),
    )  # fmt: skip


def reducing(x):
    return (
        x.sum(0), x.sum(1, keepdim=True), x.mean((2, 3)), x.var(0), x.softmax(1), x.log_softmax(-1),
        x.cumsum(0), F.layer_norm(x, x.shape[-1:]), x @ x.transpose(-1, -2), x.norm(dim=1), x.logsumexp(0),
        F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])), x.sort(1),
    )  # fmt: skip


def flat(values):
    return [t for value in values for t in (value if isinstance(value, tuple) else (value,))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides(layout):
    for fn in (elementwise, rearranging, reducing):
        fast = braze.compile(fn, dynamic=True)
        for sizes in SIZES:
            if fn is reducing and 0 in sizes:
                continue
            x = LAYOUTS[layout](torch.rand(sizes) * 3)
            for number, (got, wanted) in enumerate(zip(flat(fast(x)), flat(fn(x)))):
                place = f"{fn.__name__}[{number}] of {sizes} {x.stride()}"
                assert got.shape == wanted.shape and got.stride() == wanted.stride(), (
                    f"{place}: {got.stride()} is not {wanted.stride()}"
                )
                torch.testing.assert_close(
                    got, wanted, equal_nan=True, rtol=1e-4, atol=1e-5, msg=place
                )


def test_one_entry_serves_sizes_of_one_kind():
    def fn(x):
        return x + 1, (x * 2).relu()

    fast = braze.compile(fn, dynamic=True)
    for size in (2, 3, 5, 7):
        x = torch.rand(size, 1, 4, 4).to(**CHANNELS_LAST)
        assert [t.stride() for t in fast(x)] == [t.stride() for t in fn(x)]
    assert len(fast._entries()) == 1
