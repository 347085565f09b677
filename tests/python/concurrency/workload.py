"""Twenty functions that between them capture, break, raise, write to the outside and recompile."""

import threading
import time
import types

import torch


class Counter:
    """State that a function writes to; one for each thread."""

    def __init__(self):
        self.calls = 0
        self.seen = []


_state = threading.local()


def counter():
    if not hasattr(_state, "counter"):
        _state.counter = Counter()
    return _state.counter


def pointwise(x, c):
    return torch.relu(x + 1) * 2


def reduction(x, c):
    return x.softmax(-1).sum(0)


def matrix(x, c):
    return x @ x.t() + 1


def several_results(x, c):
    return {"a": x + 1, "b": [x * 2, x.sum()]}


def branch_on_data(x, c):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def read_a_number(x, c):
    return x * x.abs().max().item()


def callee_that_breaks(x, c):
    return x * len(branch_on_data(x, c).tolist())


def writes_an_attribute(x, c):
    c.calls += 1
    return x * c.calls


def appends(x, c):
    c.seen.append(x.shape[0])
    del c.seen[:-3]
    return x + len(c.seen)


def changes_its_argument(x, c):
    y = x.clone()
    y.add_(1).mul_(2)
    return y


def raises(x, c):
    y = x + 1
    if x.shape[0] % 2:
        raise ValueError(f"odd: {x.shape[0]}")
    return y


def catches(x, c):
    try:
        return raises(x, c)
    except ValueError as error:
        return x * len(str(error))


def loop(x, c):
    for i in range(3):
        x = x + i
    return x


def generator(x, c):
    return sum((x * i for i in range(3)), x)


def closure(x, c):
    scale = x.shape[0]

    def inner(y):
        return y * scale

    return inner(x)


def under_inference_mode(x, c):
    with torch.no_grad():
        return x.sin() + torch.is_grad_enabled()


def random(x, c):
    return torch.rand_like(x).shape, x + 1


def view(x, c):
    return x.t(), x[0]


def prints_text(x, c):
    return f"{x.shape} {x.dtype}", x * 3


def wrong_index(x, c):
    return x[torch.tensor([x.shape[0]])]


FUNCTIONS = [
    function
    for function in list(globals().values())
    if isinstance(function, types.FunctionType) and function is not counter
]
assert len(FUNCTIONS) == 20


def outcome(function, x, state):
    try:
        return function(x, state)
    except (ValueError, IndexError) as error:
        return type(error).__name__, str(error)


def run_threads(compiled, seconds, threads=8, least=200):
    """Calls of all functions from several threads, compared with eager, for some time and at least
    so many calls. Gives what was wrong and the number of calls."""
    from support import same

    wrong, calls = [], [0] * threads
    end = time.monotonic() + seconds
    barrier = threading.Barrier(threads)

    def work(number):
        with torch.no_grad():
            eager, fast = Counter(), Counter()
            generator = torch.Generator().manual_seed(number)
            barrier.wait()
            step = number
            while not wrong and (time.monotonic() < end or sum(calls) < least):
                step += 1
                index = step * 7 % len(FUNCTIONS)
                x = torch.randn(step % 3 + 2, 3, generator=generator)
                try:
                    expected = outcome(FUNCTIONS[index], x.clone(), eager)
                    got = outcome(compiled[index], x.clone(), fast)
                    same(got, expected)
                    same(vars(fast), vars(eager))
                except BaseException as error:
                    wrong.append((FUNCTIONS[index].__name__, tuple(x.shape), repr(error)[:2000]))
                calls[number] += 1

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return wrong, sum(calls)


if __name__ == "__main__":
    import sys
    from pathlib import Path

    import braze

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

    compiled = [braze.compile(f) for f in FUNCTIONS]
    deadline, total = time.monotonic() + float(sys.argv[1]), 0
    while time.monotonic() < deadline:  # forgets everything now and then, so that it compiles again
        wrong, calls = run_threads(compiled, 4)
        total += calls
        if wrong or not calls:
            sys.exit(f"wrong: {wrong[:3]}")
        braze.reset()
    print(f"{total} calls, nothing wrong")
