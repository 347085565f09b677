"""Functions traced natively and replayed with real ops: bit for bit what eager gives."""

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from tracing import check, trace


def rand(*sizes):
    return torch.randn(*sizes)


def channels_last(*sizes):
    return torch.randn(*sizes).to(memory_format=torch.channels_last)


def set_column(x, y):
    x = x.clone()
    x[:, 0] = y
    return x


def set_column_of_argument(x, y):
    x[:, 0] = y
    return x + 1


def return_written_argument(x):
    x.add_(1)
    return x


def out_empty(x):
    out = torch.empty(0)
    torch.add(x, x, out=out)
    return out


def out_of_size(x):
    out = torch.empty(4, 6)
    torch.add(x, x, out=out)
    return out * 2


def out_argument(x, out):
    torch.add(x, x, out=out)
    return out * 2


def written_literal_item(x):
    t = torch.tensor([1.0, 5.0])
    t.add_(2)
    t[0].zero_()
    return x * t.sum().item()


def transpose_in_place(x):
    z = x.clone()
    z.t_()
    return z @ x, z


def assign_data(x):
    z = x.clone()
    z.data = x * 2
    return z + 1


def write_through_data(x):
    x.data.add_(1)
    return x * 2


def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.t(), x @ x.t()


def inference(x):
    with torch.inference_mode():
        return F.linear(x, torch.eye(6)) + 1


def foreach_in_place(x):
    tensors = [x.clone(), x * 2]
    torch._foreach_add_(tensors, 1.0)
    return tensors


def set_by_mask(x):
    z = x.clone()
    z[z > 0] = 0.0
    return z


