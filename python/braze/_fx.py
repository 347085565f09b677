"""A captured graph of torch-level calls as a `torch.fx.GraphModule`, for users' backends."""

import contextlib

import torch
import torch.fx
from torch.fx.node import base_types, map_aggregate

from . import _words


def call_backend(backend, torch_calls, inputs, names, outputs):
    """Build the graph module, hand it to `backend`, return what it returns.

    Args:
        backend: callable `(gm, example_inputs)`.
        torch_calls: list of `(callable, args, kwargs, result, (file, line, function), state)`,
            with the `torch_state()` in which the call stands.
        inputs: real tensors, by graph input.
        names: their names, as a person would write them.
        outputs: traced tensors, by graph output.

    A string instead where the graph cannot be told in calls of torch: why.
    """
    try:
        module = build(torch_calls, inputs, names, outputs)
    except _Untold as error:
        return str(error)
    switches = any(node.target in _SWITCHES for node in module.graph.nodes)
    compiled = backend(module, list(inputs))
    if not callable(compiled):
        raise _words.error(
            "E112",
            f"the backend {getattr(backend, '__name__', backend)!r} returned "
            f"{type(compiled).__name__}; it must return a callable",
        )
    return _switching_back(compiled) if switches else compiled


def torch_state():
    """The thread's switches that decide what a call of torch does."""
    autocast = tuple(
        (device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))
        for device in ("cpu", "cuda")
    )
    others = torch.is_inference_mode_enabled(), torch.get_default_dtype()
    return torch.is_grad_enabled(), autocast, others


_enter_autocast, _exit_autocast = torch.amp.autocast_mode._enter_autocast, torch.amp._exit_autocast
_set_grad = torch._C._set_grad_enabled
_SWITCHES = (_enter_autocast, _set_grad)


def _switching_back(compiled):
    """For a graph that throws switches: what raises in between leaves them as they were."""

    def run(*inputs):
        with contextlib.ExitStack() as stack:
            grad, autocast, _ = torch_state()
            stack.callback(torch.set_grad_enabled, grad)
            for device, dtype, enabled in autocast:
                stack.callback(torch.set_autocast_enabled, device, enabled)
                stack.callback(torch.set_autocast_dtype, device, dtype)
            return compiled(*inputs)

    return run


class _Switches:
    """Nodes that bring the thread into the state of the call that follows."""

    def __init__(self, graph):
        self.graph = graph
        self.at_start = self.now = torch_state()
        self.entered = []

    def become(self, state):
        if state == self.now:
            return
        if state[2] != self.at_start[2]:
            raise _Untold("inference mode or the default dtype changes on the way")
        if state[0] != self.now[0]:
            self.graph.call_function(_set_grad, (state[0],))
        if state[1] != self.now[1]:
            while self.entered:
                self.graph.call_function(_exit_autocast, (self.entered.pop(),))
            for new, at_start in zip(state[1], self.at_start[1]):
                if new != at_start:
                    self.entered.append(self.graph.call_function(_enter_autocast, (*new, None)))
        self.now = state

    def finish(self):
        self.become(self.at_start)


class _Untold(Exception):
    """The trace has operations that no recorded call stands for."""


class _Call:
    """A call with arguments that have no text in generated code: objects of classes, functions."""

    def __init__(self, function, args, kwargs):
        self.nodes = []
        self.function = function
        self.args, self.kwargs = map_aggregate((args, kwargs), self._place)
        self.__name__ = self.__qualname__ = _identifier(getattr(function, "__name__", "call"))
        self.__module__ = __name__

    def _place(self, item):
        if not isinstance(item, torch.fx.Node):
            return item
        self.nodes.append(item)
        return _Place(len(self.nodes) - 1)

    def __call__(self, *values):
        args, kwargs = map_aggregate(
            (self.args, self.kwargs),
            lambda item: values[item.number] if isinstance(item, _Place) else item,
        )
        return self.function(*args, **kwargs)


class _Place:
    def __init__(self, number):
        self.number = number


def _has_text(args, kwargs):
    told = True

    def look(item):
        nonlocal told
        told = told and isinstance(item, (torch.fx.Node, *base_types, type(None), type(...)))

    map_aggregate((args, kwargs), look)
    return told


def build(torch_calls, inputs, names, outputs):
    graph = torch.fx.Graph()
    nodes = {}  # id of a traced object -> node
    keep = []  # ids stay valid
    for tensor, name in zip(inputs, names):
        node = graph.placeholder(_identifier(name))
        node.meta["tensor_meta"] = {"shape": tuple(tensor.shape), "dtype": tensor.dtype}
        nodes[id(tensor)] = node
        keep.append(tensor)

    def convert(value):
        if id(value) in nodes:
            return nodes[id(value)]
        if isinstance(value, torch.Size):
            return tuple(value)
        if isinstance(value, tuple):
            items = [convert(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, list):
            return [convert(item) for item in value]
        if isinstance(value, dict):
            return {key: convert(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(convert(value.start), convert(value.stop), convert(value.step))
        if isinstance(value, torch.Tensor):
            raise _Untold("a tensor is used that native code made by itself")
        return value

    switches = _Switches(graph)
    for function, args, kwargs, result, (file, line, where), state in torch_calls:
        switches.become(state)
        target, kind = _target(function)
        call_args = tuple(convert(item) for item in args)
        call_kwargs = {key: convert(item) for key, item in (kwargs or {}).items()}
        named = hasattr(function, "__name__")  # a ScriptFunction is not
        if kind == "call_function" and not (named and _has_text(call_args, call_kwargs)):
            target = _Call(function, call_args, call_kwargs)
            call_args, call_kwargs = tuple(target.nodes), {}
        node = getattr(graph, kind)(target, call_args, call_kwargs)
        node.meta["stack_trace"] = f'  File "{file}", line {line}, in {where}'
        source = _source(file, line)
        if source:
            node.meta["stack_trace"] += "\n    " + source
        keep.append(result)
        _name_result(graph, result, node, nodes)
    switches.finish()
    graph.output(tuple(convert(tensor) for tensor in outputs))
    graph.lint()
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def _name_result(graph, result, node, nodes):
    if isinstance(result, torch.Tensor):
        nodes[id(result)] = node
    elif isinstance(result, (tuple, list)):
        nodes[id(result)] = node
        for index, item in enumerate(result):
            if isinstance(item, (torch.Tensor, tuple, list)):
                part = graph.call_function(_getitem(), (node, index))
                _name_result(graph, item, part, nodes)


def _getitem():
    import operator

    return operator.getitem


def _target(function):
    """Methods of Tensor become `call_method`, so that the code reads `x.relu()`."""
    name = getattr(function, "__name__", None)
    if name and getattr(torch.Tensor, name, None) is function:
        return name, "call_method"
    owner = getattr(function, "__objclass__", None)
    if owner is not None and issubclass(torch.Tensor, owner):
        return name, "call_method"
    return function, "call_function"


def _identifier(name):
    text = "".join(c if c.isalnum() else "_" for c in name).strip("_")
    return text if text and not text[0].isdigit() else "arg_" + text


def _source(file, line):
    import linecache

    return linecache.getline(file, line).strip()
