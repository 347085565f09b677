"""Metaclasses, abstract classes, and class statements inside the compiled function."""

import abc

from running import case


class Meta(type):
    made = []

    def __new__(mcls, name, bases, namespace, **options):
        cls = super().__new__(mcls, name, bases, namespace)
        cls.options = options
        return cls

    def __call__(cls, *args):
        instance = super().__call__(*args)
        instance.by_meta = True
        return instance

    def __getitem__(cls, k):
        return (cls.__name__, k)

    def __instancecheck__(cls, instance):
        return hasattr(instance, "by_meta")

    @property
    def tag(cls):
        return cls.__name__.lower()


class WithMeta(metaclass=Meta, option=3):
    def __init__(self, k=1):
        self.k = k


@case
def metaclass(x):
    w = WithMeta(4)
    return x + w.k, w.by_meta, WithMeta["a"], WithMeta.tag, WithMeta.options


@case
def metaclass_instance_check(x):
    return x + 1, isinstance(WithMeta(), WithMeta), isinstance(3, WithMeta)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    @classmethod
    def __subclasshook__(cls, other):
        return hasattr(other, "area") or NotImplemented


class Square(Shape):
    def area(self):
        return 4


class Round:
    def area(self):
        return 3


@case
def abstract_classes(x):
    try:
        Shape()
    except TypeError as error:
        message = str(error)
    return x + Square().area(), isinstance(Round(), Shape), issubclass(int, Shape), message


@case
def class_statement_inside(x):
    class Local:
        factor = 3

        def __init__(self, k):
            self.k = k

        def apply(self, v):
            return v * self.factor + self.k

    return Local(2).apply(x), Local.__name__, Local.__qualname__


@case
def class_statement_with_closure_and_property(x, n):
    class Local:
        values = [k * n for k in range(3)]

        @property
        def total(self):
            return sum(self.values) + n

        @staticmethod
        def shift(v):
            return v + n

    return x + Local().total, Local.shift(x)


@case
def class_statement_that_leaves(x):
    class Local:
        pass

    return x + 1, Local.__name__, Local


@case
def class_statement_with_a_metaclass(x):
    class Local(metaclass=Meta, flag=1):
        def __init__(self):
            self.v = 2

    return x + Local().v, Local.options, Local().by_meta


class Registry:
    known = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__()
        Registry.known.append(cls.__name__)


@case
def init_subclass_with_an_effect(x):
    class Plugin(Registry):
        pass

    return x + len(Registry.known)


@case
def exception_class_inside(x):
    class Problem(Exception):
        pass

    try:
        raise Problem("local")
    except Problem as error:
        return x + 1, str(error)


@case
def class_getitem(x):
    class Generic:
        def __class_getitem__(cls, item):
            return (cls.__name__, item)

    return x + 1, Generic[3], list[int] == list[int]
