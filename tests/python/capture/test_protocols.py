"""isinstance() of a typing.Protocol looks for attributes that any object may come to have."""

import typing

import braze
import pytest
import torch


@typing.runtime_checkable
class Annotated(typing.Protocol):
    part: int


class Named(typing.Protocol):
    def part(self): ...


@typing.runtime_checkable
class Inherited(Named, typing.Protocol):
    pass


@typing.runtime_checkable
class Private(typing.Protocol):
    def _part(self): ...


class Thing:
    pass


def by_isinstance(thing, protocol):
    def function(x):
        return x * (2 if isinstance(thing, protocol) else 3)

    return function


def by_match(thing, protocol):
    def function(x):
        match thing:
            case protocol():
                return x * 2
            case _:
                return x * 3

    return function


@pytest.mark.parametrize("make", [by_isinstance, by_match])
@pytest.mark.parametrize(
    ("protocol", "name"), [(Annotated, "part"), (Inherited, "part"), (Private, "_part")]
)
def test_an_attribute_that_comes_and_goes(make, protocol, name):
    thing = Thing()
    compiled = braze.compile(make(thing, protocol))
    for _ in range(2):
        assert compiled(torch.ones(1)).item() == 3
        setattr(thing, name, lambda: None)
        assert compiled(torch.ones(1)).item() == 2
        delattr(thing, name)


def test_special_methods_are_no_break():
    @typing.runtime_checkable
    class Sized(typing.Protocol):
        def __len__(self): ...

    def function(x):
        return x * (2 if isinstance([1], Sized) else 3)

    assert braze.compile(function, fullgraph=True)(torch.ones(1)).item() == 2
