"""Tensors that share memory without PyTorch's knowledge: what is written through one is read
through the others, in every order of calls that do and do not share."""

import copy

import braze
import numpy
import pytest
import torch
from capturing import capture
from sharing import PAIRS, numbers, outcomes, twin
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore")

BODIES = [
    "x += 2\nreturn y * 2",
    "z = x * 3\ny.mul_(2)\nreturn z, x + 1",
    "x += 1\ny *= 2\nx -= 3\nreturn x + 1, y",
    "x[1:3] = 9\nreturn y.sum(), y",
    "v = x.view(-1)[1:]\nv.sub_(1)\nreturn y + 1, v",
    "x.zero_()\nreturn torch.stack((x, x)), y.flip(0) if y.numel() else y",
    "x.copy_(x.flip(0))\nreturn y + 0",
    "torch.add(x, 1, out=x)\nreturn y.to(torch.float64)",
    "x.uniform_() if x.is_floating_point() else x.add_(3)\nreturn y * 2",
    "x.index_put_((torch.tensor([0, 2]),), torch.tensor(5, dtype=x.dtype))\nreturn y - 1",
    "x[x > 2] = 0\nreturn y * 1",
    "x += 1\nif y.sum().item() > 11: return y * 2\nx *= 3\nreturn y - 1",
    "x += 1\na = y.tolist()\nx += 1\nreturn a, y + 1",
    "x += 1\na = x.numpy()\na[0] = 50\nreturn y + 1, torch.from_numpy(a) * 2",
    "for i in range(3): x += i\nreturn [y * i for i in range(2)]",
    "with torch.inference_mode(): x += 1\nreturn y * 2",
    "x += 1\nx *= 2\nreturn y + 1, x._version, y._version",
]
READERS = [
    "return y.view(-1), x[1:], y",
    "return x.view(2, 2), y",
    "x += 1\nreturn y.view(-1), x[1:], y",
    "v = y.view(-1)[1:]\nx += 1\nreturn v, v + 1",
    "x += 1\nreturn x.numpy(), y",
    "return torch.from_numpy(x.numpy()[1:]), y",
]


def function(body):
    scope = {"torch": torch}
    exec("def f(x, y):\n" + "".join(f"    {line}\n" for line in body.splitlines()), scope)
    return scope["f"]


@pytest.mark.parametrize("body", BODIES)
def test_pairs_come_and_go(body):
    f = function(body)
    for order, backend in ((list(PAIRS.values()), "braze"), (list(PAIRS.values())[::-1], "aten")):
        fast = braze.compile(f, backend=backend, recompile_limit=80)
        assert outcomes(fast, order) == outcomes(f, order)


@pytest.mark.parametrize("body", READERS)
def test_results_share_as_in_eager(body):
    f = function(body)
    pairs = [make for name, make in PAIRS.items() if name not in ("one element", "empty")]
    for order, backend in ((pairs, "braze"), (pairs[::-1], "aten")):
        fast = braze.compile(f, backend=backend, recompile_limit=80)
        assert outcomes(fast, order, grow=True) == outcomes(f, order, grow=True)


def parts(size, start, memory=None):
    def make():
        whole = torch.arange(1.0, 41.0) if memory is None else memory()
        return whole[:size], whole[start : start + size]

    return make


def array_parts(size, start, length=None):
    def make():
        whole = numbers(40)
        return twin(whole[:size]), twin(whole[start : start + (length or size)])

    return make


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize(
    "body",
    [
        "x += 2\nreturn y * 2, x.sum()",
        "x[1:] += 1\nreturn y[:-1] * 2, y",
        "z = y * 2\nx.mul_(3)\nreturn z, y.view(-1)",
    ],
)
@pytest.mark.parametrize(
    "calls",
    [
        [array_parts(n, 0) for n in (5, 4, 6, 7)],
        [array_parts(n, 8) for n in (4, 6, 8, 10, 5, 20)],
        [parts(n, 8) for n in (4, 6, 8, 10, 5, 20)],
        [array_parts(n, 8) for n in (20, 10, 6, 8, 4)],
        [array_parts(n, 0, m) for n, m in ((4, 7), (6, 6), (8, 3), (5, 5))],
        [array_parts(n, 0, 8) for n in (8, 3, 0, 2, 1)],
    ],
    ids=["twins", "grow", "grow in one storage", "shrink", "two sizes", "to nothing"],
)
def test_sizes_decide_what_overlaps(calls, body, dynamic):
    f = function(body)
    fast = braze.compile(f, dynamic=dynamic, recompile_limit=30)
    assert outcomes(fast, calls) == outcomes(f, calls)


