"""`braze.compile` and its companions."""

import collections.abc
import functools
import inspect
import sys
import types
import weakref

import torch

from . import _C, _cuda_graphs, _triton, _words

BACKENDS = ("braze", "aten", "eager")
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
CAPTURE_OPTIONS = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops")
RNG_SOURCES = ("eager", "counter")
STAGE_BYTES = 25 << 20  # of gradients, as a bucket of DistributedDataParallel
GPU_CODEGENS = ("cuda", "triton")

_compiled = weakref.WeakSet()


def compile(
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend="braze",
    mode=None,
    options=None,
    disable=False,
    recompile_limit=None,
):
    """Compile a function or module; also a decorator.

    Args:
        model: a function, bound method, callable object, `torch.nn.Module` or class. Without it, a
            decorator is returned.
        fullgraph: raise `braze.GraphBreakError` where something cannot be captured, instead of
            running it in eager.
        dynamic: None: sizes are numbers at first; those that another call brings different, and
            Python ints and floats alike, are symbols from the second compile on. True: all sizes of
            2 and more are symbols at once. False: never; a call with other sizes compiles again.
            `braze.mark_dynamic` and its like say it for single dimensions.
        backend: "braze" (generated kernels), "aten" (the optimised graph through PyTorch's own
            operators), "eager" (the captured graph as it is), or a callable
            `(gm: torch.fx.GraphModule, example_inputs: list[Tensor]) -> callable` that returns a
            tuple of tensors.
        mode: None, "default"; "reduce-overhead": the option "cuda_graphs";
            "max-autotune-no-cudagraphs": the option "autotune"; "max-autotune": both.
        options: a dict of
            "recompile_limit": see below.
            "capture_scalar_outputs": integers that `.item()`, `int()` and `.tolist()` read from
                tensors become symbols of the graph instead of breaks. What the code decides on
                them must follow from `torch._check(condition)`, which is asserted on every call;
                a decision that does not is a break.
            "capture_dynamic_output_shape_ops": so do the sizes of what nonzero, masked_select,
                unique, bincount, repeat_interleave and indexing by a mask give.
            "activation_memory": the most bytes that a backward may hold at a time, beside
                parameters, inputs and gradients; none by default. Where it would hold more, parts
                of the forward are computed again in the backward instead of being kept, those
                first that cost least time for their bytes (a minimum cut, as
                `torch.utils.checkpoint` placed by hand), never random numbers. A budget that no
                choice can meet gives the least peak. What is held is an estimate of the graph,
                before fusion.
            "channels_last": whether convolutions of images compute with channels innermost, and
                what stands between them with them. None, the default: where that is known to be
                faster, which is on GPUs, for float16 and bfloat16, unless too much would have to
                be copied. True: all of them, also in float32, for which cuDNN takes TF32 then where
                `torch.backends.cudnn.allow_tf32` lets it. False: none.
                Results, and what the traced code can see of them, have eager's strides anyway.
            "gradient_stage_bytes": where parameters have hooks behind the accumulation of their
                gradients (DistributedDataParallel's, `register_post_accumulate_grad_hook`), a
                backward runs in stages of about so many bytes of gradients, so that these are taken
                while others are computed; 25 MiB by default, as the buckets of
                DistributedDataParallel. 0: all gradients come at the end.
            "cuda_graphs": calls on a GPU are recorded as CUDA graphs, each of which is one launch
                from then on, so that the time of small kernels is no longer the CPU's. A graph
                stands for one set of sizes and of places in memory: parameters, and whatever else
                comes at the same place again, are read where they are, other tensors are copied
                before each launch. Results are as without: none is written over as long as anybody
                has it, random numbers and writes to inputs are eager's, and what cannot be recorded
                (data that is read on the CPU, operators of other libraries) runs step by step,
                which `explain` and BRAZE_LOG=cuda_graphs tell. It costs memory: what is in use
                within graphs, and their results, stay taken.
            "autotune": on a GPU, where sizes are numbers, each kernel is run in several ways
                (threads of a row or column, elements of a thread) when it is compiled, over memory
                that holds zeros, and the fastest is kept, in the disk cache, too. It takes up to 20
                seconds a function and the memory of a kernel's tensors. Sums may differ in the last
                places from those without, but not from run to run once the choice is in the cache.
                BRAZE_LOG=timing tells the times. On a CPU it changes nothing.
            "gpu_codegen": the language of kernels on GPUs. "cuda", the default: CUDA C++, compiled
                by NVRTC. "triton": Triton, which the package triton (3.5 or later) compiles; what
                it has no kernel for, or a slower one (running values, several kernels in one
                launch, rows that several blocks share, random numbers of "counter"), is CUDA C++
                anyway, with the reason in its first line and under BRAZE_LOG=schedule. Results are
                the same but for the order of sums. BRAZE_LOG=code shows the sources.
            "rng": where random numbers come from. "eager": PyTorch's generators, so the numbers are
                eager's own. "counter": a call draws one number, its seed, from the default
                generator of the device, and kernels compute all others from it (Philox 4x32-10)
                where they are used, and again in the backward, so that a dropout's mask is never
                stored. The distributions are eager's, the numbers are not; after
                `torch.manual_seed` they are the same again. Operators without such a form
                (randperm, multinomial, poisson, ...), with a generator of their own or in eager
                code still draw as eager does, and so does backend="eager".
        disable: return `model` unchanged.
        recompile_limit: entries kept per function (default 8, BRAZE_RECOMPILE_LIMIT); calls that
            fit none of them then run in eager.

    Returns:
        For a function, a callable with the same signature. For a module, an object of a subclass
        of the module's class that shares the module's state: attributes, parameters, `state_dict`
        keys, `train()`, `to()` act on both, and only its calls are compiled. A class is returned
        itself, with calls of its instances compiled from now on.

    Raises:
        TypeError, ValueError: arguments that make no sense, with what is allowed.
    """
    settings = _check_settings(fullgraph, dynamic, backend, mode, options, recompile_limit)
    _check_switch("disable", disable)
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
            recompile_limit=recompile_limit,
        )
    if disable or _C.options()["disable"]:
        return model
    return _compile(model, settings)


