"""Objects whose `__dict__` has other names as well: another object's, the program's own, itself."""

import itertools

import braze
import pytest
import torch
from capturing import capture
from shared_dicts import CASES, AttrDict, Loose, Other, Plain, SlotAndDict, borg, pair, shown


@pytest.mark.parametrize("name", CASES)
def test_like_eager(name):
    function, make = CASES[name]
    compiled = braze.compile(function)
    expected_args, args = make(), make()
    for _ in range(3):
        if make is borg:
            borg()
        expected = shown(function(torch.ones(2), *expected_args)), shown(expected_args)
        if make is borg:
            borg()
        assert (shown(compiled(torch.ones(2), *args)), shown(args)) == expected


CAPTURED = [
    "written_by_all",
    "borg_made_by_the_trace_is_returned",
    "dict_of_itself",
    "slot_and_item_of_one_name",
    "module_by_its_dict",
    "attributes_are_items",
]


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_in_one(name):
    function, make = CASES[name]
    captured = capture(function, torch.ones(2), *make())
    assert captured["exit"] == "return", captured["reason"]


def attribute_then_both(x, a, b, d):
    a.v = a.v + 1
    return x * b.v + d["v"]


def item_then_both(x, a, b, d):
    d["v"] += 1
    return x * b.v + a.v


def item_by_owner(x, a, b, d):
    b.__dict__["v"] += 1
    return x * a.v + d["v"]


def two_attributes(x, a, b, d):
    a.k = 1
    b.k = 2
    return x * a.k, hasattr(b, "k"), len(d)


def arguments(sharing, first, second):
    a, b, d = first(v=0.0), second(v=0.0), {"v": 0.0}
    if "a" in sharing:
        a.__dict__ = d
    if "b" in sharing:
        b.__dict__ = d
    return a, b, d


@pytest.mark.parametrize("classes", [(Plain, Plain), (Plain, Other)], ids=["one class", "two"])
@pytest.mark.parametrize(
    "function", [attribute_then_both, item_then_both, item_by_owner, two_attributes]
)
def test_guards(function, classes):
    for order in itertools.permutations(["", "a", "b", "ab"], 2):
        compiled = braze.compile(function)
        for sharing in order * 2:
            expected_args, args = arguments(sharing, *classes), arguments(sharing, *classes)
            expected = shown(function(torch.ones(1), *expected_args)), shown(expected_args)
            assert (shown(compiled(torch.ones(1), *args)), shown(args)) == expected, order


def attribute_of_dict(x, d):
    d.v = 3.0
    return x * d["v"]


def item_of_dict(x, d):
    d["v"] = 3.0
    return x * d.v


@pytest.mark.parametrize("function", [attribute_of_dict, item_of_dict])
@pytest.mark.parametrize("order", [(True, False, True), (False, True, False)])
def test_dict_of_itself_or_not(function, order):
    compiled = braze.compile(function)
    for of_itself in order:
        made = []
        for run in (function, compiled):
            d = Loose(v=1.0)
            if of_itself:
                d.__dict__ = d
            else:
                d.__dict__["v"] = 2.0
            made.append((shown(run(torch.ones(1), d)), shown(d), d.__dict__["v"]))
        assert made[0] == made[1]


a, b = Plain(), Plain()


def of_globals(x):
    a.v = a.v + 1
    return x * b.v


def test_dicts_that_are_exchanged():
    def results(run):
        a.__dict__, b.__dict__ = {"v": 0.0}, {"v": 0.0}
        given = [run(torch.ones(1)).item()]
        for dict_of_a, dict_of_b in [
            (a.__dict__, a.__dict__),
            (a.__dict__, {"v": 0.0}),
            ({"v": 5.0}, {"v": 5.0}),
            (b.__dict__, b.__dict__),
        ]:
            a.__dict__, b.__dict__ = dict_of_a, dict_of_b
            given += [run(torch.ones(1)).item(), run(torch.ones(1)).item(), a.v, b.v]
        return given

    assert results(of_globals) == results(braze.compile(of_globals))


def test_only_what_is_written_has_a_guard_of_its_dict():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    captured = capture(lambda x, model: model(x), torch.ones(2), model)
    assert not any("own dict" in guard for guard in captured["guards"])
    captured = capture(attribute_then_both, torch.ones(2), *arguments("", Plain, Plain))
    assert sum("own dict" in guard for guard in captured["guards"]) == 1


def made_dict_of_itself(x):
    d = AttrDict(v=1.0)
    d.n = 2
    return d, d.__dict__


def made_with_one_dict(x):
    d = {"a": 1}
    one, other = Plain(), Plain()
    one.__dict__ = other.__dict__ = d
    one.t = x
    return one, other, d


def made_with_the_dict_of_another(x):
    one, other = Plain(), Plain(q=1)
    other.__dict__ = one.__dict__
    one.owner = one
    return one, other, vars(one)


def made_with_slot_and_item_of_one_name(x):
    made = SlotAndDict()
    made.n = 1
    vars(made)["n"] = 2
    return made, made, vars(made)


@pytest.mark.parametrize(
    "function",
    [
        made_dict_of_itself,
        made_with_one_dict,
        made_with_the_dict_of_another,
        made_with_slot_and_item_of_one_name,
    ],
)
def test_made_by_the_trace_and_returned(function):
    compiled = braze.compile(function)
    for _ in range(2):
        for run in (function, compiled):
            *owners, d = run(torch.ones(2))
            assert all(vars(owner) is d for owner in owners)
            assert list(d) == list(function(torch.ones(2))[-1])
            if isinstance(owners[0], SlotAndDict):
                assert (owners[0].n, d["n"]) == (1, 2)


def across_breaks(x, a, b, d):
    a.v += 1
    kept = vars(b)
    braze.graph_break()
    kept["v"] += 1
    b.v += 1
    braze.graph_break()
    return x * a.v + d["v"]


def test_across_graph_breaks():
    compiled = braze.compile(across_breaks)
    expected_args, args = pair(), pair()
    for _ in range(3):
        expected = across_breaks(torch.ones(2), *expected_args)
        assert torch.equal(compiled(torch.ones(2), *args), expected)
        assert shown(args) == shown(expected_args)


def test_buffers_as_attributes():
    def function(x, norm, owner):
        owner.running_mean = owner.running_mean + 1
        return x + norm.running_mean

    def made():
        norm, owner = torch.nn.BatchNorm1d(2), Plain()
        owner.__dict__ = norm._buffers
        return norm, owner

    compiled = braze.compile(function)
    expected_args, args = made(), made()
    for _ in range(2):
        expected = function(torch.ones(2), *expected_args)
        assert torch.equal(compiled(torch.ones(2), *args), expected)
