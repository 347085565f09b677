"""PyTorch's flex_attention as a plain tensor program, for capture.

On a GPU, for halves, that is an operator of Braze's own, which compiled graphs have kernels for
(`src/trace/flex_attention.h`): the user's functions are programs that these compute for each score.
Else it is the form that PyTorch calls its math form: the matrix of scores in float32 (float64 for
such queries), what `score_mod` makes of it where `mask_mod` is true, a softmax, and a product with
the values. The user's functions are of single numbers. PyTorch applies them with `vmap`; a capture
evaluates them once, over the scores and over positions that broadcast to them. `_C.elementwise`
makes a break of what would not be the same.

Bad arguments, and those of kinds that are rare, are left to PyTorch's own function.
"""

import importlib
import math
import types

import torch

from . import _C

# The module has a function of its own name.
_flex = importlib.import_module("torch.nn.attention.flex_attention")
_operator = importlib.import_module("torch._higher_order_ops.flex_attention")

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_BACKENDS = ("AUTO", "TRITON", "TRITON_DECODE")
# Private names of PyTorch's may be gone in another version, where its own function runs then.
_NAMES = (
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "create_mask",
    "noop_mask",
    "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG",
    "_LARGE_SPARSE_BLOCK_SIZE",
    "_ModificationType",
    "_apply_kernel_options",
    "_dense_to_ordered",
    "_get_mod_type",
    "_ordered_to_dense",
    "_validate_device",
)
_IS_KNOWN = all(hasattr(_flex, name) for name in _NAMES) and hasattr(_operator, "_permute_strides")
_LAST_IS_INNERMOST = _IS_KNOWN and "remove" in _operator._permute_strides.__code__.co_names
_TAKES_AUTOCAST = hasattr(_operator, "_flex_attention_autocast_impl")


# Under another identity, so that it is not replaced.
_flex_attention_of_pytorch = types.FunctionType(
    _flex.flex_attention.__code__,
    _flex.flex_attention.__globals__,
    "flex_attention",
    _flex.flex_attention.__defaults__,
)
_flex_attention_of_pytorch.__kwdefaults__ = _flex.flex_attention.__kwdefaults__


def flex_attention(
    query,
    key,
    value,
    score_mod=None,
    block_mask=None,
    scale=None,
    enable_gqa=False,
    return_lse=False,
    kernel_options=None,
    *,
    return_aux=None,
):
    """`query` [B, Hq, Q, E], `key` [B, Hkv, K, E], `value` [B, Hkv, K, Ev] give [B, Hq, Q, Ev]."""
    usual = (
        _are_usual_tensors(query, key, value, enable_gqa)
        and _is_usual_mask(block_mask, query, key)
        and (score_mod is None or callable(score_mod))
        and (scale is None or isinstance(scale, (int, float)))
        and (return_aux is None or (isinstance(return_aux, _flex.AuxRequest) and not return_lse))
        and _are_usual_options(kernel_options)
        and not _flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG
    )
    if not usual:
        return _flex_attention_of_pytorch(
            query,
            key,
            value,
            score_mod,
            block_mask,
            scale,
            enable_gqa,
            return_lse,
            kernel_options,
            return_aux=return_aux,
        )
    _flex._validate_device(query, key, value)
    _flex._apply_kernel_options(query, key, value, return_lse, kernel_options, return_aux)
    if scale is None:
        scale = 1.0 / math.sqrt(query.size(-1))
    device = query.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        query, key, value = (_autocast(tensor, dtype) for tensor in (query, key, value))
        with torch.autocast(device, enabled=False):
            return _attend(query, key, value, score_mod, block_mask, scale, return_lse, return_aux)
    return _attend(query, key, value, score_mod, block_mask, scale, return_lse, return_aux)


