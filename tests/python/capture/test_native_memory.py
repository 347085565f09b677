"""Memory that native code hands out: arrays, buffers, storages and classes derived from them. What
is read of it is read on every call."""

import array
import copy
import ctypes
import functools
import operator
import struct

import braze
import numpy
import pytest
import torch
from sharing import numbers, outcomes, twin

MODULES = (copy, ctypes, functools, numpy, operator, struct, torch)
SCOPE = {module.__name__: module for module in MODULES} | {"twin": twin}
pytestmark = pytest.mark.filterwarnings("ignore")


class Array(numpy.ndarray):
    pass


class Bytes(bytearray):
    pass


class Numbers(array.array):
    pass


KINDS = {
    "ndarray": lambda: numbers(4),
    "class of ndarray": lambda: numbers(4).view(Array),
    "bytearray": lambda: bytearray(b"\1\2\3\4"),
    "class of bytearray": lambda: Bytes(b"\1\2\3\4"),
    "array": lambda: array.array("f", [1, 2, 3, 4]),
    "class of array": lambda: Numbers("f", [1, 2, 3, 4]),
    "ctypes": lambda: (ctypes.c_float * 4)(1, 2, 3, 4),
    "memoryview": lambda: memoryview(bytearray(4)),
    "storage": lambda: torch.zeros(4, dtype=torch.uint8).untyped_storage(),
}
READS = [
    "float(m[0])",
    "float(m[:2][0])",
    "float(list(m)[0])",
    "float(sum(m))",
    "float(max(m))",
    "float(tuple(m)[0])",
    "float(sorted(m)[-1])",
    "[a for a, b in zip(m, m)][0]",
    "[b for a, b in enumerate(m)][0]",
    "list(map(float, m))[0]",
    "bytes(m)[3]",
    "str(list(m))",
    "float(m[0]) in m",
    "m == copy.copy(m)",
    "len(m)",
    "[*m][1:]",
    "next(iter(m))",
    "torch.tensor(m)",
    "torch.tensor([m[0], m[1]])",
    "torch.as_tensor([m, m])",
    "torch.tensor([[float(m[0])]])",
    "torch.full((2,), float(m[0]))",
    "x.new_tensor(m)",
    "x + m[0]",
    "x * m",
    "x[:1] * max(m[0], m[1])",
    "torch.where(x > 0, x, float(m[0]))",
    "any(m)",
    "list(reversed(m))",
    "memoryview(m)[0]",
    "copy.copy(m)[0]",
    "copy.deepcopy(m)[0]",
    "{'a': m}['a'][0]",
    "operator.getitem(m, 0)",
    "operator.itemgetter(0)(m)",
    "m.__getitem__(0)",
    "m.tolist()",
    "functools.reduce(lambda a, b: a + float(b), m, 0.0)",
    "struct.unpack_from('B', m)",
    "f'{[m]}'[-9:]",
    "(x, m) == (x, copy.copy(m))",
    "[m, 1].count(m)",
    "max([m[0]], [m[1]])",
    "sorted([m[1], m[0]])",
    "sum({'a': m[0]}.values())",
    "list(map(float, (m[0], m[1])))",
    "dict(a=m)['a'][0]",
    "list({'a': m}.values())[0][0]",
    "torch.utils._pytree.tree_leaves({'a': m})[0][0]",
    "torch.frombuffer(m, dtype=torch.uint8)[0]",
    "m.T[0] if hasattr(m, 'T') else 0",
    "m.flat[0] if hasattr(m, 'flat') else 0",
]


@pytest.mark.parametrize("kind", KINDS)
def test_reads_are_of_this_call(kind):
    memory = KINDS[kind]()

    def call(first):
        def make():
            memory[0], memory[3] = first, first + 1
            return (torch.ones(4),)

        return make

    calls = [call(first) for first in (1, 2, 5)]
    scope = dict(SCOPE, m=memory)
    wrong = []
    for read in READS:
        exec(f"def f(x): return x + 1, {read}", scope)
        if outcomes(braze.compile(scope["f"]), calls) != outcomes(scope["f"], calls):
            wrong.append(read)
    assert not wrong


