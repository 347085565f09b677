"""What is compared: each compiler with its imports, its cache folder and its way to be called."""

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Compiler:
    name: str
    title: str
    # Imported before the clock starts; a first `torch.compile` imports most of these by itself.
    modules: tuple[str, ...]
    cache_variables: tuple[str, ...]
    compile: Callable
    # In training: the function that has the backward in it is compiled, not the module.
    whole_steps: bool = False


def _torch_compile(function, **options):
    import torch

    return torch.compile(function, fullgraph=True, **options)


def _braze_compile(function, **options):
    import braze

    return braze.compile(function, fullgraph=True, **options)


def _identity(function, **options):
    return function


COMPILERS = {
    compiler.name: compiler
    for compiler in (
        Compiler("eager", "eager", (), (), _identity),
        Compiler(
            "inductor",
            "torch.compile",
            ("torch._dynamo", "torch._inductor.compile_fx"),
            ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"),
            _torch_compile,
        ),
        Compiler("braze", "Braze", ("braze",), ("BRAZE_CACHE_DIR",), _braze_compile),
        # Calls on a GPU are CUDA graphs.
        Compiler(
            "inductor_graphs",
            "torch.compile, reduce-overhead",
            ("torch._dynamo", "torch._inductor.compile_fx"),
            ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"),
            functools.partial(_torch_compile, mode="reduce-overhead"),
        ),
        Compiler(
            "braze_graphs",
            "Braze, reduce-overhead",
            ("braze",),
            ("BRAZE_CACHE_DIR",),
            functools.partial(_braze_compile, mode="reduce-overhead"),
        ),
        Compiler(
            "braze_triton",
            "Braze, kernels in Triton",
            ("braze",),
            ("BRAZE_CACHE_DIR", "TRITON_CACHE_DIR"),
            functools.partial(_braze_compile, options={"gpu_codegen": "triton"}),
        ),
        Compiler(
            "braze_steps",
            "Braze, whole steps",
            ("braze",),
            ("BRAZE_CACHE_DIR",),
            _braze_compile,
            whole_steps=True,
        ),
    )
}


def load(name: str) -> Callable:
    """Imports what the compiler needs and gives its compile function."""
    compiler = COMPILERS[name]
    for module in compiler.modules:
        importlib.import_module(module)
    return compiler.compile


def keep_graphs() -> None:
    """Lets a backward of torch.compile run more than once: by default it takes over the memory that
    was kept for it."""
    config = importlib.import_module("torch._functorch.config")
    config.donated_buffer = False


def guard_check(compiled, arguments) -> Callable[[], bool] | None:
    """A call that binds arguments and checks guards without running anything, if Braze has one."""
    from braze import _C, _api

    function = _api.compiled_function_of(compiled)
    for bound in (arguments, (compiled, *arguments)):
        if _C.check_only(function, *bound):
            return functools.partial(_C.check_only, function, *bound)
    return None
