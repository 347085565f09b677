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
    compiled = braze.compile(large)
    assert torch.equal(compiled(x.clone(), shift), large(x.clone(), shift))
