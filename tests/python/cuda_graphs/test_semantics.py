"""mode="reduce-overhead" is seen by its speed alone: values, memory, random numbers as in eager."""

import gc
import threading

import braze
import pytest
import torch
import torch.nn as nn
from braze import _cuda_graphs
from graphs import DEVICE, Net, counts, fast, layers, reasons, recording, tensor

_recording = pytest.fixture(autouse=True)(recording)


def test_calls_that_repeat_are_one_launch():
    call = fast(layers)
    x, w = tensor(8, 16), tensor(16, 16, seed=1)
    with torch.no_grad():
        for _ in range(6):
            torch.testing.assert_close(call(x, w), layers(x, w))
    recorded, launched = counts(call)
    assert recorded == 1 and launched == 5


def test_other_tensors_each_time():
    call = fast(layers)
    w = tensor(16, 16, seed=1)
    kept = []
    with torch.no_grad():
        for seed in range(12):
            x = tensor(8, 16, seed=seed)
            kept.append(x)  # so that none lies where another one did
            torch.testing.assert_close(call(x, w), layers(x, w))
    recorded, launched = counts(call)
    assert recorded <= 2 and launched >= 9


@pytest.mark.parametrize("held", [1, 2, 3, 10])
def test_no_result_is_written_over_while_somebody_has_it(held):
    call = fast(layers)
    w = tensor(16, 16, seed=1)
    results = []
    with torch.no_grad():
        for seed in range(20):
            x = tensor(8, 16, seed=seed)
            results.append((call(x, w), layers(x, w)))
            del results[:-held]
            for got, expected in results:
                torch.testing.assert_close(got, expected)
    assert counts(call)[1] >= 5


def test_a_view_of_a_result_holds_its_memory():
    call = fast(lambda x, w: layers(x, w))
    w = tensor(16, 16, seed=1)
    with torch.no_grad():
        views = []
        for seed in range(8):
            x = tensor(8, 16, seed=seed)
            views.append((call(x, w)[1:3].t(), layers(x, w)[1:3].t()))
        for got, expected in views:
            torch.testing.assert_close(got, expected)


def test_results_outlive_the_function():
    call = fast(layers)
    x, w = tensor(8, 16), tensor(16, 16, seed=1)
    with torch.no_grad():
        for _ in range(3):
            result = call(x, w)
        expected = layers(x, w)
    assert counts(call)[0] >= 1
    del call
    braze.reset()
    gc.collect()
    other = [torch.full((8, 16), 7.0, device=DEVICE) for _ in range(50)]
    torch.testing.assert_close(result, expected)
    assert len(other) == 50


def results_with_views(x, w):
    y = (x @ w).relu()
    z = y.softmax(-1)
    return y, y.t(), y[1:], z.view(-1), x, x[0]


def test_results_share_memory_as_in_eager():
    call = fast(results_with_views)
    w = tensor(16, 16, seed=1)
    with torch.no_grad():
        for seed in range(6):
            x = tensor(8, 16, seed=seed)
            got, expected = call(x, w), results_with_views(x, w)
            for a, b in zip(got, expected, strict=True):
                torch.testing.assert_close(a, b)
                assert a.stride() == b.stride()
            assert got[4] is x
            got[0].add_(1)
            got[5].mul_(2)
            torch.testing.assert_close(got[1], got[0].t())
            torch.testing.assert_close(got[2], got[0][1:])
            torch.testing.assert_close(got[5], x[0])
            assert got[1]._base is not None and got[0]._version == got[1]._version


def count_up(state, x):
    state.add_(1)
    state.mul_(x.sum().sigmoid())
    return state @ x


def test_inputs_that_are_written_to():
    call = fast(count_up)
    state, twin = tensor(4, 4), tensor(4, 4)
    with torch.no_grad():
        for seed in range(8):
            x = tensor(4, 4, seed=seed)
            torch.testing.assert_close(call(state, x), count_up(twin, x))
            torch.testing.assert_close(state, twin)
            assert state._version == twin._version
        assert counts(call)[1] >= 5
        # Another tensor in its place, and the first one again.
        other, other_twin = tensor(4, 4, seed=50), tensor(4, 4, seed=50)
        for seed in range(8):
            x = tensor(4, 4, seed=seed)
            torch.testing.assert_close(call(other, x), count_up(other_twin, x))
            torch.testing.assert_close(call(state, x), count_up(twin, x))
        torch.testing.assert_close(state, twin)
        torch.testing.assert_close(other, other_twin)


