"""Small functions over tensors of all kinds, as in eager."""

import math

import pytest
import torch
import torch.nn.functional as F
from function_cases import ONE, TWO, Cases, check, r
from support import compare

case = Cases()


@case(*ONE)
def arithmetic():
    return lambda x: torch.relu(x + 1) * 2 - x / 3


@case(*TWO)
def broadcasting():
    return lambda x, y: (x + y, x * y, x - 2 * y)


@case(*ONE)
def several_results():
    def f(x):
        return x.sin(), [x.cos(), {"t": x.tanh()}], None, 3

    return f


@case(*ONE)
def indexing():
    def f(x):
        return x[0], x[:, 1], x[..., ::2], x[None], x[-1, 1:3], x[[0, 1]]

    return f


@case(*ONE)
def masks_and_where():
    def f(x):
        mask = x > 0
        return torch.where(mask, x, -x), x.masked_fill(mask, 0.5), mask.any(), mask.sum()

    return f


@case(*ONE, captured=False)
def boolean_index():
    return lambda x: x[x > 0]


@case(*ONE)
def reductions():
    def f(x):
        return x.sum(), x.mean(0), x.amax(1, keepdim=True), x.var(1), x.argmax(1), x.max(0), x.std()

    return f


@case(*ONE)
def softmax_and_norms():
    def f(x):
        return x.softmax(-1), F.log_softmax(x, 0), F.layer_norm(x, x.shape[-1:]), x.logsumexp(1)

    return f


@case(lambda: (r(2, 6), r(6, 3)), lambda: (r(2, 6), r(6, 3)), lambda: (r(4, 2), r(2, 5)))
def matrix_products():
    return lambda x, w: (x @ w, F.linear(x, w.t()), torch.einsum("ij,jk->ik", x, w))


@case(
    lambda: (torch.tensor([1, 0, 2]),),
    lambda: (torch.tensor([3, 3]),),
    lambda: (torch.tensor([9]),),
)
def embedding_with_bad_index():
    table = torch.arange(12.0).view(4, 3)
    return lambda i: F.embedding(i, table) * 2


@case(lambda: (torch.arange(5),), lambda: (torch.arange(5) - 2,), lambda: (torch.arange(7),))
def integers():
    return lambda i: (i * 3 // 2, i % 3, i**2, i.float() / 2, i > 2, i & 3, -i)


@case(
    lambda: (torch.tensor(2.0),),
    lambda: (torch.tensor(3),),
    lambda: (torch.zeros(0, 3),),
)
def zero_dim_and_empty():
    return lambda x: (x + 1, x.sum(), x * x)


@case(
    lambda: (r(4, 6).t(),),
    lambda: (r(4, 12)[:, ::2],),
    lambda: (r(6).expand(3, 6),),
)
def strided_arguments():
    return lambda x: (x * 2 + 1, x.sum(0), x.contiguous())


@case(lambda: (r(4, 5).double(),), lambda: (r(4, 5).half(),), lambda: (r(4, 5).bfloat16(),))
def dtypes():
    return lambda x: (x * 2 + 1).relu()


@case(
    lambda: (torch.randn(3, dtype=torch.complex64),),
    lambda: (r(3),),
    lambda: (r(3).bool(),),
    captured=False,
)
def unusual_dtypes():
    return lambda x: x * 2


@case(
    lambda: (r(3, 3).to_sparse(),),
    lambda: (r(3, 3),),
    lambda: (r(3, 3).to_sparse(),),
    captured=False,
)
def sparse_argument():
    return lambda x: x * 2


class Tagged(torch.Tensor):
    pass


@case(
    lambda: (r(3).as_subclass(Tagged),),
    lambda: (r(3),),
    lambda: (r(3).as_subclass(Tagged),),
    captured=False,
)
def tensor_subclass():
    return lambda x: x * 2


@case(lambda: (r(3), 2), lambda: (r(3), 2.5), lambda: (r(3), True))
def scalar_types():
    return lambda x, k: (x * k, k, isinstance(k, bool), math.sqrt(k))


@case(*ONE)
def cat_stack_pad():
    def f(x):
        return torch.cat([x, x * 2], 1), torch.stack([x, -x]), F.pad(x, (1, 2)), x.repeat(2, 1)

    return f


@case(*ONE)
def tensor_created_inside():
    def f(x):
        mask = torch.arange(x.shape[-1]) < 3
        return x * mask + torch.full((1,), 2.0) + torch.tensor([1.0]) + torch.zeros(x.shape)

    return f


@case(*ONE)
def numbers_in_tensor_positions():
    def f(x):
        return (
            torch.sub(2, x),
            torch.where(x > 0, 1.0, x),
            torch.where(x > 0, x, 2),
            2**x,
            torch.mul(3, x),
            torch.add(1, x, alpha=2),
            1 / (x.abs() + 1),
            torch.pow(2, x),
        )

    return f


@pytest.mark.parametrize("make, calls, captured", case)
def test_as_eager(make, calls, captured):
    check(make, calls, captured)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3), (0,)])
def test_empty_tensors(shape):
    def f(x):
        return (
            x + 1,
            x.sum(),
            x.sum(-1),
            x.sum(0),
            x.softmax(-1),
            x * x,
            x.mean(),
            x.prod(0),
            x.t() if x.dim() == 2 else x,
        )

    compare(lambda: f, [lambda: (torch.zeros(shape),)] * 2)
