"""Dataclasses, enums, namedtuples."""

import collections
import dataclasses
import enum
import typing

import torch
from running import case


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
