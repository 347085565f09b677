"""`Tensor.new` of tensors that the compiled code computes, in its forms, against eager."""

import braze
import pytest
import torch
from support import entries, reasons, same

FORMS = {
    "sizes": lambda x: x.new(2, 3).zero_(),
    "one size": lambda x: x.new(4).fill_(2),
    "no element": lambda x: (x.new(0), x.new(2, 0)),
    "nothing": lambda x: x.new(),
    "a shape": lambda x: x.new(x.shape).zero_(),
    "a size of a tensor": lambda x: x.new(x.size(0), x.shape[0] + 1).fill_(1),
    "numbers in a list": lambda x: x.new([1, 2.5]) + x.sum().to(x.dtype),
    "numbers in a tuple": lambda x: x.new((1, 2)),
    "no number": lambda x: x.new([]),
    "rows": lambda x: x.new([[1, 2], [3, 4]]).t() * 2,
    "by the class": lambda x: torch.Tensor.new(x, 3).zero_(),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16, torch.bool])
def test_forms(name, dtype):
    form = FORMS[name]
    x = torch.arange(3).to(dtype)
    for fn in (lambda x: form(x | x if dtype is torch.bool else x * 2), form):
        fast = braze.compile(fn, fullgraph=True)
        same(fast(x), fn(x))
        assert not reasons(fast)


@pytest.mark.parametrize("name", ["sizes", "a shape", "a size of a tensor", "numbers in a tuple"])
def test_sizes_that_vary(name):
    form = FORMS[name]
    for fn in (lambda x: form(x * 2), form):
        fast = braze.compile(fn, fullgraph=True)
        for rows in (3, 4, 5, 7, 9):
            same(fast(torch.ones(rows)), fn(torch.ones(rows)))
        assert len(entries(fast)) == 2


@torch.enable_grad()
def test_no_gradient_flows():
    fn = lambda x: ((x * 2).new(2).zero_() + x).sum() + (x * 2).new([1.0, 2.0]).sum()
    grads = []
    for call in (braze.compile(fn, fullgraph=True), fn):
        x = torch.ones(2, requires_grad=True)
        call(x).backward()
        grads.append(x.grad)
    same(*grads)


REFUSED = {
    "a float": lambda x: x.new(2.5),
    "a bool": lambda x: x.new(True),
    "a negative size": lambda x: x.new(-1),
    "a text": lambda x: x.new("ab"),
    "a size and a list": lambda x: x.new(2, [3]),
    "no numbers in a list": lambda x: x.new([None]),
    "rows of other lengths": lambda x: x.new([[1], [1, 2]]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses(name):
    fn = lambda x: REFUSED[name](x * 2)
    fast = braze.compile(fn)
    errors = []
    for call in (fast, fn):
        with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
            call(torch.ones(3))
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


def test_of_another_tensor():
    """It shares memory with that one: PyTorch's."""
    fn = lambda x: (x * 2).new(x)
    x = torch.ones(3)
    result = braze.compile(fn)(x)
    same(result, fn(x))
    assert result.data_ptr() == x.data_ptr()
