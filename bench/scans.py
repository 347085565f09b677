"""Cases of the `scans` suite: operators that keep a running value along a dimension or add up in
computed places, each in some sizes, against eager."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

aten = torch.ops.aten


@dataclass(frozen=True)
class Operator:
    """function(*arguments(size)) for each of the sizes."""

    name: str
    function: Callable
    arguments: Callable[[tuple[int, ...]], tuple[torch.Tensor, ...]]
    sizes: tuple[tuple[int, ...], ...]


THREADS = (1, 2)
SCANNED = ((64, 64), (512, 1024), (4096, 256))  # rows, columns
ADDED = ((64, 32, 16), (5000, 512, 64), (20_000, 1000, 256))  # sources, places, columns
TABLES = ((64, 100, 32), (8192, 30_522, 768), (2048, 50_257, 256))  # tokens, rows, columns


def _matrix(size):
    return (torch.randn(size),)


def _rows(size):
    sources, places, columns = size
    index = torch.randint(0, places, (sources,))
    return torch.randn(places, columns), index, torch.randn(sources, columns)


def _unique_rows(size):
    sources, places, columns = size
    count = min(sources, places)
    index = torch.randperm(places)[:count]
    return torch.randn(places, columns), index, torch.randn(count, columns)


def _elements(size):
    sources, places, columns = size
    rows = max(sources // 64, 1)
    index = torch.randint(0, places, (rows, columns))
    return torch.randn(rows, places), index, torch.randn(rows, columns)


def _tokens(size):
    tokens, rows, columns = size
    return torch.randn(tokens, columns), torch.randint(0, rows, (tokens,)), rows


def _expanded(x, index, source, reduce):
    return x.scatter_reduce(0, index[:, None].expand_as(source), source, reduce)


def _put(x, index, source, accumulate):
    return x.index_put((index,), source, accumulate)


def _into_zeros(x, index, source):
    return torch.zeros_like(x).scatter_add(1, index, source)


OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        Operator("cumsum of rows", lambda x: x.cumsum(1), _matrix, SCANNED),
        Operator("cumsum of columns", lambda x: x.cumsum(0), _matrix, SCANNED),
        Operator("cumprod of rows", lambda x: x.cumprod(1), _matrix, SCANNED),
        Operator("cumprod of columns", lambda x: x.cumprod(0), _matrix, SCANNED),
        Operator("cummax of rows", lambda x: x.cummax(1), _matrix, SCANNED),
        Operator("cummax of columns", lambda x: x.cummax(0), _matrix, SCANNED),
        Operator("cummin of rows", lambda x: x.cummin(1), _matrix, SCANNED),
        Operator("cummin of columns", lambda x: x.cummin(0), _matrix, SCANNED),
        Operator("logcumsumexp of rows", lambda x: x.logcumsumexp(1), _matrix, SCANNED),
        Operator("logcumsumexp of columns", lambda x: x.logcumsumexp(0), _matrix, SCANNED),
        Operator("index_add", lambda x, i, s: x.index_add(0, i, s), _rows, ADDED),
        Operator("index_put, accumulated", lambda *a: _put(*a, True), _rows, ADDED),
        Operator("index_put", lambda *a: _put(*a, False), _unique_rows, ADDED),
        Operator("scatter_add of rows", lambda *a: _expanded(*a, "sum"), _rows, ADDED),
        Operator("scatter_reduce of rows", lambda *a: _expanded(*a, "amax"), _rows, ADDED),
        Operator("scatter_add", lambda x, i, s: x.scatter_add(1, i, s), _elements, ADDED),
        Operator("scatter_reduce", lambda x, *a: x.scatter_reduce(1, *a, "prod"), _elements, ADDED),
        Operator("gradient of gather", _into_zeros, _elements, ADDED),
        Operator(
            "gradient of an embedding",
            lambda g, i, n: aten.embedding_dense_backward(g, i, n, 0, False),
            _tokens,
            TABLES,
        ),
    )
}  # fmt: skip
