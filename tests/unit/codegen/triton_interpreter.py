"""Runs kernels in Triton's interpreter, on the CPU: `triton_interpreter.py LIST`.

The list has, for each run, lines `kernel SOURCE NAME BLOCKS`, `buffer TYPE FILE` or
`number TYPE FILE` for each parameter, `size N` for those behind them, and `run`. Buffers are written
back. Of the machine code that Triton's compiler makes this says nothing.
"""

import importlib.util
import math
import os
import sys
import types
import warnings

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import triton.language as tl
import triton.language.extra
from triton.runtime import interpreter

TYPES = {
    "u8": (tl.uint8, np.uint8),
    "i8": (tl.int8, np.int8),
    "i16": (tl.int16, np.int16),
    "i32": (tl.int32, np.int32),
    "i64": (tl.int64, np.int64),
    "fp16": (tl.float16, np.float16),
    "bf16": (tl.bfloat16, np.uint16),
    "fp32": (tl.float32, np.float32),
    "fp64": (tl.float64, np.float64),
}
FUNCTIONS = {
    **{name: getattr(np, name) for name in ("floor", "ceil", "trunc", "rint", "exp", "exp2")},
    **{name: getattr(np, name) for name in ("expm1", "log", "log2", "log10", "log1p")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "fmod")},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}


def libdevice():
    """CUDA's functions, which the interpreter lacks, by NumPy."""

    def lifted(function):
        def call(*args):
            shaped = next(arg for arg in args if isinstance(arg, tl.tensor))
            values = [arg.handle.data if isinstance(arg, tl.tensor) else arg for arg in args]
            values = [np.asarray(value, shaped.handle.data.dtype) for value in values]
            result = np.asarray(function(*values), shaped.handle.data.dtype)
            scalar = shaped.handle.dtype.scalar
            is_block = any(isinstance(arg, tl.tensor) and arg.shape for arg in args)
            kind = tl.block_type(scalar, list(result.shape)) if is_block else scalar
            return tl.tensor(interpreter.TensorHandle(result, scalar), kind)

        return call

    module = types.ModuleType("triton.language.extra.libdevice")
    for name, function in FUNCTIONS.items():
        setattr(module, name, lifted(function))
    return module


def reduce_by_halves(self, values):
    """As threads do it, for whole arrays at a time; the interpreter's own goes by elements."""
    axis = self.axis
    parts = [value.handle.data for value in values]
    kinds = [value.handle.dtype.scalar for value in values]

    def tensor(data, kind):
        return tl.tensor(
            interpreter.TensorHandle(data, kind), tl.block_type(kind, list(data.shape))
        )

    while parts[0].shape[axis] > 1:
        half = parts[0].shape[axis] // 2
        low = [tensor(np.take(part, range(half), axis), k) for part, k in zip(parts, kinds)]
        high = [
            tensor(np.take(part, range(half, 2 * half), axis), k) for part, k in zip(parts, kinds)
        ]
        result = self.combine_fn.fn(*low, *high)
        parts = [t.handle.data for t in (result if isinstance(result, tuple) else (result,))]
    if not self.keep_dims:
        parts = [np.squeeze(part, axis) for part in parts]
    return [self.to_tensor(part if part.shape else part[()], k) for part, k in zip(parts, kinds)]


def add_by_halves(self, value):
    self.combine_fn = types.SimpleNamespace(fn=lambda a, b: a + b)
    return reduce_by_halves(self, (value,))[0]


def convert_bfloat16(values, source, target, rounding):
    """To the nearest, ties to even, as processors do; the interpreter's own cuts off."""
    if (source, target) == (tl.bfloat16, tl.float32):
        return values.astype(np.uint32) << 16
    if (source, target) != (tl.float32, tl.bfloat16):
        return convert_otherwise(values, source, target, rounding)
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FFF, rounded).astype(np.uint16)


def patch_tensor(tensor, scope):
    """A scalar is an array of one element, which NumPy takes for no index."""
    patch_tensor_otherwise(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


def splat(self, kind, scalar):
    """The result of a comparison has the dtype of its operands, though not its data."""
    data = scalar.data.reshape(-1)[0]
    full = np.full(kind.shape, data, dtype=data.dtype)
    return interpreter.TensorHandle(full, scalar.dtype.scalar)


convert_otherwise = interpreter._convert_float
patch_tensor_otherwise = interpreter._patch_lang_tensor


def load(source, name):
    spec = importlib.util.spec_from_file_location(name, source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def argument(role, kind, value):
    scalar, number = TYPES[kind]
    if role == "buffer":
        pointer = tl.pointer_type(scalar)
        address = np.array([value.ctypes.data], np.uint64)
        return tl.tensor(interpreter.TensorHandle(address, pointer), pointer)
    return tl.tensor(interpreter.TensorHandle(np.array([value], number), scalar), scalar)


def run(source, name, blocks, arguments):
    kernel = load(source, name)
    function = kernel.rewrite()
    values, written = [], []
    for role, kind, what in arguments:
        if role == "size":
            values.append(argument(role, kind, what))
            continue
        data = np.fromfile(what, TYPES[kind][1])
        values.append(argument(role, kind, data if role == "buffer" else data[0]))
        written.append((data, what))
    scope = interpreter._patch_lang(function)
    try:
        interpreter.interpreter_builder.set_grid_dim(blocks, 1, 1)
        for block in range(blocks):
            interpreter.interpreter_builder.set_grid_idx(block, 0, 0)
            function(*values)
    finally:
        scope.restore()
    for data, what in written:
        data.tofile(what)


def main(path):
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    module = libdevice()
    sys.modules["triton.language.extra.libdevice"] = module
    triton.language.extra.libdevice = module
    interpreter.ReduceOps.generic_reduce = reduce_by_halves
    interpreter.ReduceOps.sum = add_by_halves
    interpreter._convert_float = convert_bfloat16
    interpreter.InterpreterBuilder.create_splat = splat
    interpreter._patch_lang_tensor = patch_tensor
    head, arguments = None, []
    with open(path) as lines:
        for line in lines:
            role, *words = line.split()
            if role == "kernel":
                head, arguments = (words[0], words[1], int(words[2])), []
            elif role == "size":
                arguments.append((role, "i64", int(words[0])))
            elif role == "run":
                run(*head, arguments)
            else:
                arguments.append((role, words[0], words[1]))


if __name__ == "__main__":
    main(sys.argv[1])