@pytest.mark.parametrize("backend", ["braze", "aten", "eager"])
def test_inputs_that_share_memory(backend):
    def shared(state, part, x):
        state.add_(x)
        return part * 2, (state @ x).relu() @ x

    call = fast(shared, backend=backend)
    kept = []
    with torch.no_grad():
        for seed in range(8):
            x = tensor(4, 4, seed=seed)
            state, twin = tensor(4, 4), tensor(4, 4)
            kept.append((state, x))
            got = call(state, state[1:], x)
            for a, b in zip(got, shared(twin, twin[1:], x), strict=True):
                torch.testing.assert_close(a, b)
            torch.testing.assert_close(state, twin)


def test_a_written_input_that_is_another_one_each_time():
    call = fast(count_up)
    kept = []
    with torch.no_grad():
        for seed in range(30):
            state, twin, x = tensor(4, 4), tensor(4, 4), tensor(4, 4, seed=seed)
            kept.append(state)
            torch.testing.assert_close(call(state, x), count_up(twin, x))
            torch.testing.assert_close(state, twin)


def test_numbers_of_the_call():
    def scaled(x, factor):
        return (x * factor).softmax(-1) @ x + factor

    call = fast(scaled, dynamic=True)
    x = tensor(8, 8)
    with torch.no_grad():
        for step in range(10):
            torch.testing.assert_close(call(x, step * 0.1), scaled(x, step * 0.1))


def test_sizes_that_vary():
    call = fast(layers)
    w = tensor(16, 16, seed=1)
    with torch.no_grad():
        for _ in range(3):
            for rows in (8, 5, 12, 3):
                x = tensor(rows, 16, seed=rows)
                for _ in range(2):
                    torch.testing.assert_close(call(x, w), layers(x, w))
    assert counts(call)[1] > 0


def test_endlessly_many_sizes_end_the_recording():
    call = fast(layers, dynamic=True)
    w = tensor(16, 16, seed=1)
    with torch.no_grad():
        for rows in range(2, 80):
            x = tensor(rows, 16)
            for _ in range(3):
                torch.testing.assert_close(call(x, w), layers(x, w))
    assert counts(call)[0] < 40


def test_random_numbers_are_eagers():
    dropout = nn.Dropout(0.5)

    def noisy(x, w):
        return dropout(torch.relu(x @ w)) + torch.rand_like(x)

    call = fast(noisy)
    x, w = tensor(16, 16), tensor(16, 16, seed=1)
    with torch.no_grad():
        torch.manual_seed(3)
        got = [call(x, w) for _ in range(6)]
        after = torch.rand(3, device=DEVICE)
        torch.manual_seed(3)
        expected = [noisy(x, w) for _ in range(6)]
        assert torch.equal(after, torch.rand(3, device=DEVICE))
    assert all(torch.allclose(a, b) for a, b in zip(got, expected, strict=True)), [
        (a - b).abs().max().item() for a, b in zip(got, expected, strict=True)
    ]
    assert counts(call)[0] >= 1


def test_models_by_turns():
    torch.manual_seed(0)
    models = [Net().to(DEVICE) for _ in range(3)]
    calls = [fast(model) for model in models]
    with torch.no_grad():
        kept = []
        for seed in range(8):
            x = tensor(8, 16, seed=seed)
            for call, model in zip(calls, models, strict=True):
                kept.append((call(x), model(x)))
            del kept[:-4]
            for got, expected in kept:
                torch.testing.assert_close(got, expected)


def test_what_one_gives_the_next_takes():
    torch.manual_seed(0)
    first, second = nn.Linear(16, 16).to(DEVICE), Net().to(DEVICE)
    f, g = fast(lambda x: first(x).relu().tanh() @ first.weight), fast(second)
    with torch.no_grad():
        for seed in range(8):
            x = tensor(8, 16, seed=seed)
            expected = second((first(x)).relu().tanh() @ first.weight)
            torch.testing.assert_close(g(f(x)), expected)
    assert counts(g)[1] >= 4


def test_parameters_that_are_replaced():
    torch.manual_seed(0)
    model = Net().to(DEVICE)
    call = fast(model)
    with torch.no_grad():
        for round in range(4):
            for seed in range(4):
                x = tensor(8, 16, seed=seed)
                torch.testing.assert_close(call(x), model(x))
            for parameter in model.parameters():
                parameter.data = parameter.data * (1 + 0.1 * round)


