"""Classes: descriptors, properties, inheritance, metaclasses, dataclasses, enums, namedtuples."""

import abc
import collections
import dataclasses
import enum
import functools
import typing

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


class Vector:
    def __init__(self, *v):
        self.v = v

    def __add__(self, other):
        if not isinstance(other, Vector):
            return NotImplemented
        return Vector(*(a + b for a, b in zip(self.v, other.v)))

    def __radd__(self, other):
        return Vector(*(a + other for a in self.v))

    def __iadd__(self, other):
        self.v += (other,)
        return self

    def __neg__(self):
        return Vector(*(-a for a in self.v))

    def __len__(self):
        return len(self.v)

    def __getitem__(self, k):
        return self.v[k]

    def __setitem__(self, k, value):
        self.v = (*self.v[:k], value, *self.v[k + 1 :])

    def __delitem__(self, k):
        self.v = self.v[:k] + self.v[k + 1 :]

    def __contains__(self, a):
        return a in self.v

    def __iter__(self):
        return iter(self.v)

    def __call__(self, x):
        return sum(self.v) * x

    def __bool__(self):
        return bool(self.v)

    def __eq__(self, other):
        return isinstance(other, Vector) and self.v == other.v

    def __lt__(self, other):
        return self.v < other.v

    def __hash__(self):
        return hash(self.v)

    def __matmul__(self, other):
        return sum(a * b for a, b in zip(self.v, other.v))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.v = ()

    def __format__(self, spec):
        return f"{spec}:{len(self.v)}"

    def __index__(self):
        return len(self.v)

    def __reversed__(self):
        return reversed(self.v)


@case
def operators(x):
    a, b = Vector(1, 2), Vector(3, 4)
    c = a + b
    c += 5
    d = 1 + a
    return c(x), (-d).v, len(c), c[1:], a @ b, a == Vector(1, 2), a != b, a < b


@case
def container_protocol(x):
    a = Vector(1, 2, 3)
    a[1] = 7
    del a[0]
    return x + sum(a), 7 in a, bool(Vector()), list(reversed(a)), f"{a:>}", range(5)[a]


@case
def hashing(x):
    table = {Vector(1): "one", Vector(2): "two"}
    return x + len(table), table[Vector(2)], len({Vector(1), Vector(1)})


@case
def not_implemented(x):
    try:
        Vector(1) + 3
    except TypeError as error:
        return x * 2, str(error)


@case
def tensor_on_the_right(x):
    return 2 - x, [1.0] * 2, 3 ** x.abs(), 1 / (x * x + 1), 5 // (x.abs() + 1)


class Reflected:
    def __rmul__(self, other):
        return ("reflected", other.shape)

    def __radd__(self, other):
        return other + 1


@case
def reflected_with_a_tensor(x):
    return x + 1, x.__class__.__name__


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


@dataclasses.dataclass
class Point:
    x: torch.Tensor
    y: int = 2
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.tags.append("made")


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class Frozen:
    a: int
    b: int = 0


point = Point(torch.ones(4), 3)


@case
def dataclass(x):
    p = Point(x, tags=["given"])
    q = dataclasses.replace(p, y=5)
    return p, q.y, [f.name for f in dataclasses.fields(p)]


@case
def frozen_dataclass(x):
    f = Frozen(1, 2)
    try:
        f.a = 3
    except dataclasses.FrozenInstanceError as error:
        return (
            x + f.a,
            str(error),
            f < Frozen(1, 3),
            f == Frozen(1, 2),
            hash(f) == hash(Frozen(1, 2)),
        )


@case
def dataclass_asdict(x):
    return dataclasses.asdict(Frozen(1, 2)), dataclasses.astuple(Frozen(3)), x + 1


@case
def dataclass_from_outside_is_changed(x):
    point.y += 1
    point.x = x
    return x * point.y


class Color(enum.Enum):
    RED = 1
    GREEN = 2

    @property
    def weight(self):
        return self.value * 10


class Mode(enum.IntFlag):
    A = 1
    B = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Name(str, enum.Enum):
    ONE = "one"


@case
def enums(x):
    table = {Color.RED: 1, Color.GREEN: 2}
    return (
        x + table[Color.GREEN] + Color.RED.weight,
        Color(2),
        Color["RED"],
        [c.name for c in Color],
        Level.HIGH + 1,
        Name.ONE == "one",
        Color.RED is Color.RED,
    )


@case
def enum_flags(x):
    both = Mode.A | Mode.B
    return x + int(both), Mode.A in both, both & Mode.B, bool(Mode(0))


@case
def enum_errors(x):
    try:
        Color(9)
    except ValueError as error:
        return x + 1, str(error)


Pair = collections.namedtuple("Pair", "first second", defaults=[7])


class Typed3(typing.NamedTuple):
    a: torch.Tensor
    b: int = 3

    def total(self):
        return self.a + self.b


@case
def namedtuples(x):
    p = Pair(x)
    q = p._replace(second=1)
    first, second = q
    return p, q._asdict(), first * second, Typed3(x).total(), Pair._fields, p[1]


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
def class_statement_inside(x):
    class Local:
        factor = 3

        def __init__(self, k):
            self.k = k

        def apply(self, v):
            return v * self.factor + self.k

    return Local(2).apply(x), Local.__name__, Local.__qualname__


@case
def class_statement_with_a_base_and_super(x):
    class Local(Derived):
        scale = 10

        def apply(self, v):
            return super().apply(v) + self.double

    return Local(1).apply(x), isinstance(Local(1), Base), Local.__mro__[1].__name__


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


class Expensive:
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return "odd"


@case
def odd_comparisons(x):
    e = Expensive()
    return x + 1, e == 3, e != 3, 5 == e, e in [1], [e].index(9), [1, 2].count(e)


@case
def class_getitem(x):
    class Generic:
        def __class_getitem__(cls, item):
            return (cls.__name__, item)

    return x + 1, Generic[3], list[int] == list[int]


@case
def method_kept_and_called(x):
    calls = [shared.apply, Base(2).apply, functools.partial(Base.add, k=4)]
    return [c(x) for c in calls]


@case
def bound_method_is_a_result(x):
    return shared.apply, Base(3).apply, x + 1
