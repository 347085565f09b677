"""In-place calls whose operands lie in the memory that they write to, at other places."""

import braze
import pytest
import torch

CASES = {
    # Read again where it was written: the order of eager's kernel decides.
    "a column and the elements before": lambda y: y.view(3, 2)[:, 1].add_(y.reshape(-1)[:3]),
    "the diagonal and a row": lambda y: y.view(-1)[:4].view(2, 2).diagonal().mul_(y[0, :2]),
    "every second and a third": lambda y: y.view(-1)[::2].copy_(y.view(-1)[1:4]),
    "steps of two and three": lambda y: y.view(-1)[::3].sub_(y.view(-1)[:4:2]),
    "columns to the right": lambda y: y[:, 1:].copy_(y[:, :-1]),
    # Not read again.
    "two columns": lambda y: y[:, 0].add_(y[:, 1]),
    "odd and even": lambda y: y.view(-1)[::2].add_(y.view(-1)[1::2]),
    "itself": lambda y: y[:, ::2].add_(y[:, ::2]),
    # Refused by eager.
    "one further": lambda y: y.view(-1)[1:].add_(y.view(-1)[:-1]),
    "a row spread over all": lambda y: y.add_(y[0]),
}


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("case", CASES)
def test_as_in_eager(case, dynamic):
    def f(y):
        try:
            CASES[case](y)
        except RuntimeError as error:
            return str(error), y + 1
        return y + 1, y

    compiled = braze.compile(f, dynamic=dynamic)
    for _ in range(2):
        given, expected = (torch.arange(1.0, 7).reshape(2, 3) for _ in range(2))
        assert str(compiled(given)) == str(f(expected))
        assert torch.equal(given, expected)


def large(x, shift):
    x[:, shift : shift + 600].add_(x[:, :600])
    return x


@pytest.mark.parametrize(("shift", "captured"), ((600, True), (700, True), (599, False)))
def test_large_tensors_are_told_apart_by_their_strides(shift, captured):
    x = torch.arange(1000.0 * 1300).reshape(1000, 1300)
    explained = braze.explain(large)(x.clone(), shift)
    assert (not explained.breaks) == captured, explained
    if captured:  # what eager gives otherwise depends on its threads
        compiled = braze.compile(large)
        assert torch.equal(compiled(x.clone(), shift), large(x.clone(), shift))


def put(x, index, value, accumulate=False):
    return x.index_put_((index,), value, accumulate=accumulate)


THREE, ONES = torch.arange(3), torch.tensor([True, False, True])

# Element on element. Eager refuses it where each element of the result follows from more than the
# elements of its place; products it computes from what it has half overwritten.
READ_WHERE_WRITTEN = {
    "an item set to itself": lambda x: put(x[:1], THREE[:1], x[:1]),
    "put itself": lambda x: put(x, THREE, x),
    "put a view": lambda x: put(x, THREE, x.view(3)),
    "put and add": lambda x: put(x, THREE, x, accumulate=True),
    "put at its own indices": lambda x: (lambda i: put(i, i, torch.tensor(1)))(x.long() * 0),
    "scatter": lambda x: x.scatter_(0, THREE, x),
    "scatter a view": lambda x: x.scatter_(0, THREE, x.view(-1)),
    "scatter and add": lambda x: x.scatter_add_(0, THREE, x),
    "scatter and reduce": lambda x: x.scatter_reduce_(0, THREE, x.view(-1), "amax"),
    "scatter by itself": lambda x: (lambda i: i.scatter_(0, i, 2))(x.long() * 0),
    "index_add": lambda x: x.index_add_(0, THREE, x),
    "index_copy": lambda x: x.index_copy_(0, THREE, x),
    "index_copy of a part": lambda x: x.index_copy_(0, THREE[:1], x[1:2]),
    "index_fill by itself": lambda x: (lambda i: i.index_fill_(0, i, 4))(x.long() * 0),
    "index_reduce": lambda x: x.index_reduce_(0, THREE, x.view(-1), "amax"),
    "put_": lambda x: x.put_(THREE, x),
    "masked_scatter": lambda x: x.masked_scatter_(ONES, x),
    "masked_fill by itself": lambda x: (lambda m: m.masked_fill_(m, False))(x > 2),
    "addmv": lambda x: x.addmv_(torch.eye(3), x),
    "a product with itself": lambda x: x.expand(3, 3).clone().addmm_(x.diag(), x.diag()),
}


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("case", READ_WHERE_WRITTEN)
def test_read_where_it_is_written(case, dynamic):
    def f(x):
        try:
            result = READ_WHERE_WRITTEN[case](x)
        except RuntimeError as error:
            return str(error), x + 1
        return result + 1, x

    compiled = braze.compile(f, dynamic=dynamic)
    for _ in range(2):
        given, expected = (torch.tensor([1.0, 2.0, 3.0]) for _ in range(2))
        assert str(compiled(given)) == str(f(expected))
        assert torch.equal(given, expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.addmm_(x, x),
        lambda x: x.view(1, 3, 3).baddbmm_(x.view(1, 3, 3), x.view(1, 3, 3)),
        lambda x: torch.mm(x, x.view(3, 3), out=x),
    ],
)
def test_products_into_their_own_operands(function):
    """Eager's kernel reads what it has written; it is left to eager."""
    assert braze.explain(function)(torch.randn(3, 3)).breaks


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.hypot_(x.view(3)),
        lambda x: x.copysign_(x),
        lambda x: x.addcmul_(x, x.view(3)),
        lambda x: x.copy_(x.view(3)),
        lambda x: x.masked_fill_(x > 1, 4),
    ],
)
def test_elementwise_operators_may_read_what_they_write(function):
    explained = braze.explain(function)(torch.tensor([1.0, 2.0, 3.0]))
    assert not explained.breaks, explained
    given, expected = (torch.tensor([1.0, 2.0, 3.0]) for _ in range(2))
    assert torch.equal(braze.compile(function)(given), function(expected))
    assert torch.equal(given, expected)