def _check_settings(fullgraph, dynamic, backend, mode, options, recompile_limit):
    _check_switch("fullgraph", fullgraph)
    if dynamic is not None and not isinstance(dynamic, bool):
        raise _words.error("E108", f"dynamic must be None, True or False, not {dynamic!r}")
    if isinstance(backend, str):
        if backend not in BACKENDS:
            raise _words.error(
                "E102",
                f"unknown backend {backend!r}: use one of {', '.join(map(repr, BACKENDS))} or a "
                "callable (gm, example_inputs) -> callable",
            )
    elif not callable(backend):
        raise _words.error(
            "E103", f"backend must be a string or a callable, not {type(backend).__name__}"
        )
    if mode not in MODES:
        raise _words.error(
            "E104",
            f"unknown mode {mode!r}: leave mode out, or use one of {', '.join(map(repr, MODES))}",
        )
    if options is not None and not isinstance(options, collections.abc.Mapping):
        raise _words.error("E114", f"options must be a dict, not {type(options).__name__}")
    options = dict(options or {})
    limit = options.pop("recompile_limit", None)
    capture = {name: options.pop(name, False) for name in CAPTURE_OPTIONS}
    for name, value in capture.items():
        _check_switch(name, value)
    cuda_graphs = options.pop("cuda_graphs", mode in ("reduce-overhead", "max-autotune"))
    _check_switch("cuda_graphs", cuda_graphs)
    autotune = options.pop("autotune", mode in ("max-autotune", "max-autotune-no-cudagraphs"))
    _check_switch("autotune", autotune)
    rng = options.pop("rng", "eager")
    if not isinstance(rng, str) or rng not in RNG_SOURCES:
        raise _words.error(
            "E116", f"rng must be one of {', '.join(map(repr, RNG_SOURCES))}, not {rng!r}"
        )
    gpu_codegen = options.pop("gpu_codegen", "cuda")
    if not isinstance(gpu_codegen, str) or gpu_codegen not in GPU_CODEGENS:
        raise _words.error(
            "E118",
            f"gpu_codegen must be one of {', '.join(map(repr, GPU_CODEGENS))}, not {gpu_codegen!r}",
        )
    activation_memory = options.pop("activation_memory", None)
    if activation_memory is not None:
        _check_bytes("activation_memory", activation_memory)
    stage_bytes = options.pop("gradient_stage_bytes", STAGE_BYTES)
    _check_bytes("gradient_stage_bytes", stage_bytes)
    channels_last = options.pop("channels_last", None)
    if channels_last is not None:
        _check_switch("channels_last", channels_last)
    if options:
        names = (
            "recompile_limit",
            "activation_memory",
            *CAPTURE_OPTIONS,
            "autotune",
            "channels_last",
            "cuda_graphs",
            "gpu_codegen",
            "gradient_stage_bytes",
            "rng",
        )
        known = ", ".join(map(repr, names))
        raise _words.error(
            "E105", f"unknown option {next(iter(options))!r}: the options are {known}"
        )
    if cuda_graphs:
        _cuda_graphs.install()
    if gpu_codegen == "triton" and not _triton.install():
        gpu_codegen = "cuda"
    if recompile_limit is None:
        recompile_limit = limit
    if recompile_limit is None:
        recompile_limit = _C.options()["recompile_limit"]
    is_number = isinstance(recompile_limit, int) and not isinstance(recompile_limit, bool)
    if not is_number or recompile_limit < 1:
        raise _words.error(
            "E106", f"recompile_limit must be a positive integer, not {recompile_limit!r}"
        )
    return {
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "backend": backend,
        "recompile_limit": min(recompile_limit, sys.maxsize),
        **capture,
        "activation_memory": activation_memory and min(activation_memory, sys.maxsize),
        "channels_last": channels_last,
        "gradient_stage_bytes": min(stage_bytes, sys.maxsize),
        "gpu_codegen": gpu_codegen,
        "rng": rng,
        "autotune": autotune,
        "cuda_graphs": cuda_graphs,
    }


