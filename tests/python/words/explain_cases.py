"""Functions whose explanation is golden: `golden/explain_NAME.txt`."""

import threading

import torch


def whole(x):
    return torch.relu(x + 1) * 2


def data(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def innermost(values):
    return values.tolist()


def callee(x):
    scale = len(innermost(x + 1))
    return x * scale


settings = threading.local()
settings.scale = 2.0


def native_object(x):
    y = x.sin()
    return y * settings.scale


def eager_from_the_start(x):
    eval("None")
    return x * 2


CASES = [whole, data, callee, native_object, eager_from_the_start]
