"""Cases of the `attention` suite: `flex_attention` with functions of scores and masks as users
write them, forward and backward, on a GPU."""

import functools
from dataclasses import dataclass

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from bench import compilers, devices, measure


@dataclass(frozen=True)
class Shape:
    batch: int = 4
    heads: int = 16
    key_heads: int = 16
    length: int = 4096
    depth: int = 128
    dtype: torch.dtype = torch.bfloat16

    def title(self) -> str:
        shared = "" if self.heads == self.key_heads else f" of {self.key_heads}"
        return f"{self.batch} x {self.heads}{shared} x {self.length} x {self.depth}"


SHAPES = (Shape(), Shape(depth=64), Shape(batch=1, heads=32, key_heads=8, length=8192))
WINDOW, DOCUMENT = 512, 700  # keys


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def window(b, h, q_idx, kv_idx):
    return (q_idx >= kv_idx) & (q_idx - kv_idx <= WINDOW)


# What a function needs that depends on the shape.
def documents(shape: Shape, device: str):
    numbers = torch.arange(shape.length, device=device) // DOCUMENT
    return None, lambda b, h, q_idx, kv_idx: numbers[q_idx] == numbers[kv_idx]


def alibi(shape: Shape, device: str):
    slopes = torch.exp2(-8 * torch.arange(1, shape.heads + 1, device=device) / shape.heads)
    return lambda score, b, h, q_idx, kv_idx: score + slopes[h] * (kv_idx - q_idx), None


def soft_cap(shape: Shape, device: str):
    return lambda score, b, h, q_idx, kv_idx: 20 * torch.tanh(score / 20), causal


# Functions of scores, and of masks.
CASES = {
    "full": lambda shape, device: (None, None),
    "causal": lambda shape, device: (None, causal),
    "window": lambda shape, device: (None, window),
    "documents": documents,
    "alibi": alibi,
    "soft_cap": soft_cap,
}


def _inputs(shape: Shape, device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    heads = (shape.heads, shape.key_heads, shape.key_heads)
    return [
        torch.randn(
            (shape.batch, count, shape.length, shape.depth), dtype=shape.dtype, device=device
        ).requires_grad_()
        for count in heads
    ]


def measured(case: str, compiler: str, device: str, samples: int) -> dict:
    """Seconds of the forward without gradients, and of forward and backward, by shape."""
    compile_function = compilers.load(compiler)
    compilers.keep_graphs()
    machine = devices.DEVICES[device]()
    found = {}
    for shape in SHAPES:
        torch._dynamo.reset()
        score_mod, mask_mod = CASES[case](shape, device)
        mask = mask_mod and create_block_mask(
            mask_mod, None, None, shape.length, shape.length, device=device
        )
        function = functools.partial(
            flex_attention,
            score_mod=score_mod,
            block_mask=mask,
            enable_gqa=shape.heads != shape.key_heads,
        )
        compiled = compile_function(lambda *tensors, function=function: function(*tensors))
        tensors = _inputs(shape, device)
        tangent = torch.randn_like(tensors[0])

        def forward(compiled=compiled, tensors=tensors):
            with torch.no_grad():
                compiled(*tensors)

        def step(compiled=compiled, tensors=tensors, tangent=tangent):
            with torch.enable_grad():
                torch.autograd.grad(compiled(*tensors), tensors, tangent)

        times = {}
        for name, body in (("forward", forward), ("step", step)):
            body()
            body()
            machine.synchronize()
            times[name] = measure.median([machine.seconds(body) for _ in range(samples)])
        found[shape.title()] = times
    return found