def _check_bytes(name, value):
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _words.error(
            "E117", f"{name} must be a number of bytes, an integer of 0 or more, not {value!r}"
        )


def _check_switch(name, value):
    if not isinstance(value, bool):
        raise _words.error("E107", f"{name} must be True or False, not {value!r}")


def _compile(target, settings):
    if isinstance(target, _C.CompiledFunction):
        target = target.__wrapped__
    if isinstance(target, torch.nn.Module):
        return _compile_module(target, settings)
    if isinstance(target, type):
        return _compile_class(target, settings)
    made = _compile_callable(target, target, settings)
    _compiled.add(made)
    return made


def _compile_callable(target, wrapped, settings):
    if isinstance(target, types.FunctionType):
        return _C.CompiledFunction(target, None, wrapped, settings)
    if isinstance(target, types.MethodType) and isinstance(target.__func__, types.FunctionType):
        return _C.CompiledFunction(target.__func__, target.__self__, wrapped, settings)
    if isinstance(target, functools.partial):
        inner = _C.CompiledFunction(_caller_of(target.func), None, wrapped, settings)
        return functools.partial(inner, *target.args, **target.keywords)
    method = inspect.getattr_static(type(target), "__call__", None)
    if isinstance(method, types.FunctionType):
        return _C.CompiledFunction(method, target, wrapped, settings)
    if callable(target):
        return _C.CompiledFunction(_caller_of(target), None, wrapped, settings)
    raise _words.error("E101", f"cannot compile {type(target).__name__}: it is not callable")


def _caller_of(function):
    """A Python function that calls what is not written in Python."""

    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