X = rand(4, 6)
FUNCTIONS = {
    "set column": (set_column, X, rand(4)),
    "set column of an argument": (set_column_of_argument, X, rand(4)),
    "written argument returned": (return_written_argument, X),
    "relu_": (lambda x: (x + 0).relu_(), X),
    "out, empty": (out_empty, X),
    "out, of the right size": (out_of_size, X),
    "out, an argument": (out_argument, X, torch.zeros(4, 6)),
    "dtype": (lambda x: x.to(torch.float16).double(), X),
    "copy to the CPU": (lambda x: x.to("cpu", copy=True), X),
    "dropout": (lambda x: F.dropout(x, 0.5), X),
    "random factories": (lambda x: x + torch.rand(4, 6) + torch.randn_like(x) + torch.arange(6) + torch.full((4, 1), 2.5), X),
    "random ops": (lambda x: (torch.bernoulli(x.sigmoid()), x.clone().normal_(), x.clone().uniform_(), torch.randint(0, 5, (3,)), torch.randperm(5)), X),
    "literals": (lambda x: x + torch.tensor([1.0] * 6) + torch.scalar_tensor(3.0), X),
    "a literal written to": (lambda x: torch.tensor([1.0] * 6).add_(x[0]), X),
    "item of a literal": (lambda x: x * torch.arange(5).sum().item(), X),
    "item of a written literal": (written_literal_item, X),
    "a constant mask as index": (lambda x: x[:, torch.arange(6) > 2], X),
    "nonzero of a literal": (lambda x: x[0][torch.nonzero(torch.tensor([1, 0, 1, 0, 0, 1])).squeeze(1)], X),
    "unique of a literal": (lambda x: x[torch.unique(torch.tensor([1, 1, 2]))], X),
    "repeats in a literal": (lambda x: x.repeat_interleave(torch.tensor([1, 2, 0, 1]), 0), X),
    "repeats with output_size": (lambda x, r: x.repeat_interleave(r, 0, output_size=4), X, torch.tensor([1, 2, 0, 1])),
    "masked fill": (lambda x: x.masked_fill(x > 0, float("-inf")), X),
    "set by mask": (set_by_mask, X),
    "index and index_put": (lambda x: x[torch.tensor([0, 2])].index_put((torch.tensor([1]),), torch.zeros(6)), X),
    "split, unbind, stack": (lambda x: torch.stack([a.sum() for a in x.split(2)] + list(x.unbind(1)[0][:2])), X),
    "unsqueeze_, transpose_": (lambda x: x.clone().unsqueeze_(0).transpose_(1, 2), X),
    "swapaxes_": (lambda x: x.clone().swapaxes_(0, 1) * 2, X),
    "t_": (transpose_in_place, X),
    "squeeze_": (lambda x: x.clone().unsqueeze(0).squeeze_(0) + 1, X),
    "as_strided_": (lambda x: x.clone().as_strided_((6,), (1,)), X),
    "resize_ to the same size": (lambda x: x.clone().resize_(4, 6), X),
    "x.data = y": (assign_data, X),
    "x.data": (lambda x: x.data * 2, X),
    "x.data.add_": (write_through_data, X),
    "x[1:].data": (lambda x: x[1:].data * 2, X),
    "detach": (lambda x: x.detach().mul(2), X),
    "autocast": (autocast, X),
    "inference mode": (inference, X),
    "einsum, sort, topk": (lambda x: torch.einsum("ij,kj->ik", x, x).cumsum(0).sort(0)[0].topk(2)[0], X),
    "foreach": (lambda x: torch._foreach_add([x, x], 1.0), X),
    "foreach with numbers": (lambda x: torch._foreach_mul([x, x], [1.0, 2.0]), X),
    "foreach in place": (foreach_in_place, X),
    "real FFT": (lambda x: torch.fft.rfft(x).abs(), X),
    "complex": (lambda x: torch.view_as_real(torch.view_as_complex(x.view(4, 3, 2)) * 1j), X),
    "vmap": (lambda x: torch.vmap(lambda a: a.sin().sum())(x), X),
    "where with numbers": (lambda x: torch.where(x > 0, x, 0.0) + torch.where(x > 0, 1.0, x) + torch.where(x > 0, 1, 2), X),
    "numbers": (lambda x: (2 - x, 2 / x, 2**x, x**2, x // 2, x % 2, 2 // x, 2 % x, -x, abs(x), x > 1, 1 < x), X),
    "number first": (lambda x: (torch.sub(2, x), torch.add(2, x), torch.mul(2.5, x), torch.div(1, x)), X),
    "numbers only": (lambda x: x * torch.add(2, 3), X),
    "numpy number": (lambda x: x * numpy.float32(2.0), X),
    "numpy array": (lambda x: x + torch.from_numpy(numpy.ones(6, dtype="float32")) + torch.as_tensor([1.0] * 6), X),
    "promotion": (lambda x: (x.int() + 1.5, x.int() / 2, x.int() + True, x.bool() + 1, x.half() + 1.5, x.half() + torch.tensor(1.5, dtype=torch.float64), x.int() * torch.tensor(2.5)), X),
    "reductions": (lambda x: (x.sum(), x.mean(0), x.var(0), x.std(), x.max(), x.max(0)[0], x.argmax(), x.norm(), x.prod(1), x.amax(0), x.logsumexp(0), x.all(), x.any(0), x.median(), x.nansum(), torch.var_mean(x, 0)[1]), X),
    "norms": (lambda x: (F.group_norm(x[None], 2), F.instance_norm(x[None]), F.rms_norm(x, (6,)), F.layer_norm(x, (6,))), X),
    "batch norm without statistics": (lambda x: F.batch_norm(x, None, None, training=True), X),
    "losses": (lambda x: (F.cross_entropy(x, torch.zeros(4, dtype=torch.long)), F.mse_loss(x, x + 1), F.kl_div(x, x.softmax(-1))), X),
    "attention": (lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], is_causal=True), X),
    "attention with a mask": (lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], attn_mask=torch.ones(4, 4).tril().bool()), X),
    "grouped-query attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), rand(2, 4, 5, 8), rand(2, 2, 5, 8)),
    "attention with dropout": (lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), rand(2, 4, 5, 8)),
    "embedding bag": (lambda x: F.embedding_bag(torch.tensor([[0, 1], [2, 3]]), x), X),
    "scatter, gather": (lambda x: (x.scatter(1, torch.zeros(4, 1, dtype=torch.long), 9.0), x.gather(1, torch.ones(4, 2, dtype=torch.long)), x.scatter_add(0, torch.zeros(1, 6, dtype=torch.long), x), x.index_add(0, torch.tensor([0]), x[:1]), x.index_copy(0, torch.tensor([0]), x[:1]), x.index_fill(0, torch.tensor([0]), 1.0), x.take(torch.tensor([0, 3])), x.masked_scatter(x > 0, x)), X),
    "new_*": (lambda x: (x.new_zeros(3), x.new_tensor([1.0, 2.0]), x.new_full((2,), 3), x.new_empty(2).fill_(1)), X),
    "pow, atan2, lerp, clamp": (lambda x: (torch.pow(2.0, x), torch.atan2(x, x), torch.lerp(x, x * 2, 0.5), x.clamp(-1, 1), x.clamp(min=x * 0)), X),
    "cat with an empty tensor": (lambda x: torch.cat([torch.tensor([]), x[0]]), X),
    "views": (lambda x: (x.t().contiguous(), x.t().reshape(-1), x.t().reshape(2, 3, 4), x.view(-1, 3), x.flatten(), x.view(torch.int32)), X),
    "pad, roll, flip, tril": (lambda x: (F.pad(x, (1, 1)), x.roll(1, 0), x.flip(0), x.tril(), x.triu(1), x.rot90()), X),
    "activations": (lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.relu6(x), F.hardswish(x), F.mish(x), F.elu(x), F.leaky_relu(x), F.softplus(x), F.logsigmoid(x), F.glu(x), F.prelu(x, torch.tensor(0.25)), F.threshold(x, 0.1, 0.2)), X),
    "pools": (lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, (2, 2)), F.adaptive_avg_pool2d(x, 1)), channels_last(2, 3, 8, 8)),
    "convolution, channels last": (lambda x, w: torch.conv2d(x, w), channels_last(2, 3, 8, 8), channels_last(4, 3, 3, 3)),
    "convolution, permuted": (lambda x, w: torch.conv1d(x.transpose(1, 2), w, padding=1, stride=2), rand(2, 8, 3), rand(4, 3, 3)),
    "transposed convolution": (lambda x, w: F.conv_transpose2d(x, w, stride=2), rand(2, 4, 9, 9), rand(4, 4, 3, 3)),
    "linear algebra": (lambda x: (torch.linalg.inv(x[:, :4]), torch.linalg.det(x[:, :4]), torch.linalg.norm(x), torch.linalg.eigh(x @ x.t())[0]), X),
    "outputs that are arguments and views": (lambda x: (x, x[0], x.view(-1)), X),
    "no elements": (lambda x: (x[:0] + 1, x[:0].sum(), torch.cat([x[:0], x])), X),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    check(*FUNCTIONS[name])