def test_arrays_are_handed_on():
    """What is only moved about is not looked into."""

    def f(batch):
        leaves, spec = torch.utils._pytree.tree_flatten(batch)
        again = torch.utils._pytree.tree_unflatten(leaves, spec)
        first = sorted(batch.items(), key=lambda item: item[0])[0][1]
        doubled = {k: v * 2 if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
        kept = [v for v in map(lambda v: v, batch.values())]
        return again["x"] + len(kept), doubled, first is batch["a"], dict(batch), list(kept)

    batch = {"a": numpy.ones(2), "x": torch.ones(2)}
    fast = braze.compile(f, fullgraph=True)
    assert outcomes(fast, [lambda: (batch,)] * 2) == outcomes(f, [lambda: (batch,)] * 2)


SCALARS = [
    "x[n]",
    "x[(n, ...)]",
    "x[:n]",
    "x.view(-1)[n:]",
    "torch.zeros(n)",
    "torch.zeros((n, 2))",
    "x.expand(n, 4)",
    "x.clone().fill_(n)",
    "x * n",
    "torch.full((2,), n)",
    "x.clone().index_fill_(0, torch.tensor([0]), n)",
    "torch.tensor([n, 1])",
    "x.roll(n)",
    "x.view(2, 2)[0, :n]",
    "x[slice(n)]",
    "[5, 6, 7, 8][n]",
    "[5, 6, 7, 8][:n]",
    "(5, 6, 7, 8)[n]",
    "'abcd'[n:]",
    "[0] * n",
    "range(n)[-1]",
    "x.new_full((1,), n)",
    "put(x.clone(), n)",
]


def put(x, n):
    x[1] = n
    x[n] = 7
    items = [1, 2, 3, 4]
    items[n] = 9
    del items[:n]
    return x, items


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value

    def __float__(self):
        return float(self.value)


@pytest.mark.parametrize("make", [numpy.int64, numpy.array, numpy.float32, Index])
def test_numbers_of_native_types(make):
    scope = dict(SCOPE, put=put)
    wrong = []
    for expression in SCALARS:
        exec(f"def f(x): return {expression}", scope)

        def call(value, scope=scope):
            def number():
                scope["n"] = make(value)
                return (torch.arange(4.0),)

            return number

        calls = [call(value) for value in (1, 2, 3)]
        if outcomes(braze.compile(scope["f"]), calls) != outcomes(scope["f"], calls):
            wrong.append(expression)
    assert not wrong


PROGRAMS = {
    "numpy and back": "a = x.numpy(); a[0] = 9; y = torch.from_numpy(a); y[1] = 8\n"
    "return x + 1, torch.from_numpy(a)",
    "writes on both sides": "x.mul_(2); a = x.numpy(); b = a.copy(); x.add_(1); c = a + 1; a += 5\n"
    "return x * 2, b, c",
    "array of a result": "y = x * 2; a = y.numpy(); a[1] = 7; z = y + 1; y += 1\nreturn z, a, y",
    "asarray": "a = numpy.asarray(x); a *= 3; z = x + 1; x[0] = -1\nreturn z, a.sum(), x",
    "__array__": "a = x.__array__(); a[0] = 5\nreturn x * 2, a",
    "as_tensor": "y = torch.as_tensor(k); z = torch.asarray(k); w = torch.tensor(k); y += x\n"
    "return z * 2, w, k",
    "frombuffer": "b = bytearray(x.numpy()); y = torch.frombuffer(b, dtype=torch.float32)\n"
    "z = x + y; b[:4] = bytes(4)\nreturn z, y * 2",
    "from_dlpack": "y = torch.from_dlpack(x); y[0] = 50\nreturn x + 1, y",
    "to_dlpack": "x += 1; dl = torch.utils.dlpack; y = dl.from_dlpack(dl.to_dlpack(x)); y *= 2\n"
    "return x + 1",
    "NumPy's from_dlpack": "x += 1; a = numpy.from_dlpack(x); x += 1\nreturn a.tolist(), x * 2",
    "untyped_storage": "s = x.untyped_storage(); x += 1; s.fill_(0); y = x + 1; s[3] = 64\n"
    "return y, x * 2, s.nbytes()",
    "set_": "y = torch.empty(0); y.set_(x); y += 1; z = x * 2; x += 1\nreturn z, y",
    "set_ to a storage": "y = torch.empty(0); y.set_(x.untyped_storage(), 1, (2,), (1,)); y += 1\n"
    "return x * 2, y",
    "Tensor of a storage": "y = torch.Tensor(x.storage()); y += 1\nreturn x * 2, y",
    "data": "d = x.data; d += 1; e = x.detach(); e *= 2\nreturn x + 1, d[:2]",
    "data is set": "y = torch.zeros(4); x.data = y; x += 1\nreturn y * 2, x",
    "data is set to a twin": "y = x.clone(); x.data = torch.from_numpy(y.numpy()); y += 1\nreturn x * 2",
    "out of NumPy": "numpy.add(x.numpy(), 1, out=x.numpy())\nreturn x + 1",
    "NumPy's functions": "x += 1; y = numpy.sin(x); x += 1\nreturn y, numpy.sum(x.numpy()), x",
    "NumPy sorts": "a = x.numpy(); y = x * 1; a[::-1].sort(); x += 1\nreturn y, x * 2",
    "a transposed array": "a = x.view(2, 2).numpy().T; x += 1; b = torch.from_numpy(a); b[0] = 0\n"
    "return x * 2, b",
    "an array that stays": "k[0] += 1; y = x + float(k[0])\nreturn y, torch.from_numpy(k) * 2",
    "a twin of an array that stays": "y = twin(k); y += x\nreturn k.sum().item(), x + k[0], y",
    "arrays in a list": "y = torch.stack([torch.from_numpy(k), x]); k[1] = 3\nreturn y, [k, x][0][1]",
    "a memoryview": "m = memoryview(x.numpy()); x += 1; v = m[0]; m[1] = 40.0\nreturn v, x * 2",
    "memset": "x += 1; ctypes.memset(x.data_ptr(), 0, 4)\nreturn x * 2",
    "shared memory": "x += 1; x.share_memory_(); x += 1\nreturn x * 2, x.is_shared()",
    "arrays kept in a loop": "kept = []\nfor i in range(3):\n    y = x + i; kept.append(y.numpy()); y += 1\n"
    "    kept.append(y)\nkept[0][0] = 50\nreturn kept",
    "a copied array": "a = copy.deepcopy(k); k[0] = 5; b = twin(a) + x\nreturn b, a, k",
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, dynamic):
    def outcome(compiled):
        kept = numpy.zeros(4, "float32")
        scope = dict(SCOPE, k=kept)
        lines = PROGRAMS[name].splitlines()
        exec("def f(x):\n" + "".join(f"    {line}\n" for line in lines), scope)
        f = braze.compile(scope["f"], dynamic=dynamic) if compiled else scope["f"]
        calls = [lambda: (torch.ones(4),), lambda: (twin(numbers(4)),), lambda: (twin(kept),)]
        return outcomes(f, calls, lambda: kept, grow=True)

    assert outcome(True) == outcome(False)
