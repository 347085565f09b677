"""Programs over memory that tensors share without PyTorch's knowledge."""

import copy

import numpy
import torch
from sharing import PAIRS, numbers, twin
from torch import nn

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
        return norm(x).round(), y * 2  # to a bit, as the statistics are

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