PLACES = [
    "v = x.as_strided((2,), (2,))\nv += 1\nreturn v, x * 2",
    "v = x.as_strided((2,), (1,), 1)\nv += 1\nreturn v, x * 2",
    "v = x.as_strided((2,), (1,), 3)\nx += 1\nreturn v, v * 2",
    "v = x[1:].as_strided((2,), (2,))\nx += 1\nreturn v, v * 2",
    "v = x[1:].as_strided((2,), (2,))\nv += 1\nreturn x * 2, v",
    "y = x * 2\nv = y[1:].as_strided((2,), (2,))\nv += 1\ny *= 3\nreturn y, v + x",
    "return x.as_strided((2,), (1,)), x.as_strided((2,), (1,), 1) + x[0]",
]


@pytest.mark.parametrize("backend", ["braze", "aten"])
@pytest.mark.parametrize("body", PLACES)
def test_places_in_a_storage_are_those_of_the_call(body, backend):
    f = function(body)

    def part(start):
        def make():
            return torch.arange(1.0, 21.0)[start : start + 4], None

        return make

    calls = [part(start) for start in (0, 4, 2, 0)]
    assert outcomes(braze.compile(f, backend=backend), calls) == outcomes(f, calls)
    calls = calls[::-1][1:]
    assert outcomes(braze.compile(f, backend=backend), calls) == outcomes(f, calls)


PROGRAMS = {}


def program(make):
    """A function that gives the function, its calls and, perhaps, the state that they leave."""
    PROGRAMS[make.__name__] = make
    return make


def ones(*_):
    return (torch.ones(4),)


@program
def buffers_of_a_module():
    module, memory = nn.Module(), numpy.zeros(4, "float32")
    module.register_buffer("p", twin(memory))
    module.register_buffer("q", twin(memory))

    def f(x):
        module.p += x
        return module.q * 2

    def with_buffer(array):
        module.q = twin(array)
        return ones()

    calls = [ones, ones, lambda: with_buffer(memory.copy()), ones, lambda: with_buffer(memory)]
    return f, calls, lambda: list(module.buffers())


@program
def shifted_buffers():
    module, memory = nn.Module(), numpy.zeros(6, "float32")
    module.register_buffer("p", twin(memory[:4]))
    module.register_buffer("q", twin(memory[2:]))

    def f(x):
        module.p += x
        result = module.q * 2
        module.q.mul_(2)
        return result, module.p + 1

    return f, [ones] * 3, lambda: memory


@program
def a_parameter_and_an_argument():
    module, memory = nn.Linear(4, 4, bias=False), numpy.ones((4, 4), "float32")
    module.weight = nn.Parameter(twin(memory))

    @torch.no_grad()
    def f(x, w):
        w += 1
        return module(x)

    def call(w):
        return lambda: (torch.ones(4), w())

    calls = [
        call(lambda: twin(memory)),
        call(lambda: torch.zeros(4, 4)),
        call(lambda: twin(memory)),
    ]
    return f, calls, lambda: memory


@program
def tied_weights():
    torch.manual_seed(0)
    a, b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)

    @torch.no_grad()
    def f(x):
        a.weight.mul_(2)
        return b(x)

    def tie(weight):
        def call():
            b.weight = weight()
            return (torch.ones(3),)

        return call

    ways = [
        lambda: b.weight,
        lambda: a.weight,
        lambda: nn.Parameter(a.weight.detach()),
        lambda: nn.Parameter(twin(a.weight.detach().numpy())),
        lambda: nn.Parameter(a.weight.detach().clone()),
        lambda: nn.Parameter(twin(a.weight.detach().numpy())),
    ]
    return f, [tie(way) for way in ways], lambda: a.weight.detach()


@program
def deepcopied_modules():
    module, memory = nn.Module(), numpy.zeros(4, "float32")
    module.register_buffer("p", twin(memory))
    module.register_buffer("q", twin(memory))
    other = copy.deepcopy(module)

    def f(m, x):
        m.p += x
        return m.q * 2

    calls = [
        lambda: (module, torch.ones(4)),
        lambda: (other, torch.ones(4)),
        lambda: (module, torch.ones(4)),
        lambda: (copy.deepcopy(module), torch.ones(4)),
    ]
    return f, calls, lambda: [memory, other.p, other.q]


@program
def statistics_of_batch_norm():
    memory, norm = numpy.zeros(3, "float32"), nn.BatchNorm1d(3, affine=False)
    norm.running_mean = twin(memory)

    def f(x, y):
        return norm(x), y * 2

    def call(y):
        return lambda: (twin(numbers(6)).view(2, 3), y())

    calls = [call(lambda: torch.ones(3)), call(lambda: twin(memory)), call(lambda: twin(memory))]
    return f, calls, lambda: [norm.running_mean, norm.running_var]


