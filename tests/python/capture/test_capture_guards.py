"""What a trace relied on is guarded, once, under a name that a person would write."""

import torch
from capturing import capture, check

SCALE = 3


class Config:
    def __init__(self):
        self.sizes = [2, 3]
        self.options = {"act": "relu"}


def guards(fn, *args):
    captured = capture(fn, *args)
    assert captured["exit"] == "return", captured["reason"]
    assert len(set(captured["guards"])) == len(captured["guards"])
    return captured["guards"]


def test_values_types_lengths_and_keys():
    def f(x, c, flag=True):
        if flag and "act" in c.options and "other" not in c.options:
            x = x * SCALE
        for size in c.sizes:
            x = x + size
        return x + len(c.options)

    found = guards(f, torch.ones(2), Config())
    for expected in [
        "x tensor",
        "flag == True",
        "SCALE == 3",
        "c.sizes len == 2",
        "c.sizes[1] == 3",
        "c.options['act'] has",
        "c.options['other'] lacks",
        "c.options len == 1",
    ]:
        assert expected in found, found
    assert any(g.startswith("c type is") for g in found)


def test_unread_things_are_not_guarded():
    def f(x, c):
        return x + c.sizes[0]

    found = guards(f, torch.ones(2), Config())
    assert "c.sizes[0] == 2" in found
    assert not any("options" in g or "sizes[1]" in g for g in found)


def test_absent_attributes_and_class_attributes():
    def f(x, c):
        return x + getattr(c, "bias", 1) + (2 if hasattr(c, "sizes") else 0)

    found = guards(f, torch.ones(2), Config())
    assert "c.bias lacks" in found


def test_same_and_different_objects():
    def f(a, b, c):
        return a is b, a is c, a + b

    x, y = torch.ones(2), torch.ones(2)
    found = guards(f, x, x, y)
    assert "b is same as a" in found and "a is not c" in found


def test_objects_used_as_keys_are_guarded_by_identity():
    def f(x, key, table):
        return x + table[key]

    key = Config()
    found = guards(f, torch.ones(2), key, {key: 3})
    assert any(g.startswith("key is Config") for g in found), found


def test_default_equality_depends_on_identity():
    def f(x, a, b):
        return x + 1 if a == b else x

    assert "a is not b" in guards(f, torch.ones(2), Config(), Config())


def test_functions_are_guarded_by_identity_and_code():
    found = guards(lambda x: torch.nn.functional.relu(helper(x)), torch.ones(2))
    assert any(g.startswith("helper is <function") for g in found)
    assert any("helper" in g and "__code__" in g for g in found)


def helper(x):
    return x - 1


def test_written_values_are_not_guarded_after_the_write():
    class Box:
        pass

    def f(box, x):
        box.value = x + 1
        return box.value

    box = Box()
    assert not any("value" in g and "tensor" in g for g in guards(f, box, torch.ones(2)))


def test_context_variables():
    import contextvars

    var = contextvars.ContextVar("var", default=4)

    def f(x):
        return x + var.get()

    var.set(5)
    captured = check(f, torch.ones(2))
    assert any(g.endswith("== 5") for g in captured["guards"]), captured["guards"]


def test_parameters_are_bound_and_arguments_are_not():
    module = torch.nn.Linear(3, 3)
    captured = capture(module, torch.ones(2, 3))
    assert "parameter" in captured["graph"].splitlines()[0]
    assert sorted(captured["inputs"]) == ["args[0]", "self.bias", "self.weight"], captured["inputs"]