def _are_usual_tensors(query, key, value, enable_gqa):
    for tensor in (query, key, value):
        if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or tensor.dim() != 4:
            return False
        if tensor.dtype is not query.dtype or tensor.device != query.device:
            return False
        for size in tensor.shape:
            if size == 0:
                return False
    if query.dtype not in _DTYPES or query.device.type not in ("cpu", "cuda"):
        return False
    if not _TAKES_AUTOCAST and torch.is_autocast_enabled(query.device.type):
        return False
    if key.shape[:3] != value.shape[:3] or query.shape[3] != key.shape[3]:
        return False
    if query.shape[1] != key.shape[1] and not (enable_gqa and query.shape[1] % key.shape[1] == 0):
        return False
    return query.shape[0] == key.shape[0] or key.shape[0] == 1


def _is_usual_mask(block_mask, query, key):
    if block_mask is None:
        return query.shape[0] == key.shape[0]
    if type(block_mask) is not _flex.BlockMask or not callable(block_mask.mask_mod):
        return False
    if block_mask.mask_mod is getattr(_flex, "_sliced_mask_mod_error", None):
        return False
    if query.shape[0] != key.shape[0] and block_mask.kv_num_blocks.size(0) != query.shape[0]:
        return False
    if block_mask.q_indices is None and torch.is_grad_enabled():
        return False
    whole = _flex._LARGE_SPARSE_BLOCK_SIZE
    if block_mask.BLOCK_SIZE[0] != whole or block_mask.BLOCK_SIZE[1] != whole:
        lengths = block_mask.shape[-2:]
        if query.shape[2] != lengths[0] or key.shape[2] != lengths[1]:
            return False
    return block_mask.kv_num_blocks.device == query.device


def _are_usual_options(kernel_options):
    if kernel_options is None:
        return True
    if "FORCE_USE_FLEX_ATTENTION" in kernel_options and "BACKEND" in kernel_options:
        return False
    return kernel_options.get("BACKEND", "AUTO") in _BACKENDS


def _autocast(tensor, dtype):
    return tensor if tensor.dtype is torch.float64 else tensor.to(dtype)


def _attend(query, key, value, score_mod, block_mask, scale, return_lse, return_aux):
    if return_aux is None or not return_aux.max_scores:
        made = _by_kernels(query, key, value, score_mod, block_mask, scale)
        if made is not None:
            out, lse = made
            if return_aux is not None:
                return out, _flex.AuxOutput(lse=lse if return_aux.lse else None, max_scores=None)
            return made if return_lse else out
    scores = _scores(query, key, score_mod, block_mask, scale)
    return _results(scores, query, value, return_lse, return_aux)


# Devices that have kernels for it, and of what.
_KERNEL_DEVICES = ("cuda",)
_KERNEL_DTYPES = (torch.float16, torch.bfloat16)
_MOST_DEPTH = 128


def _by_kernels(query, key, value, score_mod, block_mask, scale):
    """The result, and the logarithms of sums, of `braze.flex_attention`; None where it is not for
    them."""
    if query.device.type not in _KERNEL_DEVICES or query.dtype not in _KERNEL_DTYPES:
        return None
    for depth in (query.shape[3], value.shape[3]):
        if depth > _MOST_DEPTH or depth % 8 != 0:
            return None
    sizes = (*query.shape[:3], key.shape[2])
    # What stands for a score: never computed.
    scores = torch.empty(sizes, dtype=torch.float32, device=query.device)
    tangent = torch.empty(sizes, dtype=torch.float32, device=query.device)
    positions = _unknown_positions(scores)
    changed = _changed_scores(scores, positions, score_mod)
    if changed.dtype is not torch.float32:
        return None
    gradient = tangent
    if torch.is_grad_enabled():
        if changed.requires_grad:  # what the function closes over has a gradient
            return None
        needs_gradient = query.requires_grad or key.requires_grad or value.requires_grad
        if needs_gradient and score_mod is not None:
            scores.requires_grad_()
            changed = _changed_scores(scores, positions, score_mod)
            gradient = None
            if changed.requires_grad:
                (gradient,) = torch.autograd.grad(changed, scores, tangent, allow_unused=True)
            if gradient is None:
                gradient = torch.zeros((), dtype=torch.float32, device=query.device)
            gradient = gradient.detach()
            changed = changed.detach()
    outputs = (changed, gradient)
    has_mask = block_mask is not None and block_mask.mask_mod is not _flex.noop_mask
    if has_mask:
        outputs = (changed, gradient, _mask(block_mask, positions))
    made = _C.element_program((scores, tangent), positions, outputs)
    if made is None:
        return None
    program, tables = made
    block, key_blocks, query_blocks = (0, 0), [], []
    whole = _flex._LARGE_SPARSE_BLOCK_SIZE
    if has_mask and whole not in block_mask.BLOCK_SIZE:
        block = block_mask.BLOCK_SIZE
        key_blocks = _block_lists(block_mask, "kv")
        if block_mask.q_indices is not None:
            query_blocks = _block_lists(block_mask, "q")
    if key.shape[0] != query.shape[0]:
        key = key.expand(query.shape[0], *key.shape[1:])
        value = value.expand(query.shape[0], *value.shape[1:])
    strides = _wanted_strides((*query.shape[:3], value.shape[3]), query.stride())
    return torch.ops.braze.flex_attention(
        query, key, value, tables, key_blocks, query_blocks, program, scale, block, strides
    )


