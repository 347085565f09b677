"""What users say of single functions, in Braze's words and in torch.compiler's."""

import braze
import pytest
import torch
from support import entries, reasons, same

BOTH = pytest.mark.parametrize("names", [braze, torch.compiler], ids=["braze", "torch"])
X = torch.randn(3, 4)


class Backend:
    """Keeps the graph modules that it is given."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, inputs):
        self.graphs.append(gm)
        return gm

    def targets(self):
        return [
            getattr(node.target, "__name__", node.target)
            for gm in self.graphs
            for node in gm.graph.nodes
            if node.op.startswith("call")
        ]


@BOTH
def test_allow_in_graph_with_own_backend(names):
    @names.allow_in_graph
    def scaled(x, n):
        return x * n + 1

    def fn(x):
        return scaled(x.sin(), 3) * 2

    fast = braze.compile(fn, fullgraph=True)
    same(fast(X), fn(X))


@BOTH
def test_allow_in_graph_is_one_node(names):
    def scaled(x, n):
        return (x * n + 1).relu(), (x - n,)

    def split(x):
        return [x + 1, x - 1]

    assert names.allow_in_graph(scaled) is scaled
    assert names.allow_in_graph([split]) == [split]

    def fn(x):
        a, (b,) = scaled(x.sin(), 3)
        c, d = split(a)
        return a * b, c - d

    backend = Backend()
    fast = braze.compile(fn, backend=backend, fullgraph=True)
    for x in (X, X + 1, torch.randn(5)):
        same(fast(x), fn(x))
    first = backend.targets()[: len(backend.targets()) // len(backend.graphs)]
    assert first[:2] == ["sin", "scaled"] and "split" in first
    assert "relu" not in first and "add" not in first


def test_allow_in_graph_with_effects_is_looked_into():
    log = []

    @braze.allow_in_graph
    def noted(x):
        log.append(x.shape[0])
        return x + 1

    @braze.allow_in_graph
    def reads(x):
        return x * len(log)

    backend = Backend()
    fast = braze.compile(lambda x: reads(noted(x)), backend=backend)
    for n in (1, 2, 3):
        same(fast(X), (X + 1) * n)
        assert log == [3] * n
    assert "noted" not in backend.targets() and "reads" not in backend.targets()


def test_allow_in_graph_is_guarded():
    factor = {"n": 2}

    @braze.allow_in_graph
    def scaled(x):
        return x * factor["n"]

    fast = braze.compile(lambda x: scaled(x) + 1, backend=Backend(), fullgraph=True)
    for factor["n"] in (2, 5, 7):
        same(fast(X), X * factor["n"] + 1)


@BOTH
def test_allow_in_graph_breaks_where_it_must(names):
    @names.allow_in_graph
    def noisy(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    fast = braze.compile(lambda x: noisy(x * 2) * 3, backend=Backend())
    for x in (X.abs(), -X.abs()):
        same(fast(x), noisy(x * 2) * 3)


@BOTH
def test_a_constant_is_computed_once(names):
    calls = []
    table = {"n": 2}

    @names.assume_constant_result
    def number(key, scale=1):
        calls.append(key)
        return table[key] * scale

    def fn(x):
        return x * number("n") + number("n", scale=10)

    fast = braze.compile(fn, fullgraph=True)
    same(fast(X), X * 2 + 20)
    assert calls == ["n", "n"]
    table["n"] = 5  # against the promise: what the function reads is not guarded
    same(fast(X), X * 2 + 20)
    assert calls == ["n", "n"] and len(entries(fast)) == 1


def test_a_constant_in_a_capture_with_a_break_is_computed_once():
    calls = []

    @braze.assume_constant_result
    def number():
        calls.append(1)
        return 3

    def fn(x):
        x = x * number()
        braze.graph_break()
        return x + 1

    fast = braze.compile(fn)
    for _ in range(3):
        same(fast(X), X * 3 + 1)
    assert len(calls) == 1


@BOTH
def test_arguments_of_a_constant_are_guarded(names):
    class Model(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.width = width

        @names.assume_constant_result
        def table(self, n):
            return torch.arange(n * self.width, dtype=torch.float32)

        def forward(self, x, n):
            return x + self.table(n).sum()

    first, second = Model(2), Model(3)
    call = braze.compile(lambda model, x, n: model(x, n), fullgraph=True)
    for model, n in ((first, 3), (second, 3), (first, 4), (first, 3), (second, 5)):
        same(call(model, X, n), model(X, n))


@pytest.mark.parametrize(
    "value", [None, "text", 2.5, (1, "a"), [1, 2], {"a": 1}, torch.float16, torch.ones(4), len]
)
def test_kinds_of_constants(value):
    @braze.assume_constant_result
    def constant():
        return value

    fast = braze.compile(lambda x: (x + 1, constant()), fullgraph=True)
    for _ in range(2):
        result, given = fast(X)
        same(result, X + 1)
        same(given, value)
        assert given is value or isinstance(value, (float, str))


def test_what_a_constant_reads_may_be_unknown_to_the_tracer():
    @braze.assume_constant_result
    def from_the_system():
        import os

        return len(os.listdir("/")) * 0 + torch.ones(3).sum().item()

    fast = braze.compile(lambda x: x * from_the_system(), fullgraph=True)
    same(fast(X), X * 3)


def test_a_constant_given_tensors_is_captured():
    @braze.assume_constant_result
    def twice(x, values):
        return x * 2 + values[0]

    fast = braze.compile(lambda x, values: twice(x, values), fullgraph=True)
    for values in ([1], [2], [3]):
        same(fast(X, values), X * 2 + values[0])


def test_a_constant_that_raises():
    @braze.assume_constant_result
    def broken():
        raise ValueError("no constant")

    def fn(x):
        try:
            return x + broken()
        except ValueError as error:
            return x, str(error)

    fast = braze.compile(fn)
    for _ in range(2):
        same(fast(X), fn(X))


def test_a_constant_behind_a_change_sees_it():
    state = {"n": 1}

    @braze.assume_constant_result
    def number():
        return state["n"]

    def fn(x):
        state["n"] += 1
        return x * number()

    fast = braze.compile(fn)
    for n in (2, 3, 4):
        same(fast(X), X * n)


@BOTH
@pytest.mark.parametrize("recursive", [True, False])
def test_disable_is_a_break(names, recursive):
    def inner(x):
        return (x.exp() + 1).log()

    def outer(x, *, n=1):
        y = inner(x) * n
        for i in range(2):
            y = y + inner(y - i)
        return y

    marked = names.disable(outer, recursive=recursive)

    def fn(x):
        return marked(x * 2, n=3) - 3

    fast = braze.compile(fn)
    for x in (X, X + 1, torch.randn(2)):
        same(fast(x), outer(x * 2, n=3) - 3)
    assert reasons(fast)
    compiled = {entry["function"].split(".")[-1] for entry in entries(fast) if entry["nodes"]}
    assert ("inner" in compiled) == (not recursive)
    assert "outer" not in compiled


@BOTH
def test_disable_of_a_method_alone(names):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.seen = []

        @names.disable(recursive=False)
        def route(self, x):
            self.seen.append(x.shape)
            try:
                with torch.no_grad():
                    y = self.layer(x) if x.sum() > 0 else self.layer(-x)
                return [part for part in (self.act(y), y)]
            finally:
                self.seen.append("end")

        def act(self, x):
            return torch.nn.functional.silu(x) * 2

        def forward(self, x):
            a, b = self.route(x + 1)
            return a * b

    model = Model().eval().requires_grad_(False)
    fast = braze.compile(model)
    for x in (X, X.abs(), -X.abs()):
        same(fast(x), model(x))
    assert model.seen[:2] == [X.shape, "end"] and len(model.seen) == 12
    compiled = {e["function"].split(".")[-1] for e in entries(fast) if e["nodes"]}
    assert {"act", "forward"} & compiled and "route" not in compiled


def test_an_exception_in_a_function_that_is_disabled_alone():
    def inner(x, depth):
        if depth == 2:
            raise ValueError("deep")
        return x + depth

    @braze.disable(recursive=False)
    def outer(x):
        for depth in range(4):
            x = inner(x, depth)
        return x

    def fn(x):
        try:
            return outer(x * 2)
        except ValueError as error:
            names = []
            trace = error.__traceback__
            while trace:
                names.append(trace.tb_frame.f_code.co_name)
                trace = trace.tb_next
            return x, names

    fast = braze.compile(fn)
    for _ in range(3):
        same(fast(X), fn(X))


def test_marks_need_functions():
    for mark in (braze.allow_in_graph, braze.assume_constant_result):
        with pytest.raises(TypeError, match="needs a callable"):
            mark(3)
        assert mark(len) is len


def test_a_constant_below_a_cache():
    """As libraries write their probes: what is iterated or cached on the way is no change."""
    import functools

    calls, layers = [], [1, 2, 3]

    @functools.lru_cache
    @braze.assume_constant_result
    def available(name):
        calls.append(name)
        return name == "torch"

    def fn(x):
        for layer in layers:
            x = x * layer if available("torch") else x - layer
        return x

    fast = braze.compile(fn, fullgraph=True)
    for _ in range(3):
        same(fast(X), X * 6)
    assert set(calls) == {"torch"} and available.cache_info().misses == 1
