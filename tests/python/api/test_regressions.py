"""Programs that once gave something else than eager."""

import importlib
import sys

import braze
import pytest
import showing
import torch


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("backend", ["braze", "aten", "eager"])
def test_detached_input_is_a_tensor_of_its_own(backend):
    def f(x):
        return x.detach()

    fast = braze.compile(f, backend=backend)
    parameter = torch.nn.Parameter(torch.ones(3))
    result = fast(parameter)
    assert result is not parameter
    assert type(result) is torch.Tensor
    assert not result.requires_grad
    assert result.data_ptr() == parameter.data_ptr()


def test_change_of_a_detached_tensor_s_sizes_stays_with_it():
    def f(x):
        y = x.detach()
        y.add_(1)
        y.unsqueeze_(0)
        return x, y

    x = torch.ones(3)
    same, y = braze.compile(f)(x)
    assert same is x
    assert x.shape == (3,)
    assert y.shape == (1, 3)
    assert torch.equal(x, torch.full((3,), 2.0))


@pytest.mark.parametrize("name", ["tanh", "sin", "tan", "expm1"])
def test_zero_keeps_its_sign(name):
    x = torch.tensor([-0.0, 0.0, -1.0, 1.0] * 5)
    result = braze.compile(lambda x: getattr(torch, name)(x))(x)
    expected = getattr(torch, name)(x)
    assert torch.equal(result.signbit(), expected.signbit())
    torch.testing.assert_close(result, expected)


def test_bitwise_operators_of_floats_raise_as_in_eager(capfd):
    def f(x):
        return x & 3.0

    x = torch.ones(16)
    with pytest.raises(RuntimeError) as expected:
        f(x)
    with pytest.raises(type(expected.value)) as raised:
        braze.compile(f)(x)
    assert str(raised.value).splitlines()[0] == str(expected.value).splitlines()[0]
    assert "could not be built" not in capfd.readouterr().err


def test_any_and_all_of_integers_are_generated(capfd):
    def f(x):
        return torch.any(x, dim=1), x.any(), torch.all(x, dim=0)

    fast = braze.compile(f, fullgraph=True)
    x = torch.randint(0, 3, (9, 17))
    assert all(torch.equal(a, b) for a, b in zip(fast(x), f(x)))
    assert "could not be built" not in capfd.readouterr().err


def test_patched_tensor_method_is_noticed(monkeypatch):
    fast = braze.compile(lambda x: x.abs() + 1)
    x = torch.randn(5)
    assert torch.equal(fast(x), x.abs() + 1)
    monkeypatch.setattr(torch.Tensor, "abs", lambda s: s * 9)
    assert torch.equal(fast(x), x * 9 + 1)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_large_linear_with_gelu_keeps_values_and_nan(approximate):
    linear = torch.nn.Linear(768, 1024)

    def f(x):
        return torch.nn.functional.gelu(linear(x), approximate=approximate)

    x = torch.randn(2, 5, 768)
    x[0, 0], x[0, 1], x[0, 2], x[0, 3] = float("nan"), float("inf"), -float("inf"), 3e37
    with torch.no_grad():
        got, expected = braze.compile(f, fullgraph=True)(x), f(x)
    assert got.stride() == expected.stride()
    torch.testing.assert_close(got[0, 3], expected[0, 3], rtol=1e-4, atol=1e-6 * 3e37)
    got[0, 3] = expected[0, 3] = 0
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_cached_function_of_a_second_functools_is_called_once():
    # What `test.support.import_helper.import_fresh_module` gives: another wrapper type of that name.
    saved = sys.modules.pop("_functools")
    try:
        second = importlib.import_module("_functools")
    finally:
        sys.modules["_functools"] = saved
    cached = second._lru_cache_wrapper(lambda n: n * 2, 10, False, second_cache_info)

    def f(x, n):
        return x * cached(n)

    fast = braze.compile(f)
    for n in (1, 2, 3, 1):
        assert torch.equal(fast(torch.ones(2), n), torch.full((2,), 2.0 * n))
    assert cached.cache_info()[:2] == (1, 3)


def second_cache_info(*numbers):
    return numbers


def test_lines_of_a_caught_exception():
    def fail():
        try:
            1 / 0
        except ZeroDivisionError:
            raise

    def lines():
        try:
            fail()
        except ZeroDivisionError as error:
            entry, found = error.__traceback__, []
        while entry:
            found.append((entry.tb_frame.f_code.co_name, entry.tb_lineno))
            entry = entry.tb_next
        return found

    fast = braze.compile(lines)
    assert lines() == fast() == fast()


