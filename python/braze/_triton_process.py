"""A process of Triton's compiler: `_triton_process.py JOBS RESULTS`, for `_triton.py`.

JOBS: a list of [path of the source, name of the kernel, flags] (`src/codegen/triton/codegen.h`).
It is run as a file, so that neither Braze nor PyTorch is imported.
"""

import base64
import importlib.util
import json
import re
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler as backend
from triton.compiler import ASTSource

# Small numbers are not flushed, as of CUDA C++; before Triton 3.6 there is no option for that.
if not hasattr(backend.CUDAOptions, "enable_reflect_ftz"):
    backend.nvidia.set_nvvm_reflect_ftz = lambda module: None


def kernel_of(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def compiled(path, name, flags):
    """What `triton.compile` gives for these flags, and the number of arguments."""
    told = dict(flag.split("=", 1) for flag in flags)
    kernel = kernel_of(path, name)
    types = told["signature"].split(",") if told["signature"] else []
    signature, attributes = {}, {}
    for i, (argument, text) in enumerate(zip(kernel.arg_names, types, strict=True)):
        signature[argument], _, divisor = text.partition(":")
        if divisor:
            attributes[(i,)] = [["tt.divisibility", int(divisor)]]
    options = {
        "num_warps": int(told["warps"]),
        # As CUDA C++ is compiled: nothing is contracted.
        "enable_fp_fusion": False,
        "enable_reflect_ftz": False,
        "debug": "asserts" in told,
        "sanitize_overflow": False,
    }
    made = triton.compile(
        ASTSource(kernel, signature, {}, attributes),
        target=GPUTarget("cuda", int(told["sm"]), 32),
        options=options,
    )
    return made, len(types)


def result_of(path, name, flags):
    made, count = compiled(path, name, flags)
    for scratch in ("global_scratch_size", "profile_scratch_size"):
        if getattr(made.metadata, scratch, 0):
            raise RuntimeError(f"{name} wants memory of its own ({scratch})")
    # Behind the arguments a kernel takes pointers, whose number depends on Triton's version.
    entry = re.search(r"\.entry\s+\w+\s*\(([^)]*)\)", made.asm["ptx"])
    taken = len(re.findall(r"\.param\b", entry.group(1))) if entry else count
    return {
        "shared": made.metadata.shared,
        "pointers": taken - count,
        "cubin": base64.b64encode(made.asm["cubin"]).decode(),
    }


def main(jobs, results):
    with open(jobs) as file:
        todo = json.load(file)
    done = []
    for path, name, flags in todo:
        try:
            done.append(result_of(path, name, flags))
        except Exception as error:  # told to who asked
            done.append({"error": f"{name}: {type(error).__name__}: {error}"[:4000]})
    with open(results, "w") as file:
        json.dump(done, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
