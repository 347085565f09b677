"""Tensor attributes, random and grad mode, numpy, modules, tensors beside Python numbers."""

import math
import random

import numpy
import torch
import torch.nn.functional as F
from running import case


@case
def metadata(x):
    return x.dtype, x.device, x.ndim, x.numel(), x.is_contiguous(), x.stride(), x.layout, x.itemsize


@case
def gradient_is_read(x):
    return x.grad, (x + 1).grad


@case
def gradient_is_set(x):
    x.grad = torch.ones_like(x)
    return x + 1


@case
def requires_grad_is_set(x):
    y = x + 1
    y.requires_grad_()
    return y.requires_grad, y.detach()


@case
def requires_grad_of_the_argument(x):
    x.requires_grad_(True)
    return x.detach() * 2


@case
def data_is_set(x, y):
    x.data = y
    return x + 1


@case
def python_attribute_of_a_tensor(x):
    x.tag = "mine"
    return x + 1


@case
def python_attribute_of_a_result(x):
    y = x + 1
    y.tag = 3
    return y * y.tag


@case
def random_numbers(x):
    return x + torch.rand(4) if x.dim() == 1 else torch.randn_like(x)


@case
def random_permutation_and_dropout(x):
    return F.dropout(x, 0.5, training=True), torch.randperm(4), torch.randint(0, 9, (2,))


@case
def python_random(x):
    return x * random.random()


@case
def seed_is_set(x):
    torch.manual_seed(5)
    return x + torch.rand(1)


@case
def own_generator(x):
    g = torch.Generator()
    g.manual_seed(3)
    return x + torch.rand(1, generator=g)


@case
def random_state_is_read(x):
    state = torch.get_rng_state()
    a = torch.rand(2)
    torch.set_rng_state(state)
    return a == torch.rand(2)


@case
def grad_mode_inside(x):
    with torch.enable_grad():
        a = torch.is_grad_enabled()
    with torch.no_grad():
        b = torch.is_grad_enabled()
    return a, b, x + 1


@case
def grad_mode_left_changed(x):
    torch.set_grad_enabled(not torch.is_grad_enabled())
    return x.detach() + 1


@case
def default_dtype_left_changed(x):
    torch.set_default_dtype(torch.float64)
    return x + torch.ones(1)


@case
def no_grad_decorator(x):
    @torch.no_grad()
    def f(v):
        return v * 2

    return f(x)


@case
def inference_mode(x):
    with torch.inference_mode():
        y = x * 2
    return y.is_inference(), x + 1


@case
def autocast(m):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = m @ m
    return y, y.dtype


@case
def item_and_branch(x):
    if x.sum().item() > 0:
        return x + 1
    return x - 1


@case
def branch_on_a_tensor(x):
    return x * 2 if x.sum() > 0 else x * 3


@case
def loop_on_a_tensor(x):
    k = 0
    while x.abs().max() < 10 and k < 5:
        x = x * 2
        k += 1
    return x, k


@case
def tolist(i):
    return [k + 1 for k in i.tolist()], i + 1


@case
def iterate_over_a_tensor(m):
    return [row.sum() for row in m], len(m), [a * b for a, b in zip(m, m)]


@case
def unpack_a_tensor(m):
    a, b, c = m
    return a + b * c


@case
def numpy_of_a_tensor(x):
    return torch.from_numpy(x.numpy() * 2) + 1


@case
def numpy_functions(x):
    return numpy.sum(x.numpy()) * 0 + 1, x + 1


@case
def numpy_numbers(x):
    scale = numpy.float32(2.5)
    return x * float(scale), numpy.prod((2, 3)), numpy.sqrt(4.0)


@case
def scalars_beside_tensors(x, n):
    return (
        x + 1,
        1 - x,
        x / n,
        x**n,
        n**x,
        x // 2,
        x % 3,
        -x,
        abs(x),
        x > n,
        x * True,
        x + 1.5,
        x == n,
    )


@case
def comparison_chain_of_shapes(x):
    return x if 0 < x.dim() < 3 else None


@case
def bitwise_and_shifts(i):
    return i & 3, i | 8, i ^ 1, i << 2, i >> 1, ~i, (i > 2) & (i < 5), ~(i > 2)


