"""Arguments and globals that are the same object in one call and different ones in another, where
the function changes one of them."""

import itertools

import braze
import pytest
import torch

shared_list, shared_dict, shared_tensor = [1], {"a": 1}, torch.zeros(4)


class Box:
    def __init__(self, items, number):
        self.items, self.number = items, number


def reset():
    shared_list[:] = [1]
    shared_dict.clear()
    shared_dict["a"] = 1
    shared_tensor.zero_()


def shown(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    return shown(vars(value)) if isinstance(value, Box) else value


def twice(make):
    value = make()
    return value, value


def boxes_with_one_list():
    items = [1]
    return Box(items, 1), Box(items, 2)


def overlapping():
    whole = torch.zeros(6)
    return whole[:4], whole[2:]


def view_of_itself():
    tensor = torch.zeros(4)
    return tensor, tensor.view(4)


LISTS = {
    "different": lambda: ([1], [1]),
    "one": lambda: twice(lambda: [1]),
    "first global": lambda: (shared_list, [1]),
    "second global": lambda: ([1], shared_list),
    "both global": lambda: (shared_list, shared_list),
}
DICTS = {
    "different": lambda: ({"a": 1}, {"a": 1}),
    "one": lambda: twice(lambda: {"a": 1}),
    "global": lambda: (shared_dict, {"a": 1}),
}
BOXES = {
    "different": lambda: (Box([1], 1), Box([1], 2)),
    "one": lambda: twice(lambda: Box([1], 1)),
    "one list": boxes_with_one_list,
}
TENSORS = {
    "different": lambda: (torch.zeros(4), torch.zeros(4)),
    "one": lambda: twice(lambda: torch.zeros(4)),
    "view": view_of_itself,
    "overlap": overlapping,
    "global": lambda: (shared_tensor, torch.zeros(4)),
    "view of a global": lambda: (torch.zeros(4), shared_tensor.view(2, 2).view(4)),
}
CASES = [
    (LISTS, "a.append(2); return len(b), len(shared_list), x + 1"),
    (LISTS, "a.append(2); b.append(3); return list(a), list(b), x + 1"),
    (LISTS, "shared_list.append(1); return len(a), len(b), x + 1"),
    (LISTS, "a[0] = 7; return b[0], shared_list[0], x + 1"),
    (LISTS, "a.extend(b); b.extend(a); return len(shared_list), x + 1"),
    (LISTS, "a.clear(); return b == [], x + 1"),
    (DICTS, "a['z'] = 1; return len(b), len(shared_dict), x + 1"),
    (DICTS, "shared_dict['q'] = x; return list(a), list(b)"),
    (DICTS, "del a['a']\nreturn b.get('a'), shared_dict.get('a'), x + 1"),
    (BOXES, "a.items.append(2); return len(b.items), x + 1"),
    (BOXES, "a.number += 1; return b.number, x + 1"),
    (BOXES, "a.items = [9]; return b.items, x + 1"),
    (BOXES, "a.__dict__['number'] = 5; return b.number, x + 1"),
    (TENSORS, "a.add_(1); return b + x"),
    (TENSORS, "a.add_(1); b.mul_(2); return a + b + x"),
    (TENSORS, "shared_tensor.add_(1); return a + b + x"),
    (TENSORS, "c = a.view(2, 2); c.add_(1); return b + x, c"),
    (TENSORS, "y = b * 2; a.add_(1); return y, b"),
]


@pytest.mark.parametrize("makers, body", CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_aliases_come_and_go(makers, body):
    scope = dict(globals())
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    exec(f"def f(a, b, x):\n{lines}", scope)
    fn = scope["f"]

    def outcomes(function, order):
        found = []
        for name in order:
            reset()
            a, b = makers[name]()
            result = function(a, b, torch.ones(4))
            found.append(shown([result, a, b, shared_list, shared_dict, shared_tensor]))
        return found

    for order in itertools.islice(itertools.permutations(makers), 0, None, 7):
        fast = braze.compile(fn, recompile_limit=20)
        assert outcomes(fast, order) == outcomes(fn, order), order
