"""Values and structure that change between two calls where only native code looks at them: the
compiled function sees what plain Python sees."""

import abc
import sys
import types
import typing

import braze
import pytest
import torch


def same_over_changes(fn, make, change):
    fast, ours, theirs = braze.compile(fn), make(), make()
    for step in range(4):
        for given in (ours, theirs) if step == 2 else ():
            change(given)
        outcomes = []
        for call, given in ((fast, ours), (fn, theirs)):
            try:
                outcomes.append(repr(call(torch.full((2,), float(step)), given)))
            except TypeError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1], f"step {step}"


DERIVED = {
    "int": (int, 1, 4),
    "float": (float, 1.5, 2.5),
    "complex": (complex, 1j, 2j),
    "str": (str, "a", "b"),
    "bytes": (bytes, b"a", b"b"),
    "tuple": (tuple, (1,), (2, 3)),
}


@pytest.mark.parametrize("base, before, after", DERIVED.values(), ids=DERIVED)
def test_values_of_derived_classes(base, before, after):
    derived = type("Derived", (base,), {})

    def fn(x, held):
        return x + 1, held[0] == before, held[0] + held[0], hash(held[0]) == hash(before)

    same_over_changes(
        fn, lambda: [derived(before)], lambda held: held.__setitem__(0, derived(after))
    )


CLASSES = {
    "tuple": ((int,), (str,)),
    "nested tuple": ((str, (int, bool)), (str, (float,))),
    "union": (int | str, float | str),
    "typing.Union": (typing.Union[int, str], typing.Union[float, str]),
}


@pytest.mark.parametrize("before, after", CLASSES.values(), ids=CLASSES)
def test_what_isinstance_is_given(before, after):
    def fn(x, held):
        return x + 1, isinstance(3, held[0]), issubclass(int, held[0])

    same_over_changes(fn, lambda: [before], lambda held: held.__setitem__(0, after))


def make_chain():
    class Top:
        def method(self):
            return 1

    class Other(Top):
        def method(self):
            return 50

    class Middle(Top):
        def method(self):
            return super().method() + 1

    class Bottom(Middle):
        def method(self):
            return super().method() + 1

        def absent(self):
            return getattr(super(), "added", 9)

    return types.SimpleNamespace(middle=Middle, other=Other, top=Top, object=Bottom())


CHAIN_CHANGES = {
    "bases": lambda chain: setattr(chain.middle, "__bases__", (chain.other,)),
    "deleted in the middle": lambda chain: delattr(chain.middle, "method"),
    "added at the top": lambda chain: setattr(chain.top, "added", 4),
    "added in the middle": lambda chain: setattr(chain.middle, "added", 4),
    "replaced at the top": lambda chain: setattr(chain.top, "method", lambda self: 7),
}


@pytest.mark.parametrize("change", CHAIN_CHANGES.values(), ids=CHAIN_CHANGES)
def test_what_super_finds(change):
    def fn(x, chain):
        return x + chain.object.method(), chain.object.absent()

    same_over_changes(fn, make_chain, change)


def test_a_class_that_comes_to_be_abstract():
    def fn(x, cls):
        return x + 1, isinstance(cls(), cls)

    same_over_changes(
        fn,
        lambda: abc.ABCMeta("Kind", (), {}),
        lambda cls: setattr(cls, "__abstractmethods__", frozenset(["method"])),
    )


def test_registrations_that_match_sees():
    def fn(x, given):
        abstract, cls = given
        match cls():
            case abstract():
                return x + 1
        return x + 2

    def make():
        return abc.ABCMeta("Abstract", (), {}), type("Kind", (), {})

    same_over_changes(fn, make, lambda given: given[0].register(given[1]))


@typing.runtime_checkable
class HasMethod(typing.Protocol):
    def method(self): ...


def test_protocols():
    same_over_changes(
        lambda x, cls: (x + 1, isinstance(cls(), HasMethod)),
        lambda: type("Kind", (), {}),
        lambda cls: setattr(cls, "method", lambda self: 1),
    )


def module_with(value):
    module = types.ModuleType("imported_late")
    module.value = value
    return module


def test_modules_that_are_replaced():
    def fn(x):
        try:
            import imported_late
            from imported_late import value
        except ImportError:
            return x, "absent"
        return x, value, imported_late.value

    fast, x = braze.compile(fn), torch.ones(2)
    try:
        for value in (None, None, 1, 1, 2, None):
            if value is None:
                sys.modules.pop("imported_late", None)
            else:
                sys.modules["imported_late"] = module_with(value)
            assert repr(fast(x)) == repr(fn(x))
    finally:
        sys.modules.pop("imported_late", None)
