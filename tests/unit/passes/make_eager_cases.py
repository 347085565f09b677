"""Writes eager_cases.txt: ops run by PyTorch, as graph text with inputs and expected outputs.

python make_eager_cases.py > eager_cases.txt
"""

import torch

aten = torch.ops.aten
DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.bool: "bool",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
}
FORMATS = {
    torch.contiguous_format: "contiguous_format",
    torch.preserve_format: "preserve_format",
    torch.channels_last: "channels_last",
}


def type_text(t, with_offset=True):
    text = f"{DTYPES[t.dtype]}[{', '.join(map(str, t.shape))}]"
    text += "{" + ", ".join(map(str, t.stride())) + "}" if t.dim() else ""
    return text + (f"+{t.storage_offset()}" if with_offset and t.storage_offset() else "")


def text(value, names):
    if isinstance(value, torch.Tensor):
        return names[id(value)]
    if value is None:
        return "None"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, torch.dtype):
        return DTYPES[value]
    if isinstance(value, torch.memory_format):
        return FORMATS[value]
    if isinstance(value, (list, tuple)):
        if any(isinstance(x, torch.Tensor) for x in value):
            mark = "?" if any(x is None for x in value) else ""
            return mark + "[" + ", ".join(text(x, names) for x in value) + "]"
        return "[" + ", ".join(text(x, names) for x in value) + "]"
    return repr(value)


def number(x):
    x = float(x)
    return "nan" if x != x else repr(x)


def case(op, *args, results=None, **kwargs):
    full = []
    for i, a in enumerate(op._schema.arguments):
        if a.kwarg_only:
            full.append(kwargs.get(a.name, a.default_value))
        else:
            full.append(args[i] if i < len(args) else a.default_value)
    tensors = []
    for a in full:
        for t in a if isinstance(a, (list, tuple)) else [a]:
            if isinstance(t, torch.Tensor) and not any(t is x for x in tensors):
                tensors.append(t)
    names = {id(t): f"%{i}" for i, t in enumerate(tensors)}
    out = op(*args, **kwargs)
    outs = list(out) if isinstance(out, (list, tuple)) else [out]
    is_view = any(a.alias_info for a in op._schema.arguments)
    keep = range(len(outs)) if results is None else results
    n = len(tensors)
    first = names[id(tensors[0])] if tensors else ""
    # Fresh values begin at offset 0 in a graph, also where eager allocates a gap in front.
    defs = ", ".join(
        f"%{n + i}: {type_text(o, is_view)}" + (f" #{first}" if is_view else "")
        for i, o in enumerate(outs)
    )
    name = op._schema.name.replace("::", ".")
    if op._schema.overload_name:
        name += "." + op._schema.overload_name
    print("graph(" + ", ".join(f"{names[id(t)]}: {type_text(t)}" for t in tensors) + ") {")
    print(f"  {defs} = {name}({', '.join(text(a, names) for a in full)})")
    print("  return " + ", ".join(f"%{n + i}" for i in keep))
    print("}")
    for t in tensors:
        print("in " + " ".join(number(x) for x in t.flatten().tolist()))
    for i in keep:
        print("out " + " ".join(number(x) for x in outs[i].flatten().tolist()))


torch.manual_seed(0)
r = torch.randn
x = r(2, 3, 4)
col = r(4, 3, 2).permute(2, 1, 0)
cl = r(2, 4, 3, 5).contiguous(memory_format=torch.channels_last)
special = torch.tensor(
    [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 100.0, -100.0, 3.0, -3.0, 0.5]
)

# Activations and pointwise composites, with special values and half precision.
for name in [
    "silu",
    "gelu",
    "hardswish",
    "hardsigmoid",
    "leaky_relu",
    "elu",
    "softplus",
    "mish",
    "hardtanh",
    "square",
    "relu",
    "sigmoid",
]:
    op = getattr(aten, name).default
    case(op, x)
    case(op, special if name != "gelu" else special[3:])  # eager's vectorised erf(inf) is NaN
    case(op, col)
    if name not in ("square",):
        case(op, x.to(torch.bfloat16))
case(aten.gelu.default, x, approximate="tanh")
case(aten.leaky_relu.default, x, 0.2)
case(aten.elu.default, x, 1.5, 2.0, 0.5)
case(aten.softplus.default, x, 2.0, 1.0)
case(aten.hardtanh.default, x, -0.5, 0.25)
case(aten.threshold.default, special, 0.1, 20.0)
case(aten.log_sigmoid_forward.default, x, results=[0])
case(aten.addcmul.default, x, r(3, 4), r(2, 1, 4), value=0.5)
case(aten.addcmul.default, torch.arange(4), torch.arange(4), torch.arange(4), value=2)
case(aten.addcdiv.default, x, r(3, 4), r(2, 1, 4), value=2)
case(aten.lerp.Scalar, x, col, 0.3)
case(aten.lerp.Scalar, x, col, 0.7)
case(aten.lerp.Tensor, x, col, torch.rand(2, 3, 4))
case(aten.rsub.Scalar, x, 1.5)
case(aten.rsub.Scalar, torch.arange(4), 1.5)
case(aten.rsub.Scalar, torch.arange(4), 2)
case(aten.rsub.Tensor, x, col, alpha=2)

