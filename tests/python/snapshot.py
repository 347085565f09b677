"""What a program can see of a set of objects, as plain data that can be compared.

Sharing is part of it: the second time that an object is met it is a reference to the first, and
tensors that share memory share a storage number.
"""

import collections
import functools
import itertools
import logging
import math
import re
import types
import weakref

import numpy
import torch

ATOMS = (int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented))
VALUES = (torch.dtype, torch.device, torch.layout, torch.memory_format, range, slice)
ITERATORS = tuple(
    type(iter(x)) for x in ([], (), {}, set(), "", b"", range(0), {}.items(), {}.values(), [0])
) + (enumerate, zip, map, filter, reversed, itertools.count, itertools.cycle, itertools.chain)


class Snapshot:
    """A tree of tuples in `tree`; the tensors in it are numbers into `tensors`.

    `exact`: also the strides of dimensions of size 1.
    """

    def __init__(self, value, module, exact=False):
        self.module = module
        self.exact = exact
        self.tensors = []
        self.seen = {}
        self.storages = {}
        self.kept = []
        self.tree = self.visit(value)

    def visit(self, o):
        kind = type(o)
        if kind in ATOMS:
            if kind is float and math.isnan(o):
                return "nan"
            if kind is str:  # a stack of C++ names its callers, and where they lie in memory
                o = o.split("\nException raised from ")[0]
            return (kind.__name__, o)
        if isinstance(o, VALUES):
            return repr(o)
        if isinstance(o, types.ModuleType):
            return ("module", o.__name__)
        if id(o) in self.seen and not isinstance(o, tuple):
            return ("same as", self.seen[id(o)])
        self.seen[id(o)] = len(self.kept)  # one more for a tuple that is met again
        self.kept.append(o)
        return self.contents(o)

    def name(self, cls):
        return f"{cls.__module__}.{cls.__qualname__}"

    def items(self, values):
        return [self.visit(v) for v in values]

    def contents(self, o):
        kind = self.name(type(o))
        if isinstance(o, torch.Tensor):
            return (kind, *self.tensor(o))
        if isinstance(o, torch.Generator):
            return (kind, self.visit(o.get_state()))
        if isinstance(o, numpy.ndarray):
            return (kind, self.visit(torch.from_numpy(o)))
        if isinstance(o, type):
            return self.a_class(o)
        if isinstance(o, types.FunctionType):
            return self.function(o)
        if isinstance(o, types.MethodType):
            return ("method", self.visit(o.__func__), self.visit(o.__self__))
        if isinstance(o, types.CellType):
            return ("cell", self.items([o.cell_contents] if o != types.CellType() else []))
        if isinstance(o, types.GeneratorType):
            frame = o.gi_frame
            return ("generator", o.__name__, frame and (frame.f_lineno, self.visit(frame.f_locals)))
        if isinstance(o, BaseException):
            return self.exception(o)
        if isinstance(o, functools.partial):
            return (kind, self.visit(o.func), self.visit(o.args), self.visit(o.keywords))
        if isinstance(o, weakref.ref):
            return (kind, self.visit(o()))
        if isinstance(o, property | staticmethod | classmethod):
            parts = [getattr(o, n, None) for n in ("fget", "fset", "fdel", "__func__")]
            return (kind, self.items(parts))
        if isinstance(o, ITERATORS):
            return (kind, repr(o) if isinstance(o, itertools.count) else self.visit(o.__reduce__()))
        if (
            type(o).__module__ in ("torch", "torch._C", "_abc", "_thread")
            or kind == "_random.Random"
        ):
            return kind
        if isinstance(o, logging.Logger):
            return (kind, o.name, o.level)
        if isinstance(o, types.BuiltinFunctionType):
            return (kind, o.__name__)
        return (kind, *self.container(o), *self.attributes(o))

    def container(self, o):
        if isinstance(o, collections.OrderedDict):
            pairs = list(collections.OrderedDict.items(o))
        elif isinstance(o, dict):
            pairs = list(dict.items(o))
        elif isinstance(o, list | tuple):
            return ("items", self.items((list if isinstance(o, list) else tuple).__iter__(o)))
        elif isinstance(o, set | frozenset):
            return ("set", sorted(map(repr, self.items(self.members(o)))))
        elif isinstance(o, collections.deque):
            return ("deque", o.maxlen, self.items(o))
        elif isinstance(o, bytearray):
            return ("bytes", bytes(o))
        else:
            return ()
        extra = self.visit(o.default_factory) if isinstance(o, collections.defaultdict) else None
        return ("dict", extra, [(self.visit(k), self.visit(v)) for k, v in pairs])

    def members(self, o):
        """The members of a set, tensors by what they are: by their hash they are where they lie."""

        def key(member):
            if not isinstance(member, torch.Tensor) or member.layout != torch.strided:
                return ""
            return repr((member.dtype, member.shape, member.stride(), member.storage_offset()))

        return sorted(o, key=key)

    def attributes(self, o):
        found = []
        if isinstance(getattr(o, "__dict__", None), dict):
            found.append([(k, self.visit(v)) for k, v in vars(o).items()])
        for cls in type(o).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if slot not in ("__dict__", "__weakref__"):
                    descriptor = cls.__dict__.get(slot)
                    try:
                        value = (slot, self.visit(descriptor.__get__(o)))
                    except AttributeError:
                        value = (slot,)
                    found.append(value)
        return found

    def tensor(self, t):
        index = len(self.tensors)
        self.tensors.append(t)
        facts = [index, str(t.dtype), str(t.layout), tuple(t.shape), t.requires_grad, t.is_leaf]
        if t.layout == torch.strided:
            counts = [i for i in range(t.dim()) if t.size(i) > 1 or self.exact] if t.numel() else []
            facts.append([t.stride(i) for i in counts])
            storage = t.untyped_storage()
            if storage.nbytes():
                number = self.storages.setdefault(storage.data_ptr(), len(self.storages))
                facts.append((number, t.storage_offset()))
        facts.append(self.visit(t.grad) if t.is_leaf else None)
        facts.append(self.visit(t.__dict__))
        return facts

    def a_class(self, cls):
        if cls.__module__ != self.module:
            return ("class", self.name(cls))
        ignored = ("__dict__", "__weakref__", "__doc__", "__static_attributes__", "_abc_impl")
        ignored += ("__slotnames__",)  # a cache of copyreg
        return (
            "class",
            self.name(cls),
            self.items(cls.__bases__),
            [(k, self.visit(v)) for k, v in vars(cls).items() if k not in ignored],
        )

    def function(self, f):
        if f.__module__ != self.module:
            return ("function", f.__module__, f.__qualname__)
        cells = [c.cell_contents for c in f.__closure__ or () if c != types.CellType()]
        parts = (f.__defaults__, f.__kwdefaults__, f.__dict__)
        return ("function", f.__qualname__, self.items(cells), self.items(parts))

    def exception(self, e):
        return (
            self.name(type(e)),
            self.visit(e.args),
            str(e),
            self.visit(e.__cause__),
            self.visit(e.__context__),
            e.__suppress_context__,
            self.attributes(e),
        )


