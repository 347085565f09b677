"""Classes of objects that a function makes: what native code finds in them is guarded."""

import braze
import pytest
import torch


def make_class():
    class Kind:
        def __init__(self, value=2):
            self.value = value

        def __getitem__(self, index):
            return self.value + index

        def __len__(self):
            return 4

        def __add__(self, other):
            return self.value + other

        __radd__ = __add__

        def __eq__(self, other):
            return self.value == other

        def __lt__(self, other):
            return self.value < other.value

        def __bool__(self):
            return True

        def __call__(self, other):
            return other + self.value

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)

    return Kind


# What is replaced in the class, by what, and an expression that uses it.
USES = [
    ("__getitem__", lambda self, index: 100, lambda k: k[1]),
    ("__len__", lambda self: 9, len),
    ("__add__", lambda self, other: 50, lambda k: k + 1),
    ("__radd__", lambda self, other: 50, lambda k: 1 + k),
    ("__eq__", lambda self, other: False, lambda k: (k == 2, k in [2])),
    ("__lt__", lambda self, other: self.value > other.value, lambda k: k < type(k)(1)),
    ("__bool__", lambda self: False, lambda k: 1 if k else 2),
    ("__call__", lambda self, other: 99, lambda k: list(map(k, [1]))),
    ("__setattr__", lambda self, name, value: None, lambda k: setattr(k, "a", 1) or vars(k)),
    ("value", property(lambda self: 88, lambda self, value: None), lambda k: k.value),
]


@pytest.mark.parametrize("name, replacement, use", USES, ids=[use[0] for use in USES])
def test_methods_that_are_replaced(name, replacement, use):
    def fn(x, cls):
        return x + 1, use(cls())

    def outcome(call, cls):
        try:
            return repr(call(torch.ones(2), cls))
        except (TypeError, AttributeError) as error:
            return type(error)

    fast, ours, theirs = braze.compile(fn), make_class(), make_class()
    for step in range(4):
        for cls in (ours, theirs):
            if step % 2 == 1:
                setattr(cls, name, replacement)
            elif step == 2:
                delattr(cls, name)
        assert outcome(fast, ours) == outcome(fn, theirs), f"step {step}"


class Field:
    def __init__(self):
        self.factor = 1

    def __get__(self, instance, owner=None):
        return instance.kept * self.factor

    def __set__(self, instance, value):
        instance.kept = value * self.factor

    def __delete__(self, instance):
        instance.kept = self.factor


class HasField:
    field = Field()

    def __init__(self):
        self.kept = 1


def read(given, made):
    return given.field, made.field


def write(given, made):
    given.field = 3
    made.field = 5
    return given.kept, made.kept


def delete(given, made):
    del given.field
    del made.field
    return given.kept, made.kept


@pytest.mark.parametrize("use", [read, write, delete])
def test_what_a_descriptor_keeps(use):
    def fn(x, given):
        return x + 1, use(given, HasField())

    fast = braze.compile(fn)
    descriptor = vars(HasField)["field"]
    for factor in (1, 2, 3):
        descriptor.factor = factor
        assert repr(fast(torch.ones(2), HasField())) == repr(fn(torch.ones(2), HasField()))


class Ordered(type):
    def mro(cls):
        return [cls, *super().mro()[1:]]


def test_a_class_whose_order_is_being_found():
    def fn(x):
        made = Ordered("made", (), {"by": 2})
        return x * made.by, made.__mro__[1:]

    fast, x = braze.compile(fn), torch.ones(2)
    for _ in range(3):
        assert repr(fast(x)) == repr(fn(x))