def _block_lists(block_mask, side):
    names = (f"{side}_num_blocks", f"{side}_indices")
    lists = [getattr(block_mask, name) for name in names]
    for name in names:
        whole = getattr(block_mask, f"full_{name}")
        if whole is not None:
            lists.append(whole)
    return lists


def _unknown_positions(scores):
    """Which a capture would know: data that the functions read, as if there were one position, is a
    break."""
    unknown = scores.new_zeros((), dtype=torch.int64)
    return tuple(index + unknown for index in _positions(scores.shape, scores.device))


def _changed_scores(scores, positions, score_mod):
    if score_mod is None:
        return scores
    changed = _C.elementwise(score_mod, (scores, *positions))
    if changed.dtype.is_complex:
        _C.decline("flex_attention: its score_mod gives complex numbers")
    if changed.shape != scores.shape:
        changed = changed.expand(scores.shape)
    if not changed.is_floating_point():
        changed = changed.to(scores.dtype)
    return changed


def _mask(block_mask, positions):
    mask = _C.elementwise(block_mask.mask_mod, positions)
    if mask.dtype is not torch.bool:
        _C.decline(f"flex_attention: its mask_mod gives {mask.dtype}")
    return mask


def _scores(query, key, score_mod, block_mask, scale):
    """[B, Hq, Q, K], -inf where the mask is false."""
    dtype = torch.float64 if query.dtype is torch.float64 else torch.float32
    key = _for_each_query(key, query)
    scores = query.to(dtype) @ key.to(dtype).transpose(-2, -1)
    scores = (scores * scale).to(dtype)
    positions = _unknown_positions(scores)
    changed = _changed_scores(scores, positions, score_mod)
    if block_mask is None or block_mask.mask_mod is _flex.noop_mask:
        return changed
    mask = _mask(block_mask, positions)
    nothing = torch.full((), -math.inf, dtype=dtype, device=scores.device)
    return torch.where(mask, changed, nothing)


def _for_each_query(tensor, query):
    """Heads of keys, or values, are shared by as many neighbouring heads of queries."""
    groups = query.shape[1] // tensor.shape[1]
    if groups != 1:
        tensor = tensor.repeat_interleave(groups, dim=1)
    if tensor.shape[0] != query.shape[0]:
        tensor = tensor.expand(query.shape[0], *tensor.shape[1:])
    return tensor


def _positions(sizes, device):
    """For each of the four dimensions its indices, which broadcast."""
    positions = []
    for dim, size in enumerate(sizes):
        shape = [1, 1, 1, 1]
        shape[dim] = size
        positions.append(torch.arange(0, size, device=device).view(shape))
    return tuple(positions)


