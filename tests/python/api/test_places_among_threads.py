"""Rows added to places that threads share out: eager's results, bit by bit, and eager's errors."""

import braze
import pytest
import torch
from support import outcome

SOURCES, PLACES, COLUMNS = 5000, 512, 64

FUNCTIONS = {
    "index_add": lambda x, i, s: x.index_add(0, i, s),
    "index_put": lambda x, i, s: x.index_put((i,), s, accumulate=True),
    "scatter_add": lambda x, i, s: x.scatter_add(0, i[:, None].expand_as(s), s),
    "scatter_reduce": lambda x, i, s: x.scatter_reduce(0, i[:, None].expand_as(s), s, "amax"),
    "embedding": lambda x, i, s: torch.ops.aten.embedding_dense_backward(s, i, len(x), 3, False),
}


@pytest.fixture(params=[1, 3, 4])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def arguments(sources, places, columns):
    index = torch.randint(0, places, (sources,))
    return torch.randn(places, columns), index, torch.randn(sources, columns)


def assert_same(compiled, function, inputs):
    kind, expected, _ = outcome(function, inputs, {})
    ours, actual, _ = outcome(compiled, inputs, {})
    assert ours == kind
    if kind == "raised":
        assert (type(actual), str(actual)) == (type(expected), str(expected))
    else:
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sums_are_those_of_one_thread(name, dynamic, threads):
    function = FUNCTIONS[name]
    compiled = braze.compile(function, dynamic=dynamic, fullgraph=True)
    for sizes in ((SOURCES, PLACES, COLUMNS), (SOURCES + 7, PLACES - 3, COLUMNS + 1)):
        inputs = arguments(*sizes)
        actual = compiled(*inputs)
        torch.set_num_threads(1)
        expected = function(*inputs)
        torch.set_num_threads(threads)
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("wrong", [PLACES, -PLACES - 1])
@pytest.mark.parametrize("name", ["index_add", "index_put", "scatter_add", "scatter_reduce"])
def test_one_wrong_place_among_many(name, wrong, threads):
    function = FUNCTIONS[name]
    compiled = braze.compile(function)
    inputs = arguments(SOURCES, PLACES, COLUMNS)
    compiled(*inputs)
    inputs[1][SOURCES // 2] = wrong
    assert_same(compiled, function, inputs)


@pytest.mark.parametrize("name", ["index_add", "index_put"])
def test_no_place_at_all(name, threads):
    function = FUNCTIONS[name]
    compiled = braze.compile(function, dynamic=True)
    compiled(*arguments(SOURCES, PLACES, COLUMNS))
    inputs = torch.randn(0, COLUMNS), torch.zeros(9, dtype=torch.int64), torch.randn(9, COLUMNS)
    assert_same(compiled, function, inputs)
