"""`options={"rng": "counter"}`: other numbers than eager's, of the same distributions."""

import math

import braze
import pytest
import torch
from torch.nn import functional as F

COUNTER = {"rng": "counter"}
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
COUNT = 40_000


def compiled(function, **settings):
    return braze.compile(function, options=COUNTER, **settings)


def drawn(function, *args, seed=0, **settings):
    """What a fresh compiled callable gives behind `torch.manual_seed(seed)`."""
    torch.manual_seed(seed)
    return compiled(function, **settings)(*args)


def distance(values, cdf):
    """Kolmogorov and Smirnov's: the largest between the empirical and a continuous cdf."""
    values = values.double().flatten().sort().values
    count = len(values)
    at = cdf(values)
    steps = torch.arange(count + 1, dtype=torch.float64) / count
    return torch.maximum((at - steps[:-1]).abs().max(), (steps[1:] - at).abs().max()).item()


# Where eager's own draws of this many are once in about 10^5 seeds.
LIMIT = 2.5 / math.sqrt(COUNT)


def normal_cdf(x):
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


CONTINUOUS = {
    "rand": (lambda x: torch.rand_like(x), lambda v: v.clamp(0, 1)),
    "randn": (lambda x: torch.randn_like(x), normal_cdf),
    "uniform_": (lambda x: torch.empty_like(x).uniform_(-1, 3), lambda v: (v + 1) / 4),
    "normal_": (lambda x: torch.empty_like(x).normal_(1, 2), lambda v: normal_cdf((v - 1) / 2)),
    "normal around": (lambda x: torch.normal(x, 2.0), lambda v: normal_cdf(v / 2)),
    "exponential_": (
        lambda x: torch.empty_like(x).exponential_(2.0),
        lambda v: 1 - torch.exp(-2 * v),
    ),
    "cauchy_": (
        lambda x: torch.empty_like(x).cauchy_(1, 2),
        lambda v: 0.5 + torch.atan((v - 1) / 2) / math.pi,
    ),
    "log_normal_": (
        lambda x: torch.empty_like(x).log_normal_(0.5, 0.25),
        lambda v: normal_cdf((v.log() - 0.5) / 0.25),
    ),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name, dtype):
    function, cdf = CONTINUOUS[name]
    x = torch.zeros(COUNT // 100, 100, dtype=dtype)
    values = drawn(function, x, seed=1)
    eager = function(x)
    assert (values.dtype, values.shape, values.stride()) == (dtype, x.shape, eager.stride())
    # Halves are steps of a continuous distribution: as wide as those of eager's.
    steps = {torch.float16: 2e-3, torch.bfloat16: 1.2e-2}.get(dtype, 0)
    assert distance(values, cdf) < LIMIT + steps
    if name == "rand":
        assert values.min() >= 0 and values.max() < 1
        assert abs(values.double().mean().item() - 0.5) < 0.01 + steps
        assert abs(values.double().var().item() - 1 / 12) < 0.003
    if name == "exponential_":
        assert values.min() > 0


COUNTED = {
    "randint": (lambda x: torch.randint(10, x.shape), 0, [0.1] * 10),
    "randint between": (
        lambda x: torch.randint(-3, 4, x.shape, dtype=torch.int32),
        -3,
        [1 / 7] * 7,
    ),
    "randint of bytes": (
        lambda x: torch.randint(0, 256, x.shape, dtype=torch.uint8),
        0,
        [1 / 256] * 256,
    ),
    "randint_like": (lambda x: torch.randint_like(x, 5), 0, [0.2] * 5),
    "randint_like between": (lambda x: torch.randint_like(x, 2, 6), 2, [0.25] * 4),
    "random_ below": (lambda x: torch.empty_like(x).random_(7), 0, [1 / 7] * 7),
    "random_ of bools": (lambda x: torch.empty_like(x, dtype=torch.bool).random_(), 0, [0.5] * 2),
    "random_ of bytes": (
        lambda x: torch.empty_like(x, dtype=torch.int8).random_(),
        0,
        [1 / 128] * 128,
    ),
    "bernoulli": (lambda x: torch.bernoulli(x + 0.3), 0, [0.7, 0.3]),
    "bernoulli of p": (lambda x: torch.bernoulli(x, 0.3), 0, [0.7, 0.3]),
    "bernoulli_": (lambda x: torch.empty_like(x).bernoulli_(0.9), 0, [0.1, 0.9]),
    "bernoulli_ of a tensor": (lambda x: torch.empty_like(x).bernoulli_(x + 0.2), 0, [0.8, 0.2]),
    "bernoulli_ of bools": (
        lambda x: torch.empty_like(x, dtype=torch.bool).bernoulli_(0.25),
        0,
        [0.75, 0.25],
    ),
    "geometric_": (
        lambda x: torch.empty_like(x).geometric_(0.5).clamp(max=8),
        1,
        [0.5**k for k in range(1, 8)] + [0.5**7],
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_counted_distributions(name):
    """Pearson's test of frequencies; a bound that is passed once in about 10^5 seeds."""
    function, first, shares = COUNTED[name]
    x = torch.zeros(COUNT // 100, 100)
    values, eager = drawn(function, x, seed=2), function(x)
    assert (values.dtype, values.shape, values.stride()) == (
        eager.dtype,
        eager.shape,
        eager.stride(),
    )
    counts = torch.bincount(values.flatten().long() - first, minlength=len(shares)).double()
    assert len(counts) == len(shares)
    expected = torch.tensor(shares, dtype=torch.float64) * COUNT
    freedom = len(shares) - 1
    chi_square = ((counts - expected) ** 2 / expected).sum().item()
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom) + 15


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64, torch.float32])
def test_wide_integers(dtype):
    """random_() of a wide dtype: its whole range, evenly."""
    values = drawn(lambda x: torch.empty_like(x, dtype=dtype).random_(), torch.zeros(COUNT))
    top = 2**24 + 1 if dtype.is_floating_point else torch.iinfo(dtype).max
    assert values.dtype == dtype and values.min() >= 0
    assert distance(values.double() / top, lambda v: v) < LIMIT + 1e-4


def two_of_each(x):
    return (
        torch.rand_like(x),
        torch.rand_like(x),
        F.dropout(x + 1, 0.5),
        torch.randn(x.shape[0], 3),
        torch.randint(1000, (x.shape[0],)),
    )


def test_a_seed_gives_the_same_again_and_calls_differ():
    f = compiled(two_of_each)
    x = torch.zeros(30, 7)
    torch.manual_seed(5)
    first, second = f(x), f(x)
    torch.manual_seed(5)
    again = f(x)
    for a, b, c in zip(first, second, again, strict=True):
        assert torch.equal(a, c)
        assert not torch.equal(a, b)
    assert not torch.equal(first[0], first[1]), "operators have numbers of their own"


def test_numbers_do_not_depend_on_how_they_are_computed():
    """Not on sizes that are symbols, kernels, threads, or what else is in the kernel."""
    x = torch.zeros(61, 37)
    want = drawn(two_of_each, x)
    for settings in ({"dynamic": True}, {"dynamic": False}, {"backend": "aten"}):
        for a, b in zip(drawn(two_of_each, x, **settings), want, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    alone = drawn(lambda x: torch.rand_like(x), x)
    assert torch.equal(alone, want[0])
    transposed = drawn(lambda x: torch.rand_like(x).t() * 1, x)
    assert torch.equal(transposed, want[0].t())
    summed = drawn(lambda x: torch.rand_like(x).sum(1), x)
    torch.testing.assert_close(summed, want[0].sum(1))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        large = drawn(lambda x: torch.rand_like(x), torch.zeros(300_007))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(drawn(lambda x: torch.rand_like(x), torch.zeros(300_007)), large)


def test_one_callable_for_all_sizes():
    f = compiled(lambda x: torch.rand_like(x) + x)
    for rows in (5, 6, 7, 100):
        x = torch.zeros(rows, 11)
        torch.manual_seed(3)
        assert torch.equal(f(x), drawn(lambda x: torch.rand_like(x) + x, x, seed=3))


def test_a_call_draws_one_seed():
    """The default generator is the same steps further, whatever the call draws."""
    states = []
    for function in (lambda x: torch.rand_like(x), two_of_each):
        for rows in (3, 50):
            drawn(function, torch.zeros(rows, 4))
            states.append(torch.get_rng_state())
    for state in states:
        assert torch.equal(state, states[0])
    torch.manual_seed(0)
    assert not torch.equal(torch.get_rng_state(), states[0])


def test_strides_are_those_of_eager():
    x = torch.zeros(6, 5, 4).permute(2, 0, 1)

    def f(x):
        return torch.rand_like(x), torch.randn_like(x), F.dropout(x, 0.5), torch.bernoulli(x)

    for got, want in zip(drawn(f, x), f(x), strict=True):
        assert (got.shape, got.stride(), got.dtype) == (want.shape, want.stride(), want.dtype)


def test_dropout_is_one_kernel_with_what_is_around_it():
    def f(x, y):
        return F.dropout(F.gelu(x), 0.1) + y

    x = torch.ones(32, 64)
    report = braze.explain(f, options=COUNTER)(x, x).details
    assert report.count("kernel fused_") == 1, report


def test_probabilities_are_checked_as_in_eager():
    def f(x):
        return torch.bernoulli(x) + 1

    g = compiled(f)
    torch.manual_seed(0)
    g(torch.full((8,), 0.5))
    state = torch.get_rng_state()
    for bad in (torch.full((8,), 1.5), torch.full((8,), math.nan)):
        with pytest.raises(RuntimeError) as raised:
            f(bad)
        torch.set_rng_state(state)
        with pytest.raises(RuntimeError) as compiled_raised:
            g(bad)
        assert str(compiled_raised.value) == str(raised.value)


def test_a_call_that_runs_again_in_eager_draws_from_where_it_began():
    def f(x, index):
        y = torch.rand(4)
        return y + x[index]

    g = compiled(f)
    x = torch.zeros(10)
    g(x, torch.tensor([1, 2, 3, 4]))
    state = torch.get_rng_state()
    bad = torch.tensor([1, 2, 3, 40])
    with pytest.raises(IndexError):
        f(x, bad)
    want = torch.get_rng_state()
    torch.set_rng_state(state)
    with pytest.raises(IndexError):
        g(x, bad)
    assert torch.equal(torch.get_rng_state(), want)


def test_operators_without_a_formula_draw_as_in_eager():
    def f(x):
        generator = torch.Generator().manual_seed(3)
        return torch.randperm(20), torch.rand(5, generator=generator)

    got = drawn(f, torch.ones(1))
    torch.manual_seed(0)
    for value, eager in zip(got, f(torch.ones(1)), strict=True):
        assert torch.equal(value, eager)


@pytest.mark.parametrize("options", [None, {}, {"rng": "eager"}])
def test_the_default_is_eager_s_numbers(options):
    x = torch.zeros(30, 7)
    torch.manual_seed(9)
    want, state = two_of_each(x), torch.get_rng_state()
    torch.manual_seed(9)
    got = braze.compile(two_of_each, options=options)(x)
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("word", ["philox", "", None, True])
def test_another_word_is_an_error(word):
    with pytest.raises(ValueError, match="rng must be one of 'eager', 'counter'"):
        braze.compile(torch.rand, options={"rng": word})


def test_the_operator_is_what_kernels_compute():
    """torch.ops.braze.random, which runs where there are no kernels."""
    for dtype in (*FLOATS, torch.int32, torch.int64):
        torch.manual_seed(0)
        seed = torch.randint(0, 2**63 - 1, (), dtype=torch.int64)
        want = torch.ops.braze.random(seed, 0, [700], dtype)
        assert want.dtype == dtype and want.shape == (700,)
        if dtype.is_floating_point:
            assert torch.equal(
                drawn(
                    lambda x, dtype=dtype: torch.rand(700, dtype=dtype) * x,
                    torch.ones((), dtype=dtype),
                ),
                want,
            )
    zero = torch.tensor(0)
    words = torch.ops.braze.random(zero, 0, [64], torch.int32)
    known = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert [int(words[16 * i]) % 2**32 for i in range(4)] == known
