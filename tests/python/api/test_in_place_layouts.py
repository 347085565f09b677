"""In-place operators on tensors that lie in memory in another order than the row-major one: their
functional forms make contiguous results."""

import braze
import pytest
import torch
from support import same

ROWS = torch.tensor([2, 0, 2])
COLUMNS = torch.tensor([[0, 1], [2, 0], [1, 1], [0, 2]])
MASK = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)) > 0.5

CASES = {
    "addbmm": lambda x: x.addbmm_(torch.ones(2, 4, 2), torch.ones(2, 2, 3)),
    "addmm": lambda x: x.addmm_(torch.ones(4, 2), torch.ones(2, 3)),
    "addr": lambda x: x.addr_(torch.ones(4), torch.ones(3)),
    "cumsum": lambda x: x.cumsum_(0),
    "cumprod": lambda x: x.cumprod_(1),
    "index_add": lambda x: x.index_add_(0, ROWS, torch.ones(3, 3)),
    "index_copy": lambda x: x.index_copy_(1, ROWS[:2], torch.ones(4, 2)),
    "index_fill": lambda x: x.index_fill_(1, ROWS[:1], 7.0),
    "index_put": lambda x: x.index_put_((ROWS,), torch.ones(3)),
    "index_reduce": lambda x: x.index_reduce_(0, ROWS, torch.ones(3, 3), "prod"),
    "masked_fill": lambda x: x.masked_fill_(MASK, 7.0),
    "masked_fill with a tensor": lambda x: x.masked_fill_(MASK, torch.tensor(7.0)),
    "masked_scatter": lambda x: x.masked_scatter_(MASK, torch.ones(12)),
    "mvlgamma": lambda x: x.abs_().add_(2).mvlgamma_(2),
    "lgamma": lambda x: x.lgamma_(),
    "renorm": lambda x: x.renorm_(2, 0, 1.0),
    "scatter": lambda x: x.scatter_(1, COLUMNS, torch.ones(4, 2)),
    "scatter of a number": lambda x: x.scatter_(1, COLUMNS, 3.0),
    "scatter with reduce": lambda x: x.scatter_(1, COLUMNS, torch.ones(4, 2), reduce="add"),
    "scatter of a number with reduce": lambda x: x.scatter_(1, COLUMNS, 3.0, reduce="multiply"),
    "scatter_add": lambda x: x.scatter_add_(1, COLUMNS, torch.ones(4, 2)),
    "scatter_reduce": lambda x: x.scatter_reduce_(1, COLUMNS, torch.ones(4, 2), "amax"),
    "tril": lambda x: x.tril_(),
    "triu": lambda x: x.triu_(1),
    "conj_physical": lambda x: x.conj_physical_(),  # gives its operand back
    "hypot": lambda x: x.hypot_(torch.ones(4, 3)),
    "nan_to_num": lambda x: x.nan_to_num_(),
    "hardtanh": lambda x: torch.nn.functional.hardtanh_(x),
}
LAYOUTS = {
    "transposed": lambda x: x.t().contiguous().t(),
    "every second": lambda x: x.repeat_interleave(2, 1)[:, ::2],
}


@pytest.mark.parametrize("backend", ["aten", "braze"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_as_in_eager(case, layout, dynamic, backend, capfd):
    def f(x):
        return CASES[case](x), x + 0

    compiled = braze.compile(f, dynamic=dynamic, backend=backend)
    base = torch.randn(4, 3)
    for _ in range(2):
        given, expected = (LAYOUTS[layout](base.clone()) for _ in range(2))
        same(compiled(given), f(expected))
        same(given, expected)
    assert "internal error" not in capfd.readouterr().err


@pytest.mark.parametrize("backend", ["aten", "braze"])
def test_views_share_memory(backend):
    def f(x):
        whole = x.view(-1)
        part = whole[1:]
        part.add_(1)
        return whole, part

    x = torch.randn(3, 4)
    whole, part = braze.compile(f, backend=backend)(x)
    assert whole.data_ptr() == x.data_ptr()
    assert part.data_ptr() == x.data_ptr() + x.itemsize


@pytest.mark.parametrize("backend", ["aten", "braze"])
def test_an_operator_that_gives_its_operand_back(backend):
    """What it gave is not taken for memory of its own."""

    def f(x):
        y = (x + 1).t()
        y.conj_physical_()
        z = y.t() * 2
        return y, z.relu() - y.t()

    x = torch.randn(40, 30)
    same(braze.compile(f, backend=backend)(x), f(x))


@pytest.mark.parametrize("place", [(..., slice(3, 9)), (..., slice(0, 12, 2)), (slice(1, 2),)])
@pytest.mark.parametrize("with_gradient", [False, True])
def test_a_slice_that_is_written_to_and_multiplied(place, with_gradient):
    """What a layer flattens is a view by strides, of memory that the written value does not have."""
    torch.manual_seed(0)
    width = torch.empty(2, 3, 12)[place].shape[-1]
    module = torch.nn.Sequential(torch.nn.ReLU(inplace=True), torch.nn.Linear(width, 5))
    fast = braze.compile(module, fullgraph=True)
    with torch.set_grad_enabled(with_gradient):
        given = torch.randn(2, 3, 12)
        twin = given.clone()
        same(fast(twin[place]), module(given[place]))
        same(twin, given)