def _compile_class(cls, settings):
    """Makes calls of the class's instances compiled ones; one compiled function for all of them."""
    method = inspect.getattr_static(cls, "__call__", None)
    if issubclass(cls, torch.nn.Module) and cls.__call__ is torch.nn.Module.__call__:
        method = cls._call_impl
    if not isinstance(method, types.FunctionType):
        raise _words.error(
            "E101", f"cannot compile the class {cls.__name__}: its instances cannot be called"
        )
    compiled = _C.CompiledFunction(method, None, method, settings)
    _compiled.add(compiled)
    cls.__call__ = compiled
    return cls


def _compile_module(module, settings):
    if is_compiled_module(module):
        module = original_module(module)
    base = type(module)
    # `_call_impl` runs the hooks and then `forward`; a class with a `__call__` of its own keeps it.
    call = base.__call__
    if call is torch.nn.Module.__call__:
        call = base._call_impl
    if isinstance(call, _C.CompiledFunction):  # of a compiled class, or a subclass of a made one
        call = call.__wrapped__
        if isinstance(call, torch.nn.Module):
            plain = type(call).__call__ is torch.nn.Module.__call__
            call = base._call_impl if plain else type(call).__call__
    compiled = _C.CompiledFunction(call, module, module, settings)
    _compiled.add(compiled)
    # Not by a call of the class, which a metaclass may refuse, or count.
    cls = _module_class(base, compiled, settings)
    made = cls.__new__(cls, module)
    cls.__init__(made, module)
    _share_states(module, made)
    return made


def _share_states(module, made):
    """`fully_shard` and the like keep what they know of a module by its identity."""
    states = sys.modules.get("torch.distributed._composable_state")
    table = getattr(states, "_module_state_mapping", None)
    if table is not None and module in table:
        table[made] = table[module]


def _module_class(base, compiled, settings):
    """A subclass of `base` whose instances share an original's state and call `compiled`."""

    def __new__(cls, original):
        return object.__new__(cls)

    def __init__(self, original):
        object.__setattr__(self, "__dict__", original.__dict__)

    def __reduce_ex__(self, protocol):
        return _restore_module, (compiled.__wrapped__, settings)

    def __deepcopy__(self, memo):
        import copy

        return _compile_module(copy.deepcopy(compiled.__wrapped__, memo), settings)

    def __copy__(self):
        import copy

        return _compile_module(copy.copy(compiled.__wrapped__), settings)

    namespace = {
        "__new__": __new__,
        "__init__": __init__,
        "__call__": staticmethod(compiled),
        "__reduce_ex__": __reduce_ex__,
        "__deepcopy__": __deepcopy__,
        "__copy__": __copy__,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "_braze_compiled": compiled,
    }
    if issubclass(base, getattr(sys.modules.get("torch.fx.graph_module"), "GraphModule", ())):
        # It changes a class: the original's, whose code is what is compiled.
        namespace["recompile"] = lambda self: compiled.__wrapped__.recompile()
    return type(base)(base.__name__, (base,), namespace)


def _restore_module(module, settings):
    return _compile_module(module, settings)


def is_compiled_module(module):
    """Whether `module` is what `compile` returned for a module."""
    return "_braze_compiled" in vars(type(module))


def original_module(module):
    """The module that `compile` was given."""
    return vars(type(module))["_braze_compiled"].__wrapped__


def is_compiled(target):
    """Whether `compile` returned it."""
    if isinstance(target, functools.partial):
        target = target.func
    return isinstance(target, _C.CompiledFunction) or is_compiled_module(target)


def compiled_function_of(target):
    """The `CompiledFunction` behind what `compile` returned."""
    if not is_compiled(target):
        raise TypeError(f"{target!r} was not made by braze.compile")
    if is_compiled_module(target):
        return vars(type(target))["_braze_compiled"]
    return target.func if isinstance(target, functools.partial) else target


def reset():
    """Forget all compiled entries of this process. The disk cache stays."""
    for compiled in list(_compiled):
        if isinstance(compiled, functools.partial):
            compiled = compiled.func
        compiled.reset()


def list_backends():
    """Names that `compile(backend=...)` takes."""
    return list(BACKENDS)
