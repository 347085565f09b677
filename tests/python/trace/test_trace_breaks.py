"""What cannot be recorded breaks, with a reason; no data of a fake is ever read."""

import pytest
import torch
import torch.nn.functional as F
from tracing import TraceBreak, check_break, trace

X = torch.randn(4, 6)


def copied_then_read(x):
    t = torch.zeros(6)
    t.copy_(x[0])
    return x * t.sum().item()


BREAKS = {
    "item": (r"aten\._local_scalar_dense: it reads the data of a tensor; use torch\.where", lambda x: x * x.sum().item()),
    "branch": ("reads the data", lambda x: x if x.sum() > 0 else -x),
    "item of a constant that was written to": ("reads the data", copied_then_read),
    "nonzero": (r"aten\.nonzero: the size of its result depends on the data", torch.nonzero),
    "mask as index": ("depends on the data of a tensor", lambda x: x[x > 0]),
    "masked_select": ("size of its result", lambda x: torch.masked_select(x, x > 0)),
    "unique": ("size of its result", torch.unique),
    "equal": ("reads the data", lambda x: x if torch.equal(x, x + 1) else -x),
    "bincount": ("size of its result", lambda x: torch.bincount(x.argmax(1))),
    "repr": ("depends on the data|reads the data", lambda x: (repr(x + 1), x)[1]),
    "meta device": ("device meta is not supported", lambda x: x.to("meta")),
    "generator": ("argument generator", lambda x: x + torch.rand(6, generator=torch.Generator())),
    "resize_": ("changes the size of a tensor in place", lambda x: x.clone().resize_(2, 2)),
    "set_": ("sizes or the memory", lambda x: x.clone().set_(x)),
    "t_ of an argument": ("changes the sizes of a tensor from outside", lambda x: x.t_()),
    "sparse": ("no function for its result's shape|not a dense", lambda x: x.to_sparse().to_dense()),
    "quantised": ("dtype QInt8 is not supported", lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)),
    "float8": ("dtype Float8_e4m3fn is not supported", lambda x: x.to(torch.float8_e4m3fn)),
    "uint16": ("dtype UInt16 is not supported", lambda x: x.to(torch.uint16)),
    "conjugate": ("conjugation", lambda x: torch.fft.rfft(x).conj()),
}  # fmt: skip


# From 2.14 on PyTorch's code for printing tensors knows the dispatch key of the fakes, and prints
# none of their elements.
if torch.__version__ >= "2.14":
    del BREAKS["repr"]


@pytest.mark.parametrize("name", BREAKS)
def test_break(name):
    check_break(BREAKS[name][0], BREAKS[name][1], X.clone())


@pytest.mark.skipif(torch.__version__ < "2.14", reason="a break, see above; PyTorch 2.14 lifts it")
def test_the_text_of_a_fake_has_no_elements():
    texts = []
    trace(lambda x: (texts.append(repr(x + 1)), x)[1], X.clone())
    assert texts == ["tensor(..., size=(4, 6))"]


def test_out_argument_of_another_size():
    check_break(
        "changes the sizes of a tensor from outside",
        lambda x, o: torch.add(x, x, out=o),
        X,
        torch.empty(0),
    )


def test_autograd_is_kept_off_tensors_from_outside():
    x, w = X.clone(), torch.randn(6, requires_grad=True)
    with torch.enable_grad():
        check_break("autograd would record", lambda x: x.mul_(w), x)
        check_break("autograd would record", lambda x: x[0].mul_(w), x)
    assert not x.requires_grad and x.grad_fn is None


def test_constants_of_the_trace_are_not_written_to():
    outside = torch.zeros(6)
    check_break("not an input of the traced code", lambda x: outside.add_(x[0]), X)


@pytest.mark.parametrize(
    "read",
    [lambda y: y.tolist(), lambda y: y[1:].tolist(), lambda y: y.numpy(), lambda y: y.data_ptr(), lambda y: y[1:].data_ptr()],
)  # fmt: skip
def test_data_of_a_fake_is_not_read(read):
    with pytest.raises((RuntimeError, TraceBreak)):
        trace(lambda x: (read(x + 1), x)[1], X)


def test_a_result_outlives_its_trace_without_harm():
    fake = trace(lambda x: x + 1, X)["outputs"][0]
    with pytest.raises(RuntimeError, match="outside of the trace"):
        fake + 1
    check_break("earlier trace", lambda x: x + fake, X)


def test_the_programs_handlers_do_not_catch_it():
    def fn(x):
        try:
            return x * x.sum().item()
        except Exception:
            return x

    check_break("reads the data", fn, X)
    assert not issubclass(TraceBreak, Exception)


def test_user_errors_pass_through():
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        trace(lambda x: x @ x, X)


class Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "make,why",
    [
        (lambda: X.to_sparse(), "layout"),
        (lambda: X.as_subclass(Subclass), "subclass"),
        (lambda: X.to("meta"), "device meta"),
        (lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), "quantised|dtype"),
        (lambda: X.to(torch.float8_e4m3fn), "Float8"),
        (lambda: torch.fft.rfft(X).conj(), "lazily"),
        (lambda: torch.nested.nested_tensor([X, X]), "nested|layout"),
    ],
)
def test_unsupported_arguments(make, why):
    with pytest.raises(RuntimeError, match=why):
        trace(lambda x: x + 1, make())


def test_parameters_and_buffers_are_supported():
    module = torch.nn.BatchNorm1d(6).eval()
    assert trace(module, X)["nodes"] >= 1
    assert trace(lambda p: F.relu(p), torch.nn.Parameter(X))["nodes"] == 1
