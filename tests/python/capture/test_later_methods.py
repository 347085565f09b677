"""What a class lacks is relied on as well: special methods that are added, replaced or deleted after
the first call, in the classes of objects that native code looks at, their bases and metaclasses."""

import copy
import functools
import operator
import os

import braze
import pytest
import torch


def attempt(use):
    try:
        return use()
    except (TypeError, AttributeError) as error:
        return type(error).__name__


# A special method, what it does, and an expression that native code decides by it.
USES = [
    ("__repr__", lambda self: "named", lambda k: len(repr([k])) > 10),
    ("__str__", lambda self: "named", lambda k: len("%s" % k) > 10),
    ("__format__", lambda self, spec: "named", lambda k: len(format(k)) > 10),
    ("__len__", lambda self: 0, bool),
    ("__bool__", lambda self: False, lambda k: (not k, any([k]), list(filter(None, [k])) == [])),
    ("__eq__", lambda self, other: True, lambda k: (k == 3, 3 in [k], [k] == [3], [3].count(k))),
    ("__ne__", lambda self, other: False, lambda k: k != 3),
    ("__lt__", lambda self, other: self.v < other, lambda k: attempt(lambda: k < 3)),
    ("__gt__", lambda self, other: True, lambda k: attempt(lambda: max(1, k) == 1)),
    ("__hash__", lambda self: 3, lambda k: hash(k) == 3),
    ("__contains__", lambda self, item: True, lambda k: attempt(lambda: 3 in k)),
    ("__iter__", lambda self: iter([3]), lambda k: attempt(lambda: (list(k), 3 in k))),
    ("__getitem__", lambda self, i: [1, 2][i], lambda k: attempt(lambda: list(k))),
    ("__reversed__", lambda self: iter([4]), lambda k: attempt(lambda: list(reversed(k)))),
    ("__length_hint__", lambda self: 4, operator.length_hint),
    ("__add__", lambda self, other: 7, lambda k: attempt(lambda: k + 1)),
    ("__radd__", lambda self, other: 7, lambda k: attempt(lambda: (1 + k, sum([k])))),
    ("__matmul__", lambda self, other: 7, lambda k: attempt(lambda: k @ k)),
    ("__neg__", lambda self: 7, lambda k: attempt(lambda: -k)),
    ("__abs__", lambda self: 7, lambda k: attempt(lambda: abs(k))),
    ("__round__", lambda self, n=None: 7, lambda k: attempt(lambda: round(k))),
    ("__index__", lambda self: 1, lambda k: attempt(lambda: ([5, 6][k], list(range(k))))),
    ("__int__", lambda self: 1, lambda k: attempt(lambda: int(k))),
    ("__float__", lambda self: 1.5, lambda k: attempt(lambda: float(k))),
    ("__complex__", lambda self: 1j, lambda k: attempt(lambda: complex(k))),
    (
        "__call__",
        lambda self, i: i + 5,
        lambda k: (callable(k), attempt(lambda: list(map(k, [1])))),
    ),
    ("__getattr__", lambda self, name: 4, lambda k: (getattr(k, "z", 3), hasattr(k, "z"))),
    ("__getattribute__", lambda self, name: 4, lambda k: k.v),
    ("__fspath__", lambda self: "path", lambda k: attempt(lambda: os.fspath(k))),
    ("__copy__", lambda self: 4, lambda k: type(copy.copy(k)).__name__),
    ("__class_getitem__", classmethod(lambda cls, i: 4), lambda k: attempt(lambda: type(k)[1])),
    ("__get__", lambda self, o, t: 4, lambda k: type(type("Made", (), {"k": k})().k).__name__),
]


def make_class(metaclass=type):
    class Kind(metaclass=metaclass):
        def __init__(self, v=2):
            self.v = v

    return Kind


def same_over_changes(fn, make, change, undo=None):
    """Two equal worlds, one for the compiled function: changed before call 2, put back before 3."""
    fast, ours, theirs = braze.compile(fn), make(), make()
    for step in range(4):
        for given in (ours, theirs):
            if step == 2:
                change(given)
            elif step == 3 and undo:
                undo(given)
        x = torch.full((2,), float(step))
        assert repr(fast(x, ours)) == repr(fn(x, theirs)), f"step {step}"


@pytest.mark.parametrize("made", [True, False], ids=["made in the trace", "from outside"])
@pytest.mark.parametrize("name, method, use", USES, ids=[use[0] for use in USES])
def test_methods_that_come_later(name, method, use, made):
    def make():
        cls = make_class()
        return (cls, cls())

    def fn(x, given):
        return x + 1, use(given[0]() if made else given[1])

    same_over_changes(
        fn, make, lambda given: setattr(given[0], name, method), lambda g: delattr(g[0], name)
    )


@pytest.mark.parametrize("name, method, use", USES, ids=[use[0] for use in USES])
def test_methods_that_a_base_gets(name, method, use):
    def fn(x, base):
        class Made(base):
            pass

        return x + 1, use(Made())

    same_over_changes(
        fn, make_class, lambda cls: setattr(cls, name, method), lambda cls: delattr(cls, name)
    )


