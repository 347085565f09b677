"""Attributes of classes whose metaclass has a say in them; values that leave a trace twice."""

import functools

import braze
import pytest
import torch


class Fallback(type):
    suffix = "!"

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return name + cls.suffix


class InstancesOnly:
    """Raises when it is read from the class, like types.DynamicClassAttribute."""

    def __get__(self, instance, owner=None):
        if instance is None:
            raise AttributeError
        return 5


class Base(metaclass=Fallback):
    member = InstancesOnly()


class Sees(type):
    def __getattribute__(cls, name):
        return 7 if name == "seven" else super().__getattribute__(name)

    def __getattr__(cls, name):
        return "missing " + name


class Seen(metaclass=Sees):
    known = 3


def descriptor_raises():
    return Base.member, getattr(Base, "member", 0), hasattr(Base, "member"), Base().member


def nothing_found():
    return Base.absent, getattr(Base, "absent", 0), hasattr(Base, "_absent"), Base.suffix


def made_inside():
    class Derived(Base):
        pass

    return Derived.member, Derived().member, Derived.absent


def looked_up_by_python():
    return Seen.seven, Seen.known, Seen.absent, Seen.__name__, hasattr(Seen, "more")


def made_inside_and_looked_up_by_python():
    class Derived(Seen):
        pass

    return Derived.seven, Derived.known, Derived.absent


@pytest.mark.parametrize(
    "function",
    [
        descriptor_raises,
        nothing_found,
        made_inside,
        looked_up_by_python,
        made_inside_and_looked_up_by_python,
    ],
)
def test_attributes_of_classes(function):
    compiled = braze.compile(function, fullgraph=True)
    assert [compiled() for _ in range(3)] == [function()] * 3


def test_a_changed_metaclass_is_noticed(monkeypatch):
    compiled = braze.compile(descriptor_raises)
    assert compiled() == descriptor_raises()
    monkeypatch.setattr(Fallback, "suffix", "?")
    assert compiled() == descriptor_raises()
    monkeypatch.setattr(Base, "member", 4)
    assert compiled() == descriptor_raises()


def test_a_descriptor_that_is_read_from_the_class_is_evaluated(monkeypatch):
    class Counted:
        level = 1

        def __get__(self, instance, owner=None):
            return self.level

    class Holder:
        value = Counted()

    def function(x):
        return x * Holder.value

    compiled = braze.compile(function, fullgraph=True)
    x = torch.ones(3)
    assert compiled(x).tolist() == function(x).tolist()
    monkeypatch.setattr(Counted, "level", 2)
    assert compiled(x).tolist() == function(x).tolist() == [2.0] * 3


def test_what_leaves_twice_is_one_object():
    def function(x):
        partial = functools.partial(max, x.shape[0])
        frozen = frozenset([1, (2, x.shape[0])])
        part = slice(x.shape[0], None)
        return x + 1, partial, partial, frozen, [frozen], part, (part,)

    compiled = braze.compile(function)
    for size in (3, 3, 5):
        _, partial, same, frozen, [equal], part, (again,) = compiled(torch.ones(size))
        assert partial is same and frozen is equal and part is again
        assert partial(0) == size and frozen == {1, (2, size)} and part == slice(size, None)


@pytest.mark.parametrize("where", ["function", "arguments", "keywords"])
def test_a_partial_that_holds_itself(where):
    def function():
        partial = functools.partial(print)
        held = {"function": (partial, (), {}, {})}
        held["arguments"] = (print, (partial,), {}, {})
        held["keywords"] = (print, (), {"a": partial}, {})
        partial.__setstate__(held[where])
        try:
            return repr(partial)[:20]
        finally:
            partial.__setstate__((print, (), {}, {}))

    compiled = braze.compile(function)
    assert [compiled() for _ in range(3)] == [function()] * 3