# Norms.
case(aten.native_layer_norm.default, x, [4], r(4), r(4), 1e-5)
case(aten.native_layer_norm.default, x, [3, 4], r(3, 4), None, 1e-5)
case(aten.native_layer_norm.default, col, [4], None, None, 1e-5)
case(
    aten.native_layer_norm.default,
    x.bfloat16(),
    [4],
    r(4).bfloat16(),
    r(4).bfloat16(),
    1e-5,
    results=[0],
)
case(aten.native_group_norm.default, r(2, 4, 3, 5), r(4), r(4), 2, 4, 15, 2, 1e-5)
case(aten.native_group_norm.default, cl, r(4), None, 2, 4, 15, 2, 1e-5, results=[0])
for image in [r(2, 4, 3, 5), cl, r(6, 4)]:
    case(aten.native_batch_norm.default, image, r(4), r(4), r(4), torch.rand(4), False, 0.1, 1e-5)
    case(
        aten._native_batch_norm_legit_no_training.default,
        image,
        None,
        None,
        r(4),
        torch.rand(4),
        0.1,
        1e-5,
        results=[0],
    )
case(aten._fused_rms_norm.default, x, [4], r(4), 1e-6)
case(aten._fused_rms_norm.default, x, [4], None, None, results=[0])
case(aten.std.correction, x, [1], correction=1, keepdim=True)
case(aten.var_mean.correction, x, [1, 2], correction=0)

# Shapes.
case(aten.t.default, r(2, 3))
case(aten.t.default, r(2))
case(aten.transpose.int, x, 0, -1)
case(aten.split.Tensor, r(5, 3), 2, 0)
case(aten.split_with_sizes.default, x, [1, 3], 2)
case(aten.unbind.int, x, 1)
case(aten.stack.default, [r(2, 3), r(2, 3)], 1)
case(aten.linear.default, x, r(5, 4), r(5))
case(aten.linear.default, col, r(5, 4), None)
case(aten.copy.default, col, r(3, 4))
case(aten.copy.default, torch.zeros(2, 3, dtype=torch.int64), r(2, 3) * 3)
case(aten.fill.Scalar, col, 2.5)
case(aten.fill.Tensor, x, torch.tensor(1.5))
case(aten.full_like.default, x, 3.0)
case(aten.zeros_like.default, cl)
case(aten.ones_like.default, x, dtype=torch.int64)
case(aten.new_full.default, x, [2, 2], 4)
case(aten.scalar_tensor.default, 2.5)

# Metadata: layouts of elementwise results, promotion.
i32, u8, i8, b = (
    torch.arange(4, dtype=torch.int32),
    torch.arange(4).byte(),
    torch.arange(4).char(),
    torch.tensor([True, False, True, True]),
)
scalar32, scalar64 = torch.tensor(2.5), torch.tensor(2.5, dtype=torch.float64)
for left, right in [
    (i32, u8),
    (u8, i8),
    (b, i32),
    (b, 2),
    (i32, 2.5),
    (i32, scalar32),
    (i32, scalar64),
    (r(4), scalar64),
    (r(4).half(), r(4).bfloat16()),
    (r(4).half(), 2.5),
    (u8, 3),
    (torch.tensor(3), i32),
    (scalar32, scalar64),
    (b, True),
    (i8, torch.tensor(300)),
]:
    case(aten.add.Tensor, left, right)
    case(aten.mul.Tensor, left, right)
    case(aten.div.Tensor, left, right)
    case(aten.lt.Tensor if isinstance(right, torch.Tensor) else aten.lt.Scalar, left, right)
for left, right in [
    (x, col),
    (col, x),
    (col, r(4)),
    (cl, cl),
    (cl, r(4, 1, 1)),
    (cl, r(2, 4, 3, 5)),
    (x[:, ::2], x[:, ::2]),
    (r(1, 3).t(), r(3, 4)),
    (x.expand(2, 2, 3, 4), r(4)),
    (r(3, 1, 2).permute(1, 0, 2), r(5, 1, 1)),
    (r(0, 3), r(1, 3)),
]:
    case(aten.add.Tensor, left, right)