def _results(scores, query, value, return_lse, return_aux):
    value = _for_each_query(value, query)
    weights = torch._safe_softmax(scores, dim=-1)
    out = _laid_out_like(weights.to(query.dtype) @ value.to(query.dtype), query.stride())
    lse = highest = None
    if return_lse or (return_aux is not None and return_aux.lse):
        is_masked = torch.all(scores == -math.inf, dim=-1)
        # Without gradients that are no numbers where all of a row is -inf.
        sums = torch.where(is_masked.unsqueeze(-1), 0.0, scores).logsumexp(dim=-1)
        # To the base 2 and back, as PyTorch's kernels have it.
        lse = torch.where(is_masked, -math.inf, sums) / math.log(2) * math.log(2)
    if return_aux is None:
        return (out, lse) if return_lse else out
    if return_aux.max_scores:
        highest = torch.max(scores.detach(), dim=-1)[0] / math.log(2) * math.log(2)
    return out, _flex.AuxOutput(lse=lse, max_scores=highest)


def _laid_out_like(out, strides):
    """In the order of dimensions that the query has, but with the last one innermost."""
    wanted = _wanted_strides(out.shape, strides)
    if out.stride() == wanted:
        return out
    laid_out = torch.empty_strided(out.shape, wanted, dtype=out.dtype, device=out.device)
    return laid_out.copy_(out)


def _wanted_strides(sizes, strides):
    # Of equal strides the last dimension comes first.
    order = sorted((0, 1, 2, 3), key=lambda dim: (strides[dim], -dim))
    wanted = _dense_strides(sizes, order)
    if wanted[3] != 1 and _LAST_IS_INNERMOST:
        order.remove(3)
        wanted = _dense_strides(sizes, [3, *order])
    return wanted


def _dense_strides(sizes, order):
    strides, step = [0, 0, 0, 0], 1
    for dim in order:
        strides[dim] = step
        step = step * sizes[dim]
    return tuple(strides)


_DEFAULT_DEVICE = _flex.create_mask.__defaults__[-1] if _IS_KNOWN else None


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=_DEFAULT_DEVICE):
    """[B, H, Q_LEN, KV_LEN]: what a mask_mod gives, or where a score_mod gives no -inf."""
    if device is None:
        device = torch.accelerator.current_accelerator() or "cpu"
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    positions = _positions(sizes, device)
    if _flex._get_mod_type(mod_fn) is _flex._ModificationType.SCORE_MOD:
        changed = _C.elementwise(mod_fn, (torch.zeros(sizes, device=device), *positions))
        return torch.where(torch.isneginf(changed.expand(sizes)), False, True)
    return _C.elementwise(mod_fn, positions).expand(sizes)


def ordered_to_dense(num_blocks_in_row, col_indices, num_cols=None):
    """[..., rows], [..., rows, entries] give [..., rows, num_cols] of int32: 1 for each entry."""
    if num_cols is None:
        num_cols = col_indices.shape[-1]
    entries = torch.arange(col_indices.shape[-1], dtype=torch.int32, device=col_indices.device)
    is_one = entries < num_blocks_in_row.unsqueeze(-1)
    # What is none goes to a column of its own.
    columns = torch.where(is_one, col_indices, num_cols).to(torch.int64)
    dense = torch.zeros(
        (*col_indices.shape[:-1], num_cols + 1), dtype=torch.int32, device=col_indices.device
    )
    return dense.scatter(-1, columns, 1)[..., :num_cols].contiguous()


def dense_to_ordered(dense_mask):
    """[..., rows, columns] of 0 and 1: how many ones each row has, and columns, those first."""
    dense_mask = dense_mask.to(torch.int32)
    columns = torch.argsort(dense_mask, dim=-1, descending=True, stable=True)
    return (
        dense_mask.sum(dim=-1).to(torch.int32, memory_format=torch.contiguous_format),
        columns.to(torch.int32, memory_format=torch.contiguous_format),
    )


SUBSTITUTES = {}
if _IS_KNOWN:
    SUBSTITUTES = {
        _flex.flex_attention: flex_attention,
        _flex.create_mask: create_mask,
        _flex._ordered_to_dense: ordered_to_dense,
        _flex._dense_to_ordered: dense_to_ordered,
    }