@program
def one_memory_for_both_statistics():
    memory, norm = numpy.zeros(3, "float32"), nn.BatchNorm1d(3, affine=False)
    norm.running_mean, norm.running_var = twin(memory), twin(memory)
    return norm, [lambda: (twin(numbers(6)).view(2, 3),)] * 3, lambda: memory


@program
def a_closure_and_an_argument():
    memory = numpy.ones(4, "float32")
    kept = twin(memory)

    def f(x):
        x += 1
        return kept * 2

    return f, [ones, lambda: (twin(memory),), lambda: (twin(memory),), ones], lambda: kept


@program
def a_default_and_an_argument():
    memory = numpy.ones(4, "float32")

    def f(x, total=twin(memory)):
        total += x
        return total * 2

    return f, [ones, lambda: (twin(memory),), ones], lambda: memory


@program
def an_attribute_set_by_the_first_call():
    class Cache:
        kept = None

        def f(self, x):
            if self.kept is None:
                self.kept = torch.from_numpy(x.numpy())
            x += 1
            return self.kept * 2

    cache, memory = Cache(), numbers(4)
    calls = [lambda: (twin(memory),)] * 2 + [ones, lambda: (twin(memory),)]
    return cache.f, calls, lambda: cache.kept


@program
def lists_and_dicts():
    def f(tensors, by_name):
        tensors[0] += 1
        by_name["a"].mul_(2)
        return [t * 2 for t in tensors], by_name["b"] + 1

    def shared():
        memory = numbers(4)
        return [twin(memory), twin(memory)], {"a": twin(memory), "b": twin(memory)}

    def apart():
        return [twin(numbers(4)) for _ in "ab"], {k: twin(numbers(4)) for k in "ab"}

    return f, [apart, shared, apart, shared]


@program
def many_tensors():
    def f(tensors):
        for tensor in tensors:
            tensor.mul_(2)
        return sum(tensors)

    def with_twin(at):
        def make():
            memory = numbers(120)
            tensors = [twin(memory[4 * k : 4 * k + 4]) for k in range(30)]
            if at:
                tensors[at] = twin(memory[4:8])
            return (tensors,)

        return make

    return f, [with_twin(at) for at in (0, 2, 15, 0, 29)]


@program
def three_of_which_one_bridges():
    def f(x, y, z):
        total = x * 1 + y.sum()
        z += 1
        return x * 2, y * 3, total

    def shared():
        memory = numbers(8)
        return twin(memory[:4]), twin(memory[4:]), twin(memory)

    return f, [shared, lambda: (torch.ones(4), torch.ones(4), torch.ones(8)), shared]


@program
def the_same_object_and_its_twin():
    def f(x, y, z):
        x += 1
        return y * 2, z * 3

    def shared():
        memory = numbers(4)
        x = twin(memory)
        return x, x, twin(memory)

    return f, [lambda: (torch.ones(4), torch.ones(4), torch.ones(4)), shared, shared]


@program
def errors_of_overlaps_in_one_storage():
    def f(x, y):
        x[:3] += y[:3]
        return x

    def views(second):
        def make():
            whole = torch.arange(8.0)
            return whole[:4], whole[second : second + 4]

        return make

    def twins():
        memory = numbers(8)
        return twin(memory[:4]), twin(memory[:4])

    return f, [views(0), twins, views(1), twins, views(0)]


@program
def rows_of_a_matrix_and_its_transpose():
    def f(x, y):
        x[0, 1] = 50
        return y * 2

    def shared():
        memory = numbers(9).reshape(3, 3)
        return twin(memory), twin(memory.T)

    return f, [shared, shared]


@program
def windows():
    def f(x, w):
        x += 1
        return w.sum(-1)

    def shared():
        memory = numbers(6)
        return twin(memory), twin(numpy.lib.stride_tricks.sliding_window_view(memory, 3))

    return f, [shared, shared]


@program
def fields_of_records():
    def f(x, y):
        x += 1
        return y * 2

    def fields(a, b):
        def make():
            records = numpy.zeros(3, [("a", "f4"), ("b", "f4")])
            return twin(records[a]), twin(records[b])

        return make

    return f, [fields("a", "b"), fields("a", "a"), fields("a", "b")]


@program
def complex_numbers_and_their_parts():
    def f(x, y):
        x += 1
        return y * 2

    def shared():
        memory = numbers(8).reshape(4, 2)
        return twin(memory), twin(memory.view("complex64"))

    return f, [shared, shared]


@program
def a_matrix_product_into_a_twin():
    def f(a, b, out, y):
        torch.mm(a, b, out=out)
        return y @ b

    def matrix():
        return numbers(4).reshape(2, 2)

    def shared():
        memory = matrix()
        return twin(matrix()), twin(matrix()), twin(memory), twin(memory)

    return f, [lambda: tuple(twin(matrix()) for _ in range(4)), shared, shared]


