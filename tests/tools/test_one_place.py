"""A fact about an operator stands once: no operator has its metadata or formula in two places."""

import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src"

# Each has a formula in a decomposition and in a lowering as well, which is reached where the
# decomposition cannot give the strides, or for other dtypes; sums into places are only turned, so
# that the lowering finds their dim outermost. No operator is to join them.
# fmt: off
WITH_TWO_FORMULAS = {
    "_native_batch_norm_legit_no_training", "addcdiv", "addcmul", "copy", "elu", "empty_like",
    "empty_memory_format", "empty_strided", "fill_Scalar", "fill_Tensor", "full_like", "gelu",
    "hardsigmoid", "hardswish", "hardtanh", "index_add", "leaky_relu", "lerp_Scalar", "lerp_Tensor",
    "lift_fresh_copy", "log_sigmoid_forward", "mish", "native_batch_norm", "native_layer_norm",
    "new_empty", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "rsub_Scalar",
    "rsub_Tensor", "scalar_tensor", "scatter_add", "scatter_reduce", "scatter_reduce_two", "silu",
    "softplus", "split_Tensor", "split_with_sizes",
    "square", "stack", "std_correction", "t", "threshold", "transpose_int", "unbind_int", "zeros",
    "zeros_like",
}
# fmt: on


def names(pattern, folder, files="*.cpp"):
    """Name -> the files that have it, once for each time."""
    found = {}
    for path in sorted((SOURCES / folder).glob(files)):
        for name in re.findall(pattern, path.read_text()):
            found.setdefault(name, []).append(f"{folder}/{path.name}")
    return found


def metadata():
    rules = names(r'\{"aten\.([\w.]+)",', "graph/infer")
    for folder, files in (("trace/shapes", "*.cpp"), ("trace", "recurrent.cpp")):
        for name, places in names(r'\{"([\w.]+)", \w+\}', folder, files).items():
            rules.setdefault(name, []).extend(places)
    return rules


def test_metadata_stands_once():
    rules = metadata()
    assert len(rules) > 250
    assert {n: places for n, places in rules.items() if len(places) > 1} == {}


def test_formulas_stand_once():
    case = r"case OpKind::k(\w+):"
    decomposed = set(names(case, "passes", "decompose_*.cpp"))
    lowered = set(names(case, "loop/lowering"))
    assert decomposed and lowered
    twice = decomposed & lowered
    assert twice - WITH_TWO_FORMULAS == set(), "a decomposition and a lowering"
    assert WITH_TWO_FORMULAS - twice == set(), "these are no longer twice: take them off the list"
