"""Small functions with side effects, aliasing, exceptions and breaks, as in eager."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from function_cases import ONE, Cases, check, r

case = Cases()


@case(lambda: (r(8, 3, 6, 6),), lambda: (r(8, 3, 6, 6),), lambda: (r(4, 3, 6, 6),), captured=False)
def batch_norm_training():
    return torch.nn.BatchNorm2d(3).train()


@case(*ONE)
def no_grad_block():
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y + 1

    return f


@case(lambda: (r(4, 4), r(4, 4)), lambda: (r(4, 4), r(4, 4)), lambda: (r(4, 4), r(4, 4)))
def autocast_block():
    def f(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = x @ y
        return z.float()

    return f


@case(*ONE, captured=False)
def data_dependent_branch():
    def f(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    return f


@case(*ONE, captured=False)
def item_of_tensor():
    def f(x):
        k = x.mean().item()
        return x * k

    return f


@case(*ONE, captured=False)
def prints():
    def f(x):
        y = x * 2
        print("shape", tuple(y.shape))
        return y + 1

    return f


@case(*ONE, captured=False)
def prints_a_tensor():
    def f(x):
        y = torch.ones(2) * 2
        print(y)
        return x + y.sum()

    return f


@case(lambda: (r(3), []), lambda: (r(3), [1]), lambda: (r(3), [1, 2]))
def appends_to_argument():
    def f(x, log):
        log.append(x * 2)
        return len(log)

    return f


@case(lambda: (r(3), {}), lambda: (r(3), {"a": 1}), lambda: (r(3), {"z": 0}))
def writes_into_dict_argument():
    def f(x, d):
        d["a"] = x + 1
        d.setdefault("n", 0)
        d["n"] += 1
        return x

    return f


class Config:
    def __init__(self):
        self.scale = 2.0
        self.names = ["a", "b"]


@case(lambda: (r(3), Config()), lambda: (r(3), Config()), lambda: (r(3), Config()))
def writes_attribute_of_argument():
    def f(x, config):
        config.last = x.sum()
        config.scale = config.scale * 2
        return x * config.scale

    return f


@case(*ONE, captured=False)
def nonlocal_counter():
    def make():
        n = 0

        def f(x):
            nonlocal n
            n += 1
            return x * n

        return f

    return make()


@case(*ONE)
def in_place_on_argument():
    def f(x):
        x.add_(1).mul_(2)
        x[0] = 0
        return x.sum()

    return f


@case(*ONE)
def in_place_on_view():
    def f(x):
        y = x.clone()
        row = y[0]
        row.mul_(3)
        y[:, 1:].add_(1)
        return y, row

    return f


@case(*ONE)
def returns_argument():
    return lambda x: (x, x)


@case(*ONE)
def returns_view_of_argument():
    return lambda x: (x.t(), x[1:], x.view(-1))


@case(*ONE)
def returns_views_of_result():
    def f(x):
        y = x * 2
        return y, y.t(), y[0]

    return f


@case(*ONE)
def mutates_and_returns_view():
    def f(x):
        v = x.view(-1)
        x.add_(1)
        return v, v * 2

    return f


def _same_tensor():
    x = r(3)
    return x, x


@case(lambda: (r(3), r(3)), _same_tensor, lambda: (r(3), r(3)))
def same_tensor_twice():
    def f(x, y):
        return x + y if x is y else x - y

    return f


def _overlapping():
    base = r(6)
    return base[:4], base[2:]


@case(lambda: (r(4), r(4)), _overlapping, lambda: (r(4), r(4)))
def overlapping_arguments():
    def f(x, y):
        x.add_(1)
        return x * y

    return f


@case(lambda: (r(3), 1), lambda: (r(3), 0), lambda: (r(3), 2))
def raises_own_error():
    def f(x, n):
        y = x * n
        if n == 0:
            raise ValueError(f"n is {n}")
        return y

    return f


@case(lambda: (r(3), r(3)), lambda: (r(3), r(4)), lambda: (r(3), r(3)))
def raises_shape_error():
    return lambda x, y: x + y


@case(*ONE)
def catches_own_error():
    def f(x):
        try:
            if x.dim() == 2:
                raise KeyError("two")
            return x
        except KeyError as e:
            return x * len(e.args)
        finally:
            x = None

    return f


@case(lambda: (r(3), r(3)), lambda: (r(3), r(4)), lambda: (r(3), r(3)), captured=False)
def catches_shape_error():
    def f(x, y):
        try:
            return x + y
        except RuntimeError:
            return x

    return f


@case(*ONE)
def try_finally_that_does_not_fire():
    def f(x):
        try:
            y = x + 1
        finally:
            z = x * 2
        return y + z

    return f


@case(*ONE)
def context_manager():
    @contextlib.contextmanager
    def scaled(k):
        yield k * 2

    def f(x):
        with scaled(3) as k:
            return x * k

    return f


@case(lambda: (r(3),), lambda: (), lambda: (r(3), r(3)))
def wrong_argument_count():
    def f(x):
        return x + 1

    return f


@case(lambda: (r(64),), lambda: (r(64),), lambda: (r(32),))
def random_numbers():
    return lambda x: (x + torch.rand_like(x), F.dropout(x, 0.5, training=True))


@case(*ONE)
def deleted_local():
    def f(x):
        y = x + 1
        z = y * 2
        del y
        return z

    return f


@pytest.mark.parametrize("make, calls, captured", case)
def test_as_eager(make, calls, captured):
    check(make, calls, captured)