for t in [
    x,
    col,
    cl,
    x[:, ::2],
    r(3, 1).expand(3, 4),
    r(4)[::2],
    r(1, 3).t(),
    r(2, 3, 4, 5)[:, :, 1:3, ::2].permute(0, 3, 1, 2),
]:
    case(aten.clone.default, t)
    case(aten.clone.default, t, memory_format=torch.contiguous_format)
    case(aten._to_copy.default, t, dtype=torch.float64)
    case(aten._softmax.default, t, -1, False)
    case(aten.sum.dim_IntList, t, [-1], True)
    case(aten.amax.default, t, [0])
    case(aten.unsqueeze.default, t, -1)
    case(aten.unsqueeze.default, t, 0)
    case(aten.squeeze.default, t)
    case(aten.slice.Tensor, t, 0, 1, 2, 1)
    case(aten.slice.Tensor, t, 0, -2, 100, 2)
    case(aten.select.int, t, 0, -1)
    case(aten.expand.default, t, [3] + list(t.shape))
    case(aten.expand.default, t, [1] + list(t.shape))
    case(aten.slice_scatter.default, t, torch.zeros_like(t[:1]), 0, 0, 1)
    case(aten.select_scatter.default, t, torch.ones_like(t[0]), 0, -1)
case(aten.view.default, x, [6, -1])
case(aten.view.default, x, [2, 3, 2, 2])
case(aten.view.default, r(4, 6)[:, :4], [4, 2, 2])
case(aten.view.default, r(2, 1, 3).expand(2, 4, 3), [8, 3][0:0] + [2, 4, 3, 1])
case(aten.view.default, r(0, 3), [3, 0])
case(aten.diagonal.default, r(3, 4), 1)
case(aten.diagonal.default, r(2, 3, 4), -1, 1, 2)
case(aten.diagonal_scatter.default, r(3, 4), r(3), 1)
case(aten.as_strided.default, r(10), [2, 3], [3, 1], 2)
case(aten.as_strided_scatter.default, r(10), r(2, 3), [2, 3], [3, 1], 2)
case(aten.unfold.default, r(7), 0, 3, 2)
case(aten.cat.default, [x, r(2, 1, 4)], 1)
case(aten.cat.default, [r(0), x], 1)
case(aten.cat.default, [cl, cl], 1)
case(aten.cat.default, [r(2), torch.arange(2)], 0)
case(aten.embedding.default, r(5, 3), torch.tensor([[0, 4], [2, 2]]))
case(aten.gather.default, r(3, 4), 1, torch.tensor([[0, 3], [1, 1]]))
case(aten.index_select.default, r(3, 4), 1, torch.tensor([3, 0, 0]))
case(aten.index.Tensor, r(3, 4), [torch.tensor([0, -1])])
case(aten.index.Tensor, r(3, 4, 5), [None, torch.tensor([[0], [1]]), torch.tensor([0, 2])])
case(aten.index.Tensor, r(3, 4, 5), [torch.tensor([0, 2]), None, torch.tensor([0, 2])])
case(aten.max.dim, r(3, 4), 1)
case(aten.argmax.default, r(3, 4))
case(aten.sum.default, i32)
case(aten.mean.dim, x, [1], True)
case(aten.cumsum.default, r(3, 4), 1)
case(aten.where.self, x > 0, x, col)
case(aten.masked_fill.Scalar, x, x > 0, -1.0)
case(aten.clamp.default, special, -1.0, 1.0)
case(aten.maximum.default, special, special.flip(0))
case(aten.arange.default, 5)
case(aten.arange.start_step, 1, 2, 0.25)
case(aten.mm.default, r(2, 3), r(3, 4))
case(aten.bmm.default, r(2, 2, 3), r(2, 3, 4))
case(aten.addmm.default, r(4), r(2, 3), r(3, 4), beta=0.5, alpha=2)
case(aten.pow.Tensor_Scalar, x, 3)
case(aten.pow.Scalar, 2.0, col)

# Images rearranged.
for image in [r(2, 4, 3, 5), cl, r(4, 3, 5)]:
    case(aten.pixel_shuffle.default, image, 2)
    case(aten.im2col.default, image, [2, 3], [1, 2], [1, 0], [2, 1])
    case(aten.im2col.default, image, [1, 2], [1, 1], [0, 0], [1, 3])
for image in [r(2, 3, 4, 6), r(2, 3, 4, 6).contiguous(memory_format=torch.channels_last)]:
    case(aten.pixel_unshuffle.default, image, 2)
for image in [r(2, 6, 3), r(2, 6, 3, 2).contiguous(memory_format=torch.channels_last)]:
    case(aten.channel_shuffle.default, image, 3)
case(aten.col2im.default, r(2, 12, 16), [3, 6], [2, 3], [1, 1], [1, 0], [1, 1])
case(aten.col2im.default, r(4, 15), [5, 4], [1, 2], [1, 1], [0, 0], [1, 1])
case(aten.col2im.default, r(2, 8, 16), [4, 5], [2, 2], [2, 1], [1, 0], [1, 1])

# Gradients of norms.
for image in [r(2, 4, 3, 5), cl]:
    sizes, weight = (2, 4, 15, 2), r(4)
    _, mean, rstd = aten.native_group_norm(image, weight, None, *sizes, 1e-5)
    given = (torch.empty_like(image).normal_(), image, mean, rstd, weight, *sizes)
    case(aten.native_group_norm_backward.default, *given, [True, True, True])
