"""What eager refuses because of the data raises the same: used or not, caught or not, behind effects."""

import warnings

import braze
import pytest
import torch
import torch.nn.functional as F
from support import compare, entries, outcome, same

X = torch.arange(12.0).reshape(3, 4)


def i64(*values):
    return torch.tensor(values)


def diagonal(i):
    return torch.diag(i.float())


SIXES = i64(6, 7, 8, 9)
GOOD, PAST, BELOW, ZERO = i64(1, 0, 2, 1), i64(1, 3, 2, 1), i64(1, -1, 2, 1), i64(1, 0, 2, 1)
WHOLE = i64(1, 3, 2, 1)
# Operator: the call, data that it takes, data that it refuses.
OPERATORS = {
    "gather": (lambda x, i: x.gather(0, i[None]), GOOD, PAST),
    "gather of ones": (lambda x, i: torch.ones(3).gather(0, i), GOOD, PAST),
    "gather of one row": (lambda x, i: x[:1].gather(0, i[None]), i64(0, 0), i64(0, 1)),
    "gather of columns": (lambda x, i: x[:, :1].expand(3, 4).gather(1, i.expand(3, 4)), GOOD, 9 - GOOD),
    "gather of places": (lambda x, i: torch.arange(3).gather(0, i) * 0, GOOD, PAST),
    "places compared": (lambda x, i: torch.arange(3).gather(0, i) < 3, GOOD, PAST),
    "index_select": (lambda x, i: x.index_select(0, i), GOOD, PAST),
    "index_select of ones": (lambda x, i: torch.ones(3, 2).index_select(0, i), GOOD, BELOW),
    "index_select of no columns": (lambda x, i: x[:, :0].index_select(0, i), GOOD, PAST),
    "embedding of no columns": (lambda x, i: F.embedding(i, x[:, :0].contiguous()), GOOD, PAST),
    "embedding of no columns, joined": (
        lambda x, i: torch.cat([F.embedding(i[:3], torch.ones(3, 0)), x], 1), GOOD, PAST),
    "index": (lambda x, i: x[i], GOOD, PAST),
    "index below": (lambda x, i: x[i], BELOW, i64(1, -4, 2, 1)),
    "index of a constant": (lambda x, i: torch.full((3, 4), 2.0)[i], GOOD, PAST),
    "two indices": (lambda x, i: torch.ones(3, 3)[i[:2, None], i], GOOD, PAST),
    "behind a copy": (lambda x, i: x.roll(1)[i], GOOD, PAST),
    "index_put": (lambda x, i: x.index_put((i,), torch.tensor(1.0)), GOOD, PAST),
    "an item assigned": (lambda x, i: x.__setitem__(i, 5.0), GOOD, PAST),
    "embedding": (lambda x, i: F.embedding(i, x), GOOD, PAST),
    "embedding renormalised": (lambda x, i: F.embedding(i, x, max_norm=1.0), GOOD, PAST),
    "embedding_bag": (lambda x, i: F.embedding_bag(i[None], x), GOOD, PAST),
    "scatter": (lambda x, i: x.scatter(0, i[None], 1.0), GOOD, PAST),
    "scatter_": (lambda x, i: x.scatter_(0, i[None], 1.0), GOOD, PAST),
    "scatter_add": (lambda x, i: x.scatter_add(0, i[None], x), GOOD, PAST),
    "scatter_reduce": (lambda x, i: x.scatter_reduce(0, i[None], x, "amax"), GOOD, PAST),
    "index_add_": (lambda x, i: x.index_add_(0, i[:3], x.clone()), GOOD, PAST),
    "index_copy": (lambda x, i: x.index_copy(0, i[:3], x), GOOD, PAST),
    "index_fill": (lambda x, i: x.index_fill(0, i, 1.0), GOOD, PAST),
    "one_hot": (lambda x, i: F.one_hot(i, 3), GOOD, PAST),
    "one_hot below": (lambda x, i: F.one_hot(i, 4), GOOD, BELOW),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i[:3]), GOOD, i64(1, 5, 2)),
    "nll_loss": (lambda x, i: F.nll_loss(x, i[:3]), GOOD, i64(1, -5, 2)),
    "multi_margin_loss": (lambda x, i: F.multi_margin_loss(x, i[:3]), GOOD, i64(1, 5, 2)),
    "multilabel_margin_loss": (lambda x, i: F.multilabel_margin_loss(x[0], i), i64(1, 0, 2, -1), i64(1, 5, 2, 1)),
    "take": (lambda x, i: torch.take(x, i), GOOD, i64(1, 12, 2, 1)),
    "put_": (lambda x, i: x.put_(i, torch.ones(4)), GOOD, i64(1, 12, 2, 1)),
    "//": (lambda x, i: SIXES // i, WHOLE, ZERO),
    "%": (lambda x, i: SIXES % i, WHOLE, ZERO),
    "number //": (lambda x, i: 7 // i, WHOLE, ZERO),
    "fmod": (lambda x, i: torch.fmod(SIXES, i), WHOLE, ZERO),
    "div": (lambda x, i: torch.div(SIXES, i, rounding_mode="trunc"), WHOLE, ZERO),
    "floor_divide_": (lambda x, i: SIXES.clone().floor_divide_(i), WHOLE, ZERO),
    "multinomial": (lambda x, i: torch.multinomial(i.float(), 2), GOOD, BELOW),
    "bernoulli": (lambda x, i: torch.bernoulli(i.float()), i64(1, 0, 1, 1), GOOD),
    "bernoulli_": (lambda x, i: x[0].clone().bernoulli_(i.double()), i64(1, 0, 1, 1), GOOD),
    "poisson": (lambda x, i: torch.poisson(i.float()), GOOD, BELOW),
    "normal": (lambda x, i: torch.normal(0.0, i.float()), GOOD, BELOW),
    "cholesky": (lambda x, i: torch.linalg.cholesky(diagonal(i)), WHOLE, BELOW),
    "inv": (lambda x, i: torch.linalg.inv(diagonal(i)), WHOLE, ZERO),
    "solve": (lambda x, i: torch.linalg.solve(diagonal(i), torch.ones(4)), WHOLE, ZERO),
    "eigh": (lambda x, i: torch.linalg.eigvalsh(diagonal(1 / i)), WHOLE, ZERO),
    "lu_solve": (lambda x, i: torch.linalg.lu_solve(torch.eye(4), i.int(), X.t()), i64(1, 2, 3, 4), ZERO),
    "lu_unpack": (lambda x, i: torch.lu_unpack(torch.eye(4), i.int())[0], i64(1, 2, 3, 4), i64(1, 0, 2, 9)),
    "repeat_interleave": (lambda x, i: x.repeat_interleave(i, 1, output_size=7), WHOLE, i64(1, -1, 5, 2)),
    "bincount": (lambda x, i: torch.bincount(i, minlength=5), WHOLE, BELOW),
    "searchsorted": (lambda x, i: torch.searchsorted(x[0], x[1], sorter=i), i64(0, 1, 2, 3), i64(0, 1, 2, 7)),
    "binary_cross_entropy": (lambda x, i: F.binary_cross_entropy(i.float(), torch.ones(4)), i64(1, 0, 1, 1), GOOD),
    "histc": (lambda x, i: torch.histc(1 / i, 3), WHOLE, ZERO),
    "masked_scatter": (lambda x, i: x[0].masked_scatter(i > 0, torch.ones(2)), i64(1, 0, 0, 1), WHOLE),
    "_assert_async": (lambda x, i: torch._assert_async((i > 0).all(), "words"), WHOLE, ZERO),
    "_assert": (lambda x, i: torch._assert(bool((i > 0).all()), "words"), WHOLE, ZERO),
    "narrow": (lambda x, i: x.narrow(1, i[0], 2), WHOLE, i64(3)),
    "select": (lambda x, i: x[i[0]], WHOLE, i64(7)),
    "max_unpool1d": (lambda x, i: F.max_unpool1d(x[None, :1], i[None, None], 2), i64(1, 3, 2, 7), i64(1, 0, 2, 9)),
    "segment_reduce": (lambda x, i: torch.segment_reduce(x[0], "sum", lengths=i), i64(1, 1, 1, 1), i64(2, -1, 2, 1)),
    "quantile": (lambda x, i: x.quantile(i / 4), WHOLE, i64(9)),
}  # fmt: skip
ERRORS = (RuntimeError, IndexError, ValueError)


def used(op):
    return lambda x, i, log: op(x, i)


def unused(op):
    def f(x, i, log):
        op(x, i)
        return x + 1

    return f


def caught(op):
    """Behind a write, a print, an appended item and a random number; before the same."""

    def f(x, i, log):
        y = x * 2
        x.add_(1)
        log.append(torch.rand(2))
        print("before")
        try:
            op(y, i)
        except ERRORS as error:
            log.append(str(error))
            log.append(torch.rand(2))
            x.mul_(2)
        x.sub_(3)
        print("behind")
        return torch.rand(2), y

    return f


def behind_a_random_write(op):
    def f(x, i, log):
        x.uniform_()
        y = x * 2
        log.append(1)
        try:
            op(y, i)
        except ERRORS:
            x.mul_(2)
        return y

    return f


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", [used, unused, caught, behind_a_random_write])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, mode):
    op, good, bad = OPERATORS[name]
    calls = [lambda i=i: (X.clone(), i.clone(), []) for i in (good, bad, good)]
    assert outcome(op, calls[1]()[:2], {})[0] == "raised"
    compare(lambda: mode(op), calls, dynamic=True if mode in (unused, caught) else None)


READERS = {
    "a part": lambda r: r[..., :1] + 1,
    "one": lambda r: r.reshape(-1)[0],
    "sizes": lambda r: torch.zeros_like(r),
    "a length": lambda r: torch.ones(r.shape[0]),
    "nothing": lambda r: r.expand(0, *r.shape) + 1,
    "overwritten": lambda r: (r * 2).fill_(3),
    "diagonal": lambda r: torch.diagonal(r, dim1=-2, dim2=-1),
    "a window": lambda r: r.unfold(-1, 1, 2),
    "a cut": lambda r: F.pad(r, (-1, 0)),
    "joined": lambda r: torch.cat([r, r * 2]),
    "in a place": lambda r: torch.zeros(9, *r.shape[1:]).index_fill_(0, torch.tensor([0]), 1.0),
    "twice": lambda r: (r + 1, (r * 2).sum(0)),
    "softmax": lambda r: r.float().softmax(-1),
    "gathered again": lambda r: r[torch.tensor([0])],
}


@pytest.mark.parametrize("reader", READERS)
def test_indices_that_nothing_depends_on(reader):
    """The kernels that read a part of what was gathered, or none of it."""
    sources = {
        "rows": lambda x: x,
        "ones": lambda x: torch.ones(3, 4),
        "a row": lambda x: x[0].expand(3, 4),
        "places": lambda x: torch.arange(3)[:, None].expand(3, 4),
    }
    read = READERS[reader]
    for source in sources.values():

        def f(x, i, log, source=source):
            return read(source(x)[i]), read(source(x).gather(0, i[:, None].expand(4, 4))), x * 2

        compare(lambda f=f: f, [lambda i=i: (X.clone(), i, []) for i in (GOOD, PAST, GOOD)])


def test_indices_of_tensors_made_in_the_code():
    def f(x):
        torch.ones(3).gather(0, torch.tensor([7]))
        return x + 1

    def g(x):
        try:
            (torch.ones(3)[torch.tensor([1, 5])] > 0).any()
        except IndexError as error:
            return str(error), x
        return x + 1

    for fn in (f, g):
        compare(lambda fn=fn: fn, [lambda: (X.clone(),)] * 2)


def test_unused_results_of_what_cannot_fail_are_dropped():
    def f(x, i):
        torch.lgamma(x), x.sort(), i % 3, x // x, x.cumsum(0), x.view(-1), F.interpolate(x[None], 2)
        return x + 1

    fast = braze.compile(f)
    same(fast(X, GOOD), f(X, GOOD))
    assert len(entries(fast)) == 1
    plan = braze.explain(f)(X, GOOD).entries[0]["plan"]
    assert "kernel" in plan and "aten." not in plan, plan


@pytest.fixture(scope="module")
def noted():
    library = torch.library.Library("data_errors", "FRAGMENT")
    notes = []
    library.define("note(Tensor x) -> ()")
    library.define("twice(Tensor(a!) x) -> ()")
    library.impl("note", lambda x: notes.append(float(x.sum())), "CPU")
    library.impl("note", lambda x: None, "Meta")
    library.impl("twice", lambda x: x.mul_(2) and None, "CPU")
    library.impl("twice", lambda x: None, "Meta")
    yield notes
    library._destroy()


def test_effects_of_custom_operators_happen_once(noted):
    note = torch.ops.data_errors.note

    def before(x, i):
        note(x)
        return x[i], x + 1

    def behind(x, i):
        x[i]
        note(x + 1)
        return x * 2

    def between(x, i):
        note(x)
        try:
            x[i]
        except IndexError:
            note(x + 2)
        note(x + 3)
        return x + 4

    for fn in (before, behind, between):
        told = []
        for function in (fn, braze.compile(fn)):
            noted.clear()
            results = [outcome(function, (X.clone(), i), {})[:2] for i in (GOOD, PAST, GOOD, PAST)]
            told.append(([(kind, str(value)) for kind, value in results], list(noted)))
        assert told[0] == told[1]


def test_writes_of_custom_operators_are_undone(noted):
    def f(x, i):
        torch.ops.data_errors.twice(x)
        x[i]
        return x + 1

    compare(lambda: f, [lambda i=i: (X.clone(), i) for i in (GOOD, PAST, GOOD)])


def test_random_numbers_of_a_call_that_runs_again():
    def f(x, i):
        y = F.dropout(x, 0.5) + torch.randn(4)
        return y[i], torch.rand(2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(lambda: f, [lambda i=i: (X.clone(), i) for i in (GOOD, PAST, GOOD)])


@pytest.mark.parametrize("dynamic", [None, True])
def test_gather_along_a_dim_of_no_elements(dynamic):
    places = torch.zeros(2, 33, dtype=torch.long)
    compare(
        lambda: lambda x, i: x.gather(1, i) + 1,
        [lambda: (torch.ones(2, 0), places)],
        dynamic=dynamic,
    )
