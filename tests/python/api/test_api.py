"""The public surface: what `compile` returns and what it refuses."""

import copy
import inspect
import pickle
import subprocess
import sys
import threading

import braze
import pytest
import torch
from support import entries, reasons, same


@braze.compile
def decorated(x, k=2):
    """Doc."""
    return x * k


@braze.compile(fullgraph=True)
def decorated_with_options(x):
    return x + 1


def plain(x, k=2):
    return x * k


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()

    def other(self):
        return self.linear.in_features


X = torch.randn(2, 3)


def test_decorator_keeps_signature_and_docs():
    assert decorated.__name__ == "decorated" and decorated.__doc__ == "Doc."
    assert str(inspect.signature(decorated)) == "(x, k=2)"
    same(decorated(X, k=3), X * 3)
    same(decorated_with_options(X), X + 1)


def test_method_decorator():
    class C:
        scale = 3

        @braze.compile
        def f(self, x):
            return x * self.scale

    same(C().f(X), X * 3)
    same(C.f(C(), X), X * 3)


def test_bound_method_and_callable_object():
    net = Net()
    same(braze.compile(net.forward)(X), net(X))

    class Call:
        def __call__(self, x):
            return x - 1

    same(braze.compile(Call())(X), X - 1)


def test_module_is_the_module():
    net = Net()
    fast = braze.compile(net)
    assert isinstance(fast, Net) and isinstance(fast, torch.nn.Module)
    assert type(fast).__name__ == "Net"
    assert list(fast.state_dict()) == list(net.state_dict())
    assert fast.linear is net.linear and fast.other() == 3
    fast.training_note = 1
    assert net.training_note == 1
    fast.eval()
    assert not net.training and not net.linear.training
    fast.to(torch.float64)
    assert net.linear.weight.dtype == torch.float64
    same(fast(X.double()), net(X.double()))
    assert str(inspect.signature(fast.forward)) == str(inspect.signature(net.forward))
    assert [n for n, _ in fast.named_parameters()] == [n for n, _ in net.named_parameters()]


def test_module_pickle_and_copies(tmp_path):
    net = Net()
    fast = braze.compile(net)
    same(fast(X), net(X))
    for again in (pickle.loads(pickle.dumps(fast)), copy.deepcopy(fast), copy.copy(fast)):
        assert isinstance(again, Net)
        same(again(X), net(X))
        assert entries(again)[0]["kind"] == "plan"
    deep = copy.deepcopy(fast)
    deep.linear.weight.data.zero_()
    same(fast(X), net(X))
    torch.save(fast.state_dict(), tmp_path / "w.pt")
    Net().load_state_dict(torch.load(tmp_path / "w.pt"))


def test_function_pickle():
    same(pickle.loads(pickle.dumps(decorated))(X), X * 2)
    same(pickle.loads(pickle.dumps(braze.compile(plain)))(X), X * 2)
    same(copy.deepcopy(braze.compile(plain))(X), X * 2)


def test_compiling_twice_is_compiling_once():
    fast = braze.compile(braze.compile(plain))
    assert fast.__wrapped__ is plain
    net = Net()
    assert braze.compile(braze.compile(net)).linear is net.linear


def test_fullgraph_names_line_reason_and_way_out():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            return y
        return -y

    with pytest.raises(braze.GraphBreakError) as caught:
        braze.compile(f, fullgraph=True)(X)
    text = str(caught.value)
    assert "[E113]" in text and "B101: " in text
    assert "      if y.sum() > 0:\n         ^^^^^^^^^^^" in text and "test_api.py" in text
    assert "object: a tensor that the compiled code computes" in text
    assert "torch.where" in text
    same(braze.compile(f)(X), f(X))


def test_disable():
    @braze.disable
    def eager(x):
        return x + 1

    def f(x):
        return eager(x) * 2

    fast = braze.compile(f)
    same(fast(X), f(X))
    assert any("disable" in why for why in reasons(fast))
    assert braze.compile(plain, disable=True) is plain


def test_reset():
    fast = braze.compile(plain)
    fast(X)
    assert len(entries(fast)) == 1
    braze.reset()
    assert len(entries(fast)) == 0
    same(fast(X), X * 2)


def test_recompile_limit():
    fast = braze.compile(plain, recompile_limit=2)
    for n in range(1, 6):
        x = torch.randn(n)
        same(fast(x), x * 2)
    assert len(entries(fast)) == 2


def test_explain():
    text = braze.explain(plain)(X)
    assert "captured as a whole" in text and "runs: 1 kernel" in text
    assert "aten.mul" not in text and "aten.mul" in text.details and "guards:" in text.details
    same(text.result, X * 2)

    def f(x):
        print("hello", x.sum().item())
        return x

    text = braze.explain(f)(X)
    assert 'print("hello", ' in text and "test_api.py" in text


@pytest.mark.parametrize("backend", ["braze", "aten", "eager"])
def test_backends(backend):
    def f(x, y):
        x = x.clone()
        x[0] += y[0]
        return torch.nn.functional.gelu(x @ y.t()).softmax(-1), x.sum(0)

    fast = braze.compile(f, backend=backend, fullgraph=True)
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    same(fast(a, b), f(a, b))
    same(fast(b, a), f(b, a))