FRACTION = re.compile(r"(-?\d+\.\d*(?:e[+-]?\d+)?)")


def same_text(a, b):
    """Whether texts differ in the last digits of fractions alone, as printed results do."""
    a, b = FRACTION.split(a), FRACTION.split(b)
    if a[::2] != b[::2]:
        return False
    return all(
        math.isclose(float(x), float(y), rel_tol=1e-5, abs_tol=1e-6)
        for x, y in zip(a[1::2], b[1::2])
    )


def difference(a, b, path=""):
    """Where two trees differ, as text; None where they are equal."""
    if isinstance(a, list | tuple) and type(a) is type(b):
        if len(a) != len(b):
            return f"{path}: {a!r}\n  is not\n{b!r}"
        for i, (x, y) in enumerate(zip(a, b)):
            found = difference(x, y, f"{path}.{i}")
            if found:
                return found
        return None
    if a == b or (isinstance(a, float) and math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-5)):
        return None
    if isinstance(a, str) and isinstance(b, str) and same_text(a, b):
        return None
    return f"{path}: {a!r}\n  is not\n{b!r}"


def assert_equal(actual, expected):
    found = difference(actual.tree, expected.tree)
    assert found is None, found
    for a, b in zip(actual.tensors, expected.tensors):
        a, b = (t.detach().to_dense() if t.layout != torch.strided else t.detach() for t in (a, b))
        # Where terms cancel, what is left has the rounding of the terms.
        size = (
            b.abs().nan_to_num(0, 0, 0).max().item() if b.numel() and b.is_floating_point() else 1
        )
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6 * max(1, size), equal_nan=True)
