"""Sets give their members in eager's order, which follows from what was added and removed before."""

import random

import braze
import pytest
import torch


class Members(set):
    pass


def thinned(members, keep):
    """A set out of which most members were removed, so that equal sets give another order."""
    made = Members() if keep == 5 else set()
    made.update(members)
    for member in list(made)[: -keep or None]:
        made.discard(member)
    return made


def numbers(seed):
    return [random.Random(seed + i).randrange(10**6) for i in range(60)]


SETS = {
    "numbers": lambda k: thinned(numbers(k), 12),
    "words": lambda k: thinned([f"word {i}" for i in range(60)], 15),
    "classes": lambda k: thinned([type(f"C{i}", (), {}) for i in range(40)], 18),
    "of a subclass": lambda k: thinned([f"name {i}" for i in range(50)], 5),
    "small": lambda k: thinned([8, 16, 24, 0, 1], 3),
    "frozen": lambda k: frozenset(thinned([f"word {i}" for i in range(60)], 15)),
}


def grown(s):
    s.add("new")
    return list(s)


def grown_and_thinned(s):
    s.add("new")
    s.discard(next(iter(s)))
    s.update(["more", 3, 17])
    return list(s)


def popped(s):
    return [s.pop(), s.pop(), len(s)]


READS = {
    "list": list,
    "loop": lambda s: [m for m in s],
    "tuple": tuple,
    "copy": lambda s: list(s.copy()),
    "set": lambda s: list(set(s)),
    "frozenset": lambda s: list(frozenset(s)),
    "first": lambda s: next(iter(s)),
    "star": lambda s: [*s],
    "union": lambda s: list(s | {1}),
    "difference": lambda s: list(s - {1}),
    "comprehension": lambda s: [{m for m in s}, {str(m) for m in s}],
    "keys": lambda s: list(dict.fromkeys(s)),
    "unpacked": lambda s: (lambda first, *rest: (rest, first))(*s),
    "enumerate": lambda s: [(i, m) for i, m in enumerate(s)],
    "itself": lambda s: s,
    "a set made of it": lambda s: [set(s), s | {"more"}, {*s}],
}
CHANGES = {"grown": grown, "grown and thinned": grown_and_thinned, "popped": popped}


def shown(value):
    """Sets as the lists that they give."""
    if isinstance(value, (set, frozenset)):
        return [type(value), *value]
    return [shown(v) for v in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize(
    ("name", "read"),
    [
        (name, read)
        for name in SETS
        for read in (*READS, *CHANGES)
        if name != "frozen" or read in READS
    ],
)
def test_order_of_a_set_from_outside(name, read):
    use = (READS | CHANGES)[read]
    box = {}

    def f(x):
        return use(box["set"]), x + 1

    compiled = braze.compile(f, backend="aten")
    for k in (0, 0, 1):
        given = SETS[name](k)
        seen = []
        for function in (f, compiled):
            # The same members at the same places: made in the same way from the same objects.
            box["set"] = given.copy() if name == "frozen" else remade(given)
            seen.append([shown(function(torch.ones(2))[0]), shown(box["set"])])
            if name != "frozen":
                box["set"].update(range(3))
                seen[-1].append(list(box["set"]))
        assert seen[0] == seen[1]


def remade(given):
    """A set that has come to the members of `given` by removals."""
    made = type(given)(range(100, 140))
    made.update(given)
    for member in range(100, 140):
        if member not in given:
            made.discard(member)
    return made


def test_equal_members_in_another_order():
    a, b = set(), set()
    for member in (8, 16, 0):
        a.add(member)
    for member in (0, 16, 8):
        b.add(member)
    assert a == b and list(a) != list(b)
    box = {}

    def f(x):
        return list(box["set"]), x + len(box["set"])

    compiled = braze.compile(f, backend="aten")
    for box["set"] in (a, b, a):
        assert compiled(torch.ones(1))[0] == f(torch.ones(1))[0]