def test_in_place_on_a_view_of_a_literal_is_not_baked_in():
    def fn(x):
        t = torch.zeros(6)
        t[:3].copy_(x[0, :3])
        return t

    check(fn, X)


def test_batch_norm_training_writes_statistics_only_on_replay():
    module = nn.BatchNorm1d(6)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    result = trace(module, X)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert "_native_batch_norm_legit(" in result["graph"]
    (got,) = result["replay"]()
    after = {k: v.clone() for k, v in module.state_dict().items()}
    module.load_state_dict(before)
    assert torch.equal(module(X), got)
    assert all(torch.equal(v, after[k]) for k, v in module.state_dict().items())


def test_batch_norm_inference_is_functional():
    module = nn.BatchNorm1d(6).eval()
    graph = trace(module, X)["graph"]
    assert "_native_batch_norm_legit_no_training" in graph


def test_numbers_stand_in_the_scalar_overload():
    graph = trace(lambda x: (x + 1) * 2.5, X)["graph"]
    assert "aten.add.Scalar(%0, 1, 1)" in graph
    assert "aten.mul.Scalar(%1, 2.5)" in graph


def test_factories_name_their_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        graph = trace(lambda x: torch.zeros(3) + torch.arange(3), X)["graph"]
    finally:
        torch.set_default_dtype(torch.float32)
    assert "aten.zeros([3], f64," in graph
    assert "aten.arange(3, i64," in graph


def test_inputs_and_their_kinds():
    module = nn.Linear(6, 2)
    result = trace(lambda x: F.linear(x, module.weight) + torch.tensor(1.0), X)
    assert [(kind, name) for _, kind, name in result["inputs"]][1:] == [
        ("user", "arg0"),
        ("constant", "constant2"),
    ]
    result = trace(module, X)
    assert {(kind, name) for _, kind, name in result["inputs"]} == {
        ("parameter", "weight"),
        ("parameter", "bias"),
        ("user", "arg0"),
    }
    assert result["inputs"][0][0] is module.weight


def test_arguments_that_share_memory_share_a_storage():
    base = torch.randn(4, 6)

    def fn(x, row):
        row.add_(1)
        return x * 2

    graph = trace(fn, base, base[1])["graph"]
    assert "%0 arg1: f32[6]+6" in graph
    assert "arg0: f32[4, 6] #%0" in graph


def test_untouched_arguments_are_no_inputs():
    assert len(trace(lambda x, y: x + 1, X, X.clone())["inputs"]) == 1


def test_autograd_is_noticed():
    w = torch.randn(6, requires_grad=True)
    with torch.enable_grad():
        assert trace(lambda x: x * w, X)["needs_autograd"]
        assert not trace(lambda x: x * 2, X)["needs_autograd"]
        assert not trace(lambda x: x * w.detach(), X)["needs_autograd"]
        assert not trace(lambda x: w.argmax() + torch.zeros_like(w.detach()).sum(), X)[
            "needs_autograd"
        ]
    with torch.no_grad():
        assert not trace(lambda x: x * w, X)["needs_autograd"]


def test_the_thread_is_as_before():
    trace(lambda x: x + torch.zeros(6), X)
    with pytest.raises(ValueError):
        trace(lambda x: int("no number"), X)
    assert torch.zeros(3).tolist() == [0.0] * 3
    assert (X + 1).data_ptr() != 0


def test_autocast_keeps_no_fakes_in_its_cache():
    w = torch.randn(6, 6, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        trace(lambda x: x @ w, X)
        assert torch.isfinite(X @ w).all()
