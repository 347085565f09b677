"""Lines of random programs (`tensor_programs.py`) that keep a running value along a dim or read, write
and add up in computed places, of any dtype, for sizes 0 and 1 too."""

SHAPES = [(4, 6), (6,), (1, 6), (4, 1), (3, 4, 6), (17,), (2, 33), (1,), (0,), (3, 0), (1, 1), (40, 9), (9, 40), (70, 130)]  # fmt: skip
COUNTS = [(9,), (1,), (0,), (40,), (4,), (200,)]  # elements of an index
DTYPES = ("float32",) * 4 + ("float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")  # fmt: skip
LAYOUTS = ("contiguous",) * 4 + ("transposed", "steps", "offset")

# {a}: a tensor; {d}: a dim of it; {i}: places along that dim, in a row; {s}: what {a} has in some
# places, of the shape that {i} asks for; {f}: places for each element of {s}; {e}: for each of {a}.
SCANS = [
    "{a}.cumsum({d})", "{a}.cumprod({d})", "{a}.cummax({d})[0]", "{a}.cummax({d})[1]", "{a}.cummin({d})[0]",
    "{a}.cummin({d})[1]", "{a}.logcumsumexp({d})", "{a}.cumsum({d}, dtype=torch.{dtype})", "{a}.flip({d}).cumsum({d}).flip({d})",
    "{a}.cumprod({d}, dtype=torch.{dtype})", "{a}.cumsum({d}) / ({a}.abs().sum({d}, keepdim=True) + 1)",
    "{a}.float().cummax({d})[0] - {a}", "torch.diff({a}.cumsum({d}), dim={d})",
]  # fmt: skip
ADDED = [
    "{a}.index_add({d}, {i}, {s})", "{a}.index_add({d}, {i}, {s}, alpha=2)", "{a}.scatter_add({d}, {f}, {s})", "{a}.scatter_add({d}, {e}, {a})",
    "{a}.scatter({d}, {f}, {s}, reduce='add')", "{a}.scatter({d}, {f}, {s}, reduce='multiply')", "{a}.index_reduce({d}, {i}, {s}, '{r}')",
    "{a}.scatter_reduce({d}, {f}, {s}, '{reduce}', include_self={flag})", "{a}.scatter_reduce({d}, {e}, {a} + 1, '{reduce}', include_self={flag})",
    "torch.zeros_like({a}).scatter_add({d}, {e}, {a})", "aten.index_put({a}, [{before}{i}], {s}, True)",
    "{a}.index_put(({first},), {a}.select(0, 0), accumulate=True)", "{a}.index_put(({first}, {last}), {a}.flatten()[0], accumulate=True)",
    "aten.embedding_dense_backward({a}.index_select(0, {first}).flatten(1), {first}, {a}.shape[0], {padding}, {flag})",
    "aten.index_select_backward({s}, {a}.shape, {d}, {i})", "aten.select_backward({a}.select({d}, 0), {a}.shape, {d}, 0)",
]  # fmt: skip
PUT = [
    "aten.index_put({a}, [{before}{i}], {s})", "{a}.index_put(({first},), {a}.select(0, 0))", "{a}.index_put(({first}, {last}), {a}.flatten()[0])",
    "{a}.scatter({d}, {f}, {s})", "{a}.scatter({d}, {e}, 3)", "{a}.index_fill({d}, {i}, 2)", "{a}.index_copy({d}, {i}, {s})",
    "{a}.masked_scatter({a} > 0, {a})", "{a}.index_put(({a} > 0,), {a}.flatten()[0])", "{a}.slice_scatter({a}.narrow({d}, 0, 1) * 2, {d}, 0, 1)",
    "{a}.select_scatter({a}.select({d}, -1), {d}, 0)",
]  # fmt: skip
TAKEN = [
    "{s}", "{a}.gather({d}, {e})", "{a}.gather({d}, {f})", "F.embedding({first}, {a})", "{a}[{first}]", "{a}[..., {last}]", "{a}[{first}, {last}]",
    "torch.take_along_dim({a}, {e}, {d})", "{a}.take({e} % {a}.numel())", "{a}[{first}].sum(0)", "{a}[..., {last}].cumsum(0)",
]  # fmt: skip
INPLACE = [
    "{a}.cumsum_({d})", "{a}.cumprod_({d})", "{a}.index_add_({d}, {i}, {s})", "{a}.scatter_add_({d}, {f}, {s})", "{a}[{first}] = {a}[{first}] + 1",
    "{a}.scatter_({d}, {e}, 2)", "aten.index_put_({a}, [{before}{i}], {s}, True)", "{a}[..., {last}] = 1", "{a}.scatter_reduce_({d}, {f}, {s}, '{reduce}')",
    "{a}.select({d}, 0).cumsum_(-1)", "{a}[{first}, {last}] += 1", "{a}.index_fill_({d}, {i}, 3)", "{a}.index_copy_({d}, {i}, {s})",
]  # fmt: skip


def place(rng, name, a, dim, may_miss):
    """Places along a dim of `a`: counted from its begin, from its end; now and then out of range."""
    size = f"{a}.shape[{dim}]"
    kind = rng.random()
    if may_miss and kind < 0.03:
        return f"({name} % ({size} + 1))"
    if kind < 0.15:
        return f"({name} % {size} - {size})"
    return f"({name} % {size})"


def line(rng, a, rank, in_place=False, may_miss=True):
    """An expression, or with `in_place` a statement, over the tensor of that name and the index
    inputs `i` and `j`."""
    dim = rng.randrange(rank) if rank else 0
    axis = dim if rng.random() < 0.7 else dim - max(rank, 1)
    size = f"{a}.shape[{axis}]"
    index = place(rng, rng.choice("ij"), a, axis, may_miss)
    # Operators along a dim take no places counted from its end but for index_put.
    along = index.replace(f" - {size}", "")
    source = rng.choice(
        [
            f"{a}.index_select({axis}, {along} % {size})",
            f"({a}.index_select({axis}, {along} % {size}) + 1)",
            f"{a}.index_select({axis}, {along} % {size}).flip({axis})",
        ]
    )
    view = [1] * max(rank, 1)
    view[dim] = -1
    template = rng.choice(INPLACE if in_place else rng.choice([SCANS, ADDED, PUT, TAKEN]))
    puts = "{before}" in template
    return template.format(
        a=a,
        d=axis,
        i=index if puts else along,
        s=source,
        f=f"{along}.view({view}).expand_as({source})",
        e=f"((torch.arange({a}.numel()) * {rng.choice([1, 7, 0])} + 3).view({a}.shape) % {size})",
        first=place(rng, "i", a, 0, may_miss),
        last=place(rng, "i", a, -1, may_miss),
        before="None, " * dim,
        reduce=rng.choice(["sum", "prod", "amax", "amin", "mean"]),
        r=rng.choice(["prod", "mean", "amax", "amin"]),
        flag=rng.random() < 0.5,
        padding=rng.choice([-1, 0]),
        dtype=rng.choice(["float32", "float64", "int64", "float16", "int32"]),
    )
