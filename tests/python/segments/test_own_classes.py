"""Objects of classes that a function makes at each call, behind a break."""

import gc
import weakref

import braze
import pytest
import torch
from support import reasons

ALIVE = []


def iterates(x, n):
    y = x + 1

    class Counts:
        def __init__(self):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n > 5:
                raise StopIteration
            return y * self.n

        def __bool__(self):
            return self.n > 2

    made = Counts()
    word = "many" if made else "few"
    ALIVE.append(weakref.ref(y))  # a break
    first, *others = made
    return word, first, len(others)


@pytest.mark.parametrize("backend", ["aten", "braze"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_no_class_is_kept(dynamic, backend):
    compiled = braze.compile(iterates, dynamic=dynamic, backend=backend)
    ALIVE.clear()
    for n in (3, 3, 2, 2, 2, 1, 4):
        x = torch.ones(2, 3)
        assert str(compiled(x, n)) == str(iterates(x, n))
    gc.collect()
    assert not any(reference() is not None for reference in ALIVE)
    assert any("makes at each call" in reason for reason in reasons(compiled)), reasons(compiled)
