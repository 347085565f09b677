"""Keys that a `defaultdict` lacks: what its factory makes is put there, without a break."""

import collections

import braze
import pytest
import torch


class Counted:
    """A factory with a body."""

    def __init__(self):
        self.made = 0

    def __call__(self):
        self.made += 1
        return [self.made]


def put(table, key, x):
    found = table[key]
    if isinstance(found, dict):
        found.setdefault("seen", torch.zeros_like(x)).add_(x)
    elif isinstance(found, list):
        found.append(x + 1)
    return x * 2, len(table)


FACTORIES = {
    "dict": lambda: dict,
    "list": lambda: list,
    "int": lambda: int,
    "lambda": lambda: lambda: [3],
    "instance": Counted,
}


def plain(table):
    """Its items in order, tensors as lists."""
    leaves, structure = torch.utils._pytree.tree_flatten(list(table.items()))
    return [t.tolist() if isinstance(t, torch.Tensor) else t for t in leaves], str(structure)


@pytest.mark.parametrize("factory", FACTORIES)
def test_a_key_that_is_missing(factory):
    x = torch.ones(3)
    ours, theirs = (collections.defaultdict(FACTORIES[factory](), old=1) for _ in range(2))
    fast = braze.compile(put, fullgraph=True)
    for key in ("a", "b", "a", "old", "c"):
        (got, count), (wanted, expected) = fast(ours, key, x), put(theirs, key, x)
        assert torch.equal(got, wanted) and count == expected
        assert plain(ours) == plain(theirs)
    if factory == "instance":
        assert ours.default_factory.made == theirs.default_factory.made == 3


def test_without_a_factory():
    table = collections.defaultdict(None)
    with pytest.raises(KeyError, match="a"):
        braze.compile(put)(table, "a", torch.ones(3))
    assert not table


def test_a_factory_that_raises():
    def no():
        raise ValueError("no")

    table = collections.defaultdict(no)
    with pytest.raises(ValueError, match="no"):
        braze.compile(put)(table, "a", torch.ones(3))
    assert not table


def test_another_factory():
    fast, x = braze.compile(put, fullgraph=True), torch.ones(3)
    table = collections.defaultdict(list)
    fast(table, "a", x)
    table.clear()
    table.default_factory = dict
    fast(table, "a", x)
    assert plain(table) == plain({"a": {"seen": x}})


def test_one_that_the_function_makes():
    def group(x):
        groups = collections.defaultdict(list)
        for number, row in enumerate(x):
            groups[number % 2].append(row)
        return {key: torch.stack(rows).sum(0) for key, rows in groups.items()}

    x = torch.randn(5, 3)
    got, wanted = braze.compile(group, fullgraph=True)(x), group(x)
    assert got.keys() == wanted.keys()
    torch.testing.assert_close(got, wanted)


def test_one_item_is_one_object():
    table = collections.defaultdict(list)

    def same(x):
        return table["a"] is table["a"], x + len(table["a"])

    is_same, y = braze.compile(same, fullgraph=True)(torch.ones(2))
    assert is_same and y.tolist() == [1, 1] and dict(table) == {"a": []}


OPTIMIZERS = {
    "AdamW": lambda p: torch.optim.AdamW(p),
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "RMSprop": lambda p: torch.optim.RMSprop(p),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_step_that_makes_the_state_of_an_optimizer(name):
    """It is one graph, and so are those after it, which find the state."""
    states = []
    for compiled in (False, True):
        torch.manual_seed(0)
        module, x = torch.nn.Linear(4, 3), torch.randn(5, 4)
        optimizer = OPTIMIZERS[name](module.parameters())

        def step(x, module=module, optimizer=optimizer):
            optimizer.zero_grad()
            module(x).square().mean().backward()
            optimizer.step()

        call = braze.compile(step, fullgraph=True) if compiled else step
        with torch.enable_grad():
            for _ in range(5):
                call(x)
        states.append((module.state_dict(), optimizer.state_dict()))
        if compiled:
            assert [entry["exit"] for entry in call._entries()] == ["return"] * 2
            assert call._entries()[-1]["calls"] == 4
    torch.testing.assert_close(states[1], states[0], rtol=1e-5, atol=1e-6)