@case
def indexing(m):
    return (
        m[0],
        m[:, 1],
        m[[0, 2]],
        m[..., -1],
        m[None],
        m[1:, :2],
        m[torch.tensor([0, 1])],
        m[0, 0],
    )


@case
def masked_assignment(x):
    x[x > 0] = 0
    return x


@case
def index_assignment(m):
    m[0] = 1
    m[:, 1] += 2
    m[[0, 2], [1, 1]] = 5
    return m


@case
def boolean_mask(x):
    return x[x > 0].sum()


@case
def where_and_masks(x):
    return torch.where(x > 0, x, 0.0), x.masked_fill(x < 0, 1), x.clamp(min=0)


@case
def stacks_and_splits(x, tensors):
    a, b, c = torch.stack(tensors).unbind()
    return torch.cat(tensors), a + b, x.flatten().split(2), torch.chunk(c, 2), torch.hstack(tensors)


@case
def factories(x):
    return (
        torch.zeros(2), torch.arange(3), torch.full((2,), math.pi), torch.ones_like(x), x.new_zeros(2),
        torch.tensor([1, 2]), torch.tensor(3.5), torch.eye(2), torch.linspace(0, 1, 3), torch.empty(0),
        torch.tensor([[1, 2], [3, 4]]) + 1,
    )  # fmt: skip


@case
def dtype_changes(x):
    return (
        x.double(),
        x.to(torch.int32),
        x.half(),
        x.long().float(),
        x.type(torch.float64),
        x.bool(),
    )


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])
        self.register_buffer("steps", torch.zeros(1))
        self.history = []
        self.by_name = torch.nn.ModuleDict({"out": torch.nn.Linear(4, 2)})

    def forward(self, x):
        self.steps += 1
        self.history.append(x.shape[0])
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.by_name["out"](x) * self.steps


net = Net()


@case(make=lambda k: (torch.randn(k + 1, 4),))
def module_with_state(x):
    return net(x), len(net.history)


@case(make=lambda k: (torch.randn(2, 4),))
def module_parameters(x):
    return sum(p.numel() for p in net.parameters()), [n for n, _ in net.named_children()], x + 1


@case(make=lambda k: (torch.randn(3, 4),))
class BatchNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x)


@case(make=lambda k: (torch.randn(2, 4),))
class Stateful(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.calls = 0
        self.last = None

    def forward(self, x):
        self.calls += 1
        if self.last is not None:
            x = x + self.last
        self.last = x
        return self.linear(x) * self.calls


def train_or_eval(k):
    net.train(k % 2 == 0)


@case(make=lambda k: (torch.randn(2, 4),), before=train_or_eval)
def module_mode(x):
    return F.dropout(x, 0.5, net.training).sum() * 0 + net(x)


@case(make=lambda k: (torch.randn(2, 4), torch.nn.Linear(4, 4)))
def module_argument(x, module):
    return module(x)


@case
def parameter_is_replaced(x):
    net.extra = torch.nn.Parameter(torch.ones(1), requires_grad=False)
    return x + 1


@case
def einsum_and_matmul(m):
    return torch.einsum("ij,jk->ik", m, m), m @ m, torch.mm(m, m), m.mv(m[0]), m.matmul(m.T)


@case
def reductions(m):
    values, indices = m.max(dim=1)
    return (
        m.sum(),
        m.mean(0),
        values,
        indices,
        m.argmax(),
        m.std(),
        m.var(1),
        m.norm(),
        m.prod(),
        m.all(),
    )


@case
def named_results(m):
    out = m.sort(dim=0)
    return out.values, out.indices, torch.topk(m, 2).values, m.median(0), type(out).__name__


@case
def custom_autograd_function(x):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Double.apply(x)


@case
def functional_layers(m):
    return (
        F.softmax(m, -1),
        F.layer_norm(m, (3,)),
        F.gelu(m),
        F.linear(m, m),
        F.one_hot(torch.arange(3)),
    )


@case
def tensors_in_nested_structures(x, d):
    nest = {"a": [x, (x + 1, {"b": d})], "c": None}
    nest["a"][1][1]["b"]["new"] = x * 2
    return nest