def test_threads():
    torch.manual_seed(0)
    model = Net().to(DEVICE)
    call = fast(model)
    failures = []

    def run(seed):
        try:
            with torch.no_grad():
                for i in range(20):
                    x = tensor(8, 16, seed=seed * 100 + i)
                    torch.testing.assert_close(call(x), model(x))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_strided_and_empty_inputs():
    call = fast(layers)
    w = tensor(16, 16, seed=1)
    with torch.no_grad():
        for seed in range(5):
            for x in (
                tensor(16, 8, seed=seed).t(),
                tensor(8, 32, seed=seed)[:, ::2],
                tensor(1, 16, seed=seed).expand(8, 16),
                tensor(0, 16),
            ):
                torch.testing.assert_close(call(x, w), layers(x, w))


def test_it_says_why_there_is_none():
    def reads(x):
        y = x.relu() @ x
        return y[y > 0].sum() + y.sum()

    call = fast(reads)
    x = tensor(4, 4)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(call(x), reads(x))
    assert counts(call)[1] == 0 or "reads data" in reasons(call) or "recorded" in reasons(call)


@pytest.mark.skipif(DEVICE == "cpu", reason="needs an NVIDIA GPU; a machine with one lifts it")
def test_a_recording_that_fails(monkeypatch):
    def noisy(x, w):
        return torch.rand_like(x) + torch.relu(x @ w).mul(2) @ w

    good = fast(noisy)
    bad = fast(lambda x, w: noisy(x, w) + 1)
    x, w = tensor(8, 16), tensor(16, 16, seed=1)
    finish = _cuda_graphs._Recording.finish

    def wait(recording, has_numbers):
        torch.cuda.synchronize()
        return finish(recording, has_numbers)

    with torch.no_grad():
        for _ in range(3):
            good(x, w)
        assert counts(good)[0] == 1
        with monkeypatch.context() as patch:
            patch.setattr(_cuda_graphs._Recording, "finish", wait)
            torch.manual_seed(1)
            got = [(bad(x, w), good(x, w)) for _ in range(5)]
        torch.manual_seed(1)
        for a, b in got:
            torch.testing.assert_close(a, noisy(x, w) + 1)
            torch.testing.assert_close(b, noisy(x, w))
        assert counts(bad) == (0, 0)
        assert "none, as" in reasons(bad)
        other = fast(lambda x, w: noisy(x, w) + 2)
        torch.manual_seed(1)
        got = [other(x, w) for _ in range(4)]
        torch.manual_seed(1)
        for a in got:
            torch.testing.assert_close(a, noisy(x, w) + 2)
        assert counts(other)[0] >= 1


def test_explain_tells():
    text = braze.explain(layers, mode="reduce-overhead")(tensor(8, 16), tensor(16, 16))
    assert "CUDA graphs: none yet" in text


def test_words():
    with pytest.raises(TypeError, match="cuda_graphs must be True or False"):
        braze.compile(layers, options={"cuda_graphs": 1})
    call = braze.compile(layers, options={"cuda_graphs": True})
    x, w = tensor(8, 16), tensor(16, 16)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(call(x, w), layers(x, w))
    assert counts(call)[0] == 1
    off = braze.compile(layers, mode="reduce-overhead", options={"cuda_graphs": False})
    with torch.no_grad():
        for _ in range(3):
            off(x, w)
    assert counts(off) == (0, 0)


@pytest.mark.skipif(DEVICE == "cpu", reason="needs an NVIDIA GPU; a machine with one lifts it")
def test_a_recording_that_never_begins(monkeypatch):
    def nothing():
        raise RuntimeError("no pool")

    def fn(x, w):
        return torch.relu(x @ w).mul(2) @ w

    first, second = fast(fn), fast(lambda x, w: fn(x, w) + 1)
    x, w = tensor(8, 16), tensor(16, 16, seed=1)
    with torch.no_grad():
        with monkeypatch.context() as patch:
            patch.setattr(torch.cuda, "graph_pool_handle", nothing)
            for _ in range(3):
                torch.testing.assert_close(first(x, w), fn(x, w))
        for _ in range(3):
            torch.testing.assert_close(second(x, w), fn(x, w) + 1)
    assert counts(first) == (0, 0) and counts(second)[0] == 1
