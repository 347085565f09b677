"""Reading and writing at places that data names, and counting."""

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32

from bench.kernels.case import Kernel


def embedding(ids, table):
    return F.embedding(ids, table)


def embedding_add_layer_norm(ids, table, positions, w, b):
    """The first layer of BERT: ids are batch x length."""
    return F.layer_norm(F.embedding(ids, table) + positions, table.shape[1:], w, b)


def index_select(x, index):
    return x.index_select(0, index)


def index_columns(x, index):
    return x[:, index]


def gather(x, index):
    return x.gather(1, index)


def scatter(x, index, source):
    return x.scatter(1, index, source)


def scatter_add(x, index, source):
    return x.scatter_add(0, index, source)


def scatter_amax(x, index, source):
    return x.scatter_reduce(0, index, source, "amax", include_self=True)


def index_add(x, index, source):
    return x.index_add(0, index, source)


def index_put_accumulating(x, index, source):
    return x.index_put((index,), source, accumulate=True)


def one_hot(ids):
    return F.one_hot(ids, 512)


def tril(x):
    return x.tril()


def bincount(ids):
    return torch.bincount(ids, minlength=1024)


def count(ids):
    """What bincount does, with a result whose size is known."""
    counts = torch.zeros(1024, dtype=ids.dtype, device=ids.device)
    return counts.index_add(0, ids, torch.ones_like(ids))


def histogram(x):
    return torch.histc(x, 256, -4.0, 4.0)


VOCABULARY, WIDTH = 50304, 768


def _table(draw, width):
    """A table of an eighth of the size, or the vocabulary's, and ids for a result of all of it."""
    width = min(width, draw.elements // 16)
    words = max(4, min(VOCABULARY, draw.elements // (8 * width)))
    return draw.normal(words, width), draw.elements // width


def _embedded(width):
    def make(draw):
        table, count = _table(draw, width)
        return draw.below(table.shape[0], count), table

    return make


def _first_layer(draw):
    table, count = _table(draw, WIDTH)
    length = min(512, count)
    width = table.shape[1]
    ids = draw.below(table.shape[0], count // length, length)
    return ids, table, draw.normal(length, width), draw.normal(width), draw.normal(width)


def _rows_of(width):
    def make(draw):
        x = draw.matrix(width)
        return x, draw.below(x.shape[0], x.shape[0])

    return make


def _columns_of(width):
    def make(draw):
        x = draw.matrix(width)
        return x, torch.randperm(x.shape[1], device=draw.device)

    return make


def _places(width):
    def make(draw):
        x = draw.matrix(width)
        return x, draw.below(x.shape[1], *x.shape)

    return make


def _written(width):
    """Each place of a row is written at most once, so that the result is the same every time."""

    def make(draw):
        x, source = draw.matrices(2, width)
        half = x.shape[1] // 2
        index = torch.rand(x.shape, device=draw.device).argsort(-1)[:, :half]
        return x, index, source[:, :half].contiguous()

    return make


def _into_few(width):
    """The rows of a matrix, by place, into an eighth as many: edges of a graph to its nodes."""

    def make(draw):
        source = draw.matrix(width)
        nodes = max(2, source.shape[0] // 8)
        index = draw.below(nodes, source.shape[0], 1).expand(source.shape)
        return draw.normal(nodes, source.shape[1]), index.contiguous(), source

    return make


def _rows_into_few(width):
    def make(draw):
        source = draw.matrix(width)
        nodes = max(2, source.shape[0] // 8)
        index = draw.below(nodes, source.shape[0])
        return draw.normal(nodes, source.shape[1]), index, source

    return make


def _ids(bound, share):
    return lambda draw: (draw.below(bound, max(8, draw.elements // share)),)


def _squares(draw):
    side = min(1024, int((draw.elements // 2) ** 0.5))
    return (draw.normal(draw.elements // (side * side), side, side),)


KERNELS = (
    Kernel("embedding_768", float16, embedding, _embedded(WIDTH), "ids table|y y",
           "dy ids dtable"),
    Kernel("embedding_4096", bfloat16, embedding, _embedded(4096), "ids table|y y",
           "dy ids dtable"),
    Kernel("embedding_add_layer_norm_768", float32, embedding_add_layer_norm, _first_layer,
           "ids table|y positions w b y"),
    Kernel("index_select_rows_512", float32, index_select, _rows_of(512), "index x|y y",
           "dy index dx"),
    Kernel("index_columns_2048", float16, index_columns, _columns_of(2048), "x index y",
           "dy index dx"),
    Kernel("gather_1024", float32, gather, _places(1024), "x index y", "dy index dx"),
    Kernel("scatter_1024", float32, scatter, _written(1024), "x index source y",
           "dy index dx dsource"),
    Kernel("scatter_add_rows_256", float32, scatter_add, _into_few(256), "x index source y",
           "dy index dsource"),
    Kernel("scatter_amax_rows_128", float32, scatter_amax, _into_few(128), "x index source y"),
    Kernel("index_add_rows_256", float32, index_add, _rows_into_few(256), "x index source y",
           "dy index dsource"),
    Kernel("index_put_accumulating_rows_512", bfloat16, index_put_accumulating,
           _rows_into_few(512), "x index source y"),
    # 64-bit results, 512 for each of few ids.
    Kernel("one_hot_512", float32, one_hot, _ids(512, 1024), "ids y"),
    Kernel("tril_1024", float16, tril, _squares, "x y", "dy dx"),
    Kernel("bincount_1024", float32, bincount, _ids(1024, 2), "ids y"),
    Kernel("count_1024", float32, count, _ids(1024, 2), "ids y"),
    Kernel("histogram_256", float32, histogram, lambda draw: (draw.matrix(4096),), "x y"),
)  # fmt: skip