def test_custom_backend_gets_torch_level_graph():
    seen = {}

    def backend(gm, example_inputs):
        seen["gm"], seen["inputs"] = gm, example_inputs
        return gm.forward

    def f(x, y):
        z = torch.sin(x) + y.relu()
        return {"z": z, "m": torch.max(z, 0)[0]}

    fast = braze.compile(f, backend=backend, fullgraph=True)
    a, b = torch.randn(3), torch.randn(3)
    same(fast(a, b), f(a, b))
    same(fast(b, a), f(b, a))
    text = seen["gm"].print_readable(print_output=False)
    assert "torch.sin(" in text and ".relu()" in text and "test_api.py" in text
    assert len(seen["inputs"]) == 2


def test_torch_compile_backend():
    code = (
        "import torch; f = torch.compile(lambda x: torch.relu(x + 1) * 2, backend='braze');"
        "x = torch.randn(8)\n"
        "with torch.no_grad(): assert torch.equal(f(x), torch.relu(x + 1) * 2)\n"
        "print('ok')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "ok", done.stderr


def test_imports():
    code = (
        "import sys, torch; before = set(sys.modules); import braze;"
        "f = braze.compile(lambda x: x + 1);\n"
        "with torch.no_grad(): f(torch.ones(3))\n"
        "new = set(sys.modules) - before\n"
        "bad = [m for m in new if m.startswith(('torch._dynamo', 'torch._inductor', "
        "'torch._functorch', 'functorch'))]\n"
        "print(bad)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_environment_switch():
    code = "import braze; f = lambda x: x; assert braze.compile(f) is f; print('ok')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**__import__("os").environ, "BRAZE_DISABLE": "1"},
    )
    assert done.stdout.strip() == "ok", done.stderr


def test_logs():
    code = (
        "import torch, braze\n"
        "def f(x):\n    return torch.sin(x) + 1\n"
        "g = braze.compile(f)\n"
        "with torch.no_grad():\n    g(torch.ones(8)); g(torch.ones(9))\n"
    )
    import os

    env = {**os.environ, "BRAZE_LOG": "graph,guards,breaks,recompiles,code,timing"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    for part in (
        "[braze:graph]",
        "aten.sin",
        "[braze:recompiles]",
        "[braze:timing]",
        "[braze:code]",
        "[braze:guards]",
    ):
        assert part in done.stderr, part + "\n" + done.stderr


def test_threads():
    def f(x):
        return torch.relu(x + 1) * 2

    fast = braze.compile(f)
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for n in range(1, 200):
                x = torch.randn(n % 7 + 1, generator=generator)
                if not torch.equal(fast(x), f(x)):
                    wrong.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_recursive_and_nested_compile():
    @braze.compile
    def inner(x):
        return x * 2

    @braze.compile
    def outer(x):
        return inner(x) + 1

    same(outer(X), X * 2 + 1)

    @braze.compile
    def factorial(x, n):
        return x if n <= 1 else factorial(x, n - 1) * n

    same(factorial(X, 5), X * 120)


def test_keyboard_interrupt_during_a_compile_leaves_everything_usable():
    class Interrupting:
        armed = True

        def __getattr__(self, name):
            if Interrupting.armed:
                raise KeyboardInterrupt
            return 2.0

    thing = Interrupting()

    def f(x):
        return x * thing.factor

    fast = braze.compile(f)
    with pytest.raises(KeyboardInterrupt):
        fast(X)
    Interrupting.armed = False
    same(fast(X), X * 2)
    same(torch.sin(X) + 1, torch.sin(X.clone()) + 1)


def test_no_leak():
    import gc

    fast = braze.compile(plain)
    fast(X)
    x = torch.randn(5)
    fast(x)
    gc.collect()
    import sys as _sys

    before = _sys.getrefcount(x)
    count = len(gc.get_objects())
    for _ in range(2000):
        fast(x)
    gc.collect()
    assert _sys.getrefcount(x) == before
    assert abs(len(gc.get_objects()) - count) < 50


def test_other_threads_run_during_a_compile():
    """The compiler lets go of the interpreter: another thread makes progress meanwhile."""
    done = []
    compiling = threading.Event()

    def work():
        compiling.wait()
        for _ in range(1000):
            done.append(1)

    def f(x):
        for _ in range(30):  # contracting: rounding does not grow
            x = torch.sin(x) * 0.5 + x.sum(-1, keepdim=True).softmax(0)
        return x

    thread = threading.Thread(target=work)
    thread.start()
    fast = braze.compile(f, fullgraph=True)
    compiling.set()
    x = torch.randn(13, 11)
    same(fast(x), f(x))
    thread.join()
    assert len(done) == 1000


def test_error_in_the_middle_of_in_place_ops_does_not_repeat_them():
    def f(x, i):
        x.add_(1)
        return x[i].sum()

    for backend in ("braze", "aten", "eager"):
        fast = braze.compile(f, backend=backend)
        ok, bad = torch.tensor([0]), torch.tensor([9])
        a, b = torch.zeros(3), torch.zeros(3)
        same(fast(a, ok), f(b, ok))
        with pytest.raises(IndexError):
            fast(a, bad)
        with pytest.raises(IndexError):
            f(b, bad)
        same(a, b, backend)
