"""What code asks before it computes: whether processes talk to each other, of what class an object
is, which version this is, what the parameters of a function are."""

import inspect
import os

import braze
import pytest
import torch
import torch.distributed as dist
import torch.nn as nn
from showing import outcome, same
from torch.torch_version import TorchVersion

X = torch.arange(4.0)


def breaks(f, *args):
    return [each["text"] for each in braze.explain(f)(*args).breaks]


def check(f, *args, times=2):
    fast = braze.compile(f, fullgraph=True)
    for _ in range(times):
        expected, got = outcome(f, *args), outcome(fast, *args)
        assert same(expected, got), f"eager {expected}\ncompiled {got}"
    return fast


# --- torch.distributed


def scaled(x):
    if dist.is_available() and dist.is_initialized():
        return x * 2
    return x + 1


def test_processes_that_begin_to_talk_later(tmp_path):
    fast = check(scaled, X)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert torch.equal(fast(X), X * 2)
    finally:
        dist.destroy_process_group()
    assert torch.equal(fast(X), X + 1)


def test_what_else_processes_ask_is_a_break():
    def f(x):
        try:
            return x * dist.get_world_size()
        except ValueError:
            return x - 1

    assert breaks(f, X)
    assert torch.equal(braze.compile(f)(X), X - 1)


# --- isinstance


class Plain:
    pass


class SaysParameter:
    __class__ = nn.Parameter


class Tagged(torch.Tensor):
    _is_param = True


@pytest.mark.parametrize(
    "value",
    [Plain(), 3, "a", None, [1], nn.Linear(2, 2), nn.Parameter(X.clone()), X, SaysParameter()],
    ids=lambda value: type(value).__name__,
)
def test_of_no_tensor_whether_it_is_a_parameter(value):
    def f(x, value):
        found = [
            isinstance(value, nn.Parameter),
            isinstance(value, (nn.Parameter, nn.Module)),
            isinstance(value, nn.parameter.Buffer),
            isinstance(value, nn.UninitializedParameter),
        ]
        return x * 2 if found[0] else x + 1, found

    check(f, X, value)


def test_objects_of_other_classes():
    def f(x, value):
        return x * 2 if isinstance(value, nn.Parameter) else x + 1

    fast = braze.compile(f)
    for value in (Plain(), [1], nn.Parameter(X.clone()), SaysParameter(), Plain(), 3):
        assert torch.equal(fast(X, value), f(X, value)), value


def test_a_class_that_changes():
    class Changing:
        pass

    def f(x, value):
        return x * 2 if isinstance(value, nn.Parameter) else x + 1

    value = Changing()
    fast = braze.compile(f)
    assert torch.equal(fast(X, value), X + 1)
    value.__class__ = type("Other", (Changing,), {"__class__": property(lambda s: nn.Parameter)})
    assert torch.equal(fast(X, value), f(X, value))


# --- Text of a class of its own


class Name(str):
    def upper(self):
        return "mine"


class Holder:
    version = TorchVersion("2.5.1")
    name = Name("Abc")


def test_the_version():
    def f(x):
        major, minor = (int(part) for part in torch.__version__.split(".")[:2])
        plain = torch.__version__.partition("+")[0].startswith(str(major))
        return x * major + minor, plain, torch.__version__.replace(".", "_").upper()

    check(f, X)


def test_another_text():
    def f(x):
        return x * int(Holder.version.split(".")[0]), Holder.name.lower(), Holder.name.upper()

    fast = check(f, X)
    before = Holder.version
    try:
        Holder.version = TorchVersion("7.0")
        assert same(outcome(fast, X), outcome(f, X))
    finally:
        Holder.version = before
    assert same(outcome(fast, X), outcome(f, X))


def test_text_that_each_call_brings_anew():
    def f(x, version):
        return x * int(version.split(".")[0])

    fast = braze.compile(f)
    for major in range(12):
        assert torch.equal(fast(X, TorchVersion(f"{major}.1")), X * major)


# --- Signatures

SIGNATURES = [inspect.signature(lambda a, b=2, *, c=3: 0)]


def test_parameters_of_a_signature():
    def f(x):
        parameters = SIGNATURES[0].parameters
        names = [name for name, parameter in parameters.items() if parameter.default != 5]
        values = [p.default for p in parameters.values() if p.default is not p.empty]
        return x * len(names), names, values, list(parameters.keys()), parameters.get("b").name

    fast = check(f, X)
    SIGNATURES[0] = inspect.signature(lambda a, b=5, d=1: 0)
    try:
        assert same(outcome(fast, X), outcome(f, X))
    finally:
        SIGNATURES[0] = inspect.signature(lambda a, b=2, *, c=3: 0)


def test_a_parameter_of_another_signature():
    def f(x):
        signature = SIGNATURES[0]
        return x * signature.parameters["b"].default, str(signature)

    fast = braze.compile(f)
    assert same(outcome(fast, X), outcome(f, X))
    SIGNATURES[0] = inspect.signature(lambda a, b=5, d=1: 0)
    try:
        assert same(outcome(fast, X), outcome(f, X))
    finally:
        SIGNATURES[0] = inspect.signature(lambda a, b=2, *, c=3: 0)


def test_bound_arguments_that_change():
    bound = SIGNATURES[0].bind(1, 2)

    def f(x):
        return x * bound.args[1]

    fast = braze.compile(f)
    assert torch.equal(fast(X), X * 2)
    bound.arguments["b"] = 7
    assert torch.equal(fast(X), X * 7)


def test_arguments_that_are_bound_in_the_code():
    def f(x, n):
        bound = SIGNATURES[0].bind(x, n)
        bound.apply_defaults()
        return x * bound.arguments["b"] + bound.kwargs["c"]

    fast = braze.compile(f)
    for n in (2, 3, 4, 5):
        assert torch.equal(fast(X, n), f(X, n))


def test_a_proxy_of_a_dict_that_changes():
    from types import MappingProxyType

    numbers = {"a": 1}
    proxy = MappingProxyType(numbers)

    def f(x):
        return [x * value for name, value in proxy.items()], list(proxy.keys())

    fast = check(f, X)
    for change in ({"b": 2}, {"a": 3}):
        numbers.update(change)
        assert same(outcome(fast, X), outcome(f, X))
    numbers.clear()
    assert same(outcome(fast, X), outcome(f, X))


def test_a_proxy_of_a_class():
    class Fields:
        one = 1

    def f(x):
        return x * len([name for name in vars(Fields).keys() if name == "one"])

    fast = braze.compile(f)
    assert torch.equal(fast(X), X)
    Fields.two = 2
    del Fields.one
    assert torch.equal(fast(X), X * 0)