def test_finaliser_that_comes_later():
    gone = []

    def fn(x, cls):
        cls()
        return x + 1

    fast, cls = braze.compile(fn), make_class()
    for step in range(4):
        if step == 2:
            cls.__del__ = lambda self: gone.append(self.v)
        fast(torch.ones(2), cls)
    assert gone == [2, 2]


META = [
    ("__instancecheck__", lambda cls, o: True, lambda cls: isinstance(3, cls)),
    ("__subclasscheck__", lambda cls, o: True, lambda cls: issubclass(int, cls)),
    ("__eq__", lambda cls, other: True, lambda cls: (cls == 3, 3 in [cls])),
    ("__add__", lambda cls, other: 5, lambda cls: attempt(lambda: cls + 1)),
    ("__repr__", lambda cls: "named", lambda cls: repr(cls) == "named"),
    ("__call__", lambda cls: 5, lambda cls: isinstance(cls(), cls)),
    ("__iter__", lambda cls: iter([1]), lambda cls: attempt(lambda: list(cls))),
    ("__len__", lambda cls: 0, lambda cls: (bool(cls), attempt(lambda: len(cls)))),
]


@pytest.mark.parametrize("name, method, use", META, ids=[use[0] for use in META])
def test_methods_that_a_metaclass_gets(name, method, use):
    def make():
        class Meta(type):
            __hash__ = type.__hash__

        return make_class(Meta)

    same_over_changes(
        lambda x, cls: (x + 1, use(cls)),
        make,
        lambda cls: setattr(type(cls), name, method),
        lambda cls: delattr(type(cls), name),
    )


class Kept:
    def __init__(self):
        self.state = 1

    def __get__(self, instance, owner=None):
        return self.state


def make_base():
    class Base:
        kept = Kept()
        number = 1

        def method(self, by=1):
            return by

        @property
        def computed(self):
            return 1

    return Base


BASE_CHANGES = {
    "state of a descriptor": lambda cls: setattr(vars(cls)["kept"], "state", 5),
    "descriptor": lambda cls: setattr(cls, "kept", 7),
    "descriptor's class": lambda cls: setattr(vars(cls)["kept"], "__class__", make_class()),
    "attribute": lambda cls: setattr(cls, "number", 5),
    "method": lambda cls: setattr(cls, "method", lambda self: 8),
    "default": lambda cls: setattr(cls.method, "__defaults__", (8,)),
    "property": lambda cls: setattr(cls, "computed", property(lambda self: 8)),
    "absent": lambda cls: setattr(cls, "added", 9),
    "initialiser": lambda cls: setattr(cls, "__init__", lambda self: setattr(self, "number", 3)),
    "subclass hook": lambda cls: setattr(
        cls, "__init_subclass__", classmethod(lambda made: setattr(made, "number", 4))
    ),
}


@pytest.mark.parametrize("several", [False, True], ids=["one base", "two bases"])
@pytest.mark.parametrize("change", BASE_CHANGES.values(), ids=BASE_CHANGES)
def test_what_a_class_of_the_trace_inherits(change, several):
    class Other:
        pass

    def fn(x, base):
        bases = (Other, base) if several else (base,)

        class Made(*bases):
            pass

        made = Made()
        kept = made.kept if isinstance(made.kept, int) else type(made.kept).__name__
        found = made.number, made.method(), made.computed, getattr(made, "added", 0)
        return x + 1, kept, found, Made.number

    same_over_changes(fn, make_base, change)


def test_what_a_base_that_comes_first_gets():
    def make():
        return type("First", (), {}), make_base()

    def fn(x, bases):
        class Made(*bases):
            pass

        return x + Made().method()

    def change(bases):
        bases[0].method = lambda self: 8

    same_over_changes(fn, make, change, lambda bases: delattr(bases[0], "method"))


def test_names_of_classes():
    def change(cls):
        cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__ = "A", "B", "C", "D"

    def fn(x, cls):
        return x + 1, cls.__name__, cls.__qualname__, cls.__module__, cls().__doc__

    same_over_changes(fn, make_class, change)


def test_classes_that_are_registered():
    import abc

    def make():
        return abc.ABCMeta("Abstract", (), {}), make_class()

    def fn(x, given):
        abstract, cls = given
        match cls():
            case abstract():
                matched = 1
            case _:
                matched = 2
        return x + matched, isinstance(cls(), (int, abstract)), issubclass(cls, abstract)

    same_over_changes(fn, make, lambda given: given[0].register(given[1]))


def test_defaults_of_functions_that_native_code_calls():
    def make():
        def key(q, sign=1, *, by=0):
            return sign * q + by

        return key

    def fn(x, key):
        return x + 1, sorted([1, 2, 3], key=key), list(map(key, [1, 2])), functools.reduce(key, [1])

    def change(key):
        key.__defaults__, key.__kwdefaults__ = (-1,), {"by": 10}

    same_over_changes(fn, make, change)