@program
def a_branch_on_data():
    def f(x, y, choice):
        x += 1
        return torch.cond(choice, lambda a: a * 2, lambda a: a + 5, (y,)), y

    def shared(choice):
        def make():
            memory = numbers(4)
            return twin(memory), twin(memory), torch.tensor(choice)

        return make

    def apart():
        return torch.ones(4), torch.ones(4), torch.tensor(True)

    return f, [shared(True), shared(False), apart, shared(True)]


def generator(x, y):
    x += 1
    yield y * 2
    y.mul_(3)
    yield x + 1
    x[0] = 0
    yield y + x


@program
def a_generator_inside():
    def f(x, y):
        return list(generator(x, y))

    return f, [PAIRS[k] for k in ("two memories", "same place", "shifted by 1", "same place")]


@program
def an_optimizer():
    memory = numpy.ones(4, "float32")
    parameter, seen = nn.Parameter(twin(memory)), twin(memory)
    optimizer = torch.optim.SGD([parameter], 0.1)

    def f(x):
        parameter.grad = x.clone()
        optimizer.step()
        return seen * 2

    return f, [ones] * 3, lambda: memory


@program
def a_cache_of_keys_and_values():
    memory = numpy.zeros((2, 8, 2), "float32")
    keys, values = twin(memory[0]), twin(memory[1])

    def f(x, position):
        keys[position] = x
        values[position] = x * 2
        return keys.sum(0), values.sum(0)

    return f, [lambda n=n: (torch.ones(2) * n, n) for n in range(4)], lambda: memory


@program
def arrays_deep_inside_a_module():
    class Table(nn.Module):
        def __init__(self, memory):
            super().__init__()
            self.memory = memory
            self.register_buffer("seen", twin(memory))

        def forward(self, x):
            self.memory += x.numpy()
            return self.seen * 2

    memory = numpy.zeros(4, "float32")
    module = nn.Sequential(nn.ReLU(), Table(memory), nn.Sequential(Table(memory), nn.ReLU()))
    return module, [ones, lambda: (twin(memory),), ones], lambda: memory


@program
def set_between_calls():
    x, y = torch.ones(4), torch.zeros(4)

    def f():
        x.add_(1)
        return y * 2

    def then(change):
        def make():
            change()
            return ()

        return make

    calls = [
        then(lambda: None),
        then(lambda: y.set_(x)),
        then(lambda: y.set_(torch.zeros(4))),
        then(lambda: setattr(y, "data", x)),
        then(lambda: setattr(y, "data", torch.zeros(4))),
    ]
    return f, calls, lambda: [x, y]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, dynamic):
    f, calls, *state = PROGRAMS[name]()
    expected = outcomes(f, calls, *state)
    f, calls, *state = PROGRAMS[name]()
    assert outcomes(braze.compile(f, dynamic=dynamic), calls, *state) == expected


def test_generator_over_twins():
    calls = [PAIRS[k] for k in ("two memories", "same place", "shifted by 1", "same place")]
    fast = braze.compile(generator)
    for make in calls:
        assert [t.tolist() for t in fast(*make())] == [t.tolist() for t in generator(*make())]


def test_nothing_is_guarded_where_nothing_is_written():
    guards = capture(lambda x, y: x + y, torch.ones(3), torch.ones(3))["guards"]
    assert not any("overlap" in guard or "shares memory" in guard for guard in guards), guards


def test_one_guard_for_all_that_may_not_overlap():
    def f(x, y, z):
        x += 1
        return y * z

    guards = capture(f, torch.ones(3), torch.ones(3), torch.ones(3))["guards"]
    assert [g for g in guards if "overlap" in g] == ["x no overlap: from y, z"]
    x, y = PAIRS["same place"]()
    guards = capture(f, x, y, torch.ones(4))["guards"]
    assert "y shares memory x" in guards and "x no overlap: from y, z" in guards


def test_what_lies_apart_is_compiled_once():
    def f(x, y):
        x += 1
        return y * 2

    fast = braze.compile(f)
    for name in ("two memories", "next to it", "further on", "one storage, apart", "two memories"):
        fast(*PAIRS[name]())
    assert len(fast._entries()) == 1


def test_results_kept_as_arrays_only():
    fast = braze.compile(lambda x: (x + 1, (x * 2).view(2, 2)))
    kept = []
    for n in range(20):
        a, b = fast(torch.full((4,), float(n)))
        kept.append((a.numpy(), numpy.from_dlpack(b), b[1:].untyped_storage()))
    for n, (a, b, storage) in enumerate(kept):
        assert a.tolist() == [n + 1.0] * 4 and b.tolist() == [[n * 2.0] * 2] * 2
        assert torch.empty(0).set_(storage).tolist() == [n * 2.0] * 4
