"""Classes: inheritance, properties, descriptors, how instances are made."""

import collections
import functools

import torch
from running import case


class Base:
    scale = 2

    def __init__(self, value):
        self.value = value

    def apply(self, x):
        return x * self.scale

    @classmethod
    def make(cls, value):
        return cls(value)

    @staticmethod
    def add(x, k):
        return x + k

    @property
    def double(self):
        return self.value * 2

    @double.setter
    def double(self, v):
        self.value = v / 2

    @double.deleter
    def double(self):
        self.value = 0


class Derived(Base):
    scale = 3

    def apply(self, x):
        return super().apply(x) + 1

    @property
    def double(self):
        return super().double + 1


class Mixin:
    def apply(self, x):
        return super().apply(x) - 5


class Mixed(Mixin, Derived):
    pass


shared = Derived(4)


@case
def inheritance(x):
    return Derived(1).apply(x), Mixed.make(2).apply(x), Base.add(x, 3), shared.add(x, 1)


@case
def properties(x):
    b = Base(3)
    b.double = 10
    value = b.value
    del b.double
    return x + value, b.value, Derived(2).double, shared.double


@case
def property_without_a_setter(x):
    try:
        Derived(1).double = 3
    except AttributeError as error:
        return x + 1, str(error)


@case
def property_of_an_outside_object(x):
    return x * shared.double


@case
def unbound_and_bound_methods(x):
    m = shared.apply
    f = Base.apply
    return m(x), f(shared, x), m.__self__ is shared, m.__func__ is Derived.apply


class Typed:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return getattr(instance, self.name, 1)

    def __set__(self, instance, value):
        setattr(instance, self.name, value + 1)

    def __delete__(self, instance):
        delattr(instance, self.name)


class NonData:
    def __get__(self, instance, owner):
        return owner.__name__


class Described:
    size = Typed()
    label = NonData()


described = Described()


@case
def descriptors(x):
    d = Described()
    before = d.size
    d.size = 5
    after = d.size
    del d.size
    return x + before + after, d.label, Described.label, d.size


@case
def descriptor_of_an_outside_object(x):
    described.size = x.dim()
    return x * described.size


@case
def instance_attribute_over_non_data_descriptor(x):
    d = Described()
    d.label = "own"
    return x + 1, d.label


class Dynamic:
    def __init__(self):
        self.log = []

    def __getattr__(self, name):
        if name.startswith("no_"):
            raise AttributeError(name)
        return len(name)

    def __setattr__(self, name, value):
        if name != "log":
            self.log.append(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        self.log.append("del " + name)
        object.__delattr__(self, name)


dynamic = Dynamic()


@case
def getattr_and_setattr(x):
    d = Dynamic()
    d.a = 1
    del d.a
    return x + d.missing, d.log, hasattr(d, "no_way"), getattr(d, "no_it", 3)


@case
def getattr_of_an_outside_object(x):
    dynamic.b = 2
    return x * dynamic.something, len(dynamic.log)


@case
def isinstance_tricks(x):
    return (
        isinstance(x, torch.Tensor),
        isinstance(1, (str, int)),
        isinstance(True, int | str),
        issubclass(Derived, Base),
        type(x) is torch.Tensor,
        callable(shared.apply),
        isinstance([], collections.abc.Sequence),
        isinstance({}, collections.abc.Mapping),
        isinstance(shared, Mixin),
        x + 1,
    )


@case
def class_statement_with_a_base_and_super(x):
    class Local(Derived):
        scale = 10

        def apply(self, v):
            return super().apply(v) + self.double

    return Local(1).apply(x), isinstance(Local(1), Base), Local.__mro__[1].__name__


@case
def made_by_type(x):
    Made = type("Made", (Base,), {"scale": 6})
    return Made(1).apply(x), Made.__name__


class Singleton:
    instance = None

    def __new__(cls):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            cls.instance.count = 0
        return cls.instance


@case
def singleton(x):
    s = Singleton()
    s.count += 1
    return x + s.count


class Lazy:
    made = 0

    @functools.cached_property
    def heavy(self):
        Lazy.made += 1
        return self.made * 10


lazy = Lazy()


@case
def cached_property(x):
    return x + lazy.heavy, lazy.heavy


class Tree:
    def __init__(self, value, *children):
        self.value, self.children = value, children

    def total(self):
        return self.value + sum(c.total() for c in self.children)

    def __iter__(self):
        yield self
        for child in self.children:
            yield from child


@case
def recursive_objects(x):
    tree = Tree(x, Tree(1), Tree(2, Tree(x)))
    return tree.total(), len(list(tree))


@case
def method_kept_and_called(x):
    calls = [shared.apply, Base(2).apply, functools.partial(Base.add, k=4)]
    return [c(x) for c in calls]


@case
def bound_method_is_a_result(x):
    return shared.apply, Base(3).apply, x + 1