def test_number_minus_unsigned_integers():
    fn = lambda x: (0.5 - x, torch.rsub(x, 2.5), 3 - x)
    for dtype in (torch.uint8, torch.int8, torch.int64):
        x = torch.arange(6).to(dtype)
        for ours, theirs in zip(braze.compile(fn)(x), fn(x), strict=True):
            torch.testing.assert_close(ours, theirs)


@torch.library.custom_op("braze_regressions::add_one", mutates_args=("x",))
def add_one(x: torch.Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("braze_regressions::five_zeros", mutates_args=())
def five_zeros(x: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(5)


@five_zeros.register_fake
def _(x):
    return x.new_zeros(3)  # not so


@pytest.mark.parametrize("broken", [False, True])
def test_failing_after_a_write_does_not_write_twice(broken, capfd):
    def fn(x):
        if broken:
            print("a break")
        add_one(x)
        return five_zeros(x).sum()

    fast, x = braze.compile(fn), torch.zeros(2)
    assert fast(x) == 0 and x.tolist() == [1, 1]
    assert "runs in eager from now on" in capfd.readouterr().err
    assert fast(x) == 0 and x.tolist() == [2, 2]


REFUSED = {
    "convolution without a place": lambda x: torch.conv2d(x[None, None], torch.ones(1, 1, 3, 1)),
    "kernel of no size": lambda x: torch.conv2d(x[None, None], torch.ones(1, 1, 0, 1)),
    "pool without a place": lambda x: torch.nn.functional.avg_pool2d(x[:, None], 2),
    "expanded to less than nothing": lambda x: x.expand(-1, 2, 3),
    "bits of floats": lambda x: x.double().clone().bitwise_and_(x.double()),
    "a view beyond the memory": lambda x: x.as_strided((2, 4), (4, 1)),
    "sizes that do not fit": lambda x: x.view(x.size(0) * 4, -1),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_what_the_sizes_or_dtypes_refuse_raises(name, used, dynamic):
    """Also where the result is not used, and in a later call with another size."""

    def fn(x):
        result = "caught"
        try:
            made = REFUSED[name](x)
            result = made if used else "no error"
        except (RuntimeError, NotImplementedError) as error:
            result = type(error), str(error).split("\n")[0]
        return x + 1, result

    fast = braze.compile(fn, dynamic=dynamic)
    for rows in (2, 2, 3, 4, 2):
        x = torch.ones(rows, 3)
        torch.testing.assert_close(fast(x)[0], fn(x)[0])
        expected, got = fn(x)[1], fast(x)[1]
        assert type(got) is type(expected)
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(got, expected)
        else:
            assert got == expected


@pytest.mark.parametrize("backend", ["aten", None])
def test_a_written_copy_has_memory_of_its_own_size(backend):
    """It is no copy of all the memory that the original is a small part of."""

    def fn(x):
        return x[-1][::2].clone().add_(1)

    fast = braze.compile(fn, **({"backend": backend} if backend else {}))
    x = torch.arange(8.0).reshape(4, 2)
    for _ in range(2):
        expected, got = fn(x), fast(x)
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride()
        assert got.storage_offset() == expected.storage_offset() == 0
        assert got.untyped_storage().nbytes() == expected.untyped_storage().nbytes()


# Before 2.13 no groups at all end the process, in eager.
GROUPS = (1, 2, 3, 0) if torch.__version__ >= "2.13" else (1, 2, 3)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "shape", [(2, 4, 3, 3), (1, 4, 1, 3), (2, 4, 5), (2, 4, 2, 3, 3), (0, 4, 3)]
)
def test_shuffled_channels_keep_their_format(shape, dynamic):
    def f(x, groups):
        return torch.native_channel_shuffle(x, groups)

    fast = braze.compile(f, dynamic=dynamic)
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    x = torch.randn(shape)
    for given in (x, x.to(memory_format=formats.get(x.dim(), torch.contiguous_format)), x.mT):
        for groups in GROUPS:
            expected = showing.outcome(f, given, groups)
            got = showing.outcome(fast, given, groups)
            assert showing.same(expected, got), (expected, got)
            if expected[0][0] == "returned":
                assert fast(given, groups).stride() == f(given, groups).stride()


def test_shuffled_channels_have_no_gradient():
    def f(x):
        return torch.native_channel_shuffle(x, 2).square().sum()

    told = []
    for call in (f, braze.compile(f)):
        x = torch.ones(1, 4, 3, 6, requires_grad=True)
        with torch.enable_grad(), pytest.raises(RuntimeError) as info:
            call(x).backward()
        told.append(str(info.value))
    assert told[0] == told[1]
