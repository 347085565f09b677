"""Keys whose __hash__ does more than hash: as often as in eager."""

import braze
import pytest
import torch

calls = []


class Key:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        calls.append(self.value)
        print("hashed")
        return hash(self.value)


KEY = Key(1)


def updated(x):
    d = {}
    d.update({KEY: 1})
    return x * len(d)


def unpacked(x):
    return x * len({**{KEY: 1}, 2: 3})


def from_keys(x):
    d = dict.fromkeys([KEY])
    d.update({Key(3): 1})
    return x * len(d)


@pytest.mark.parametrize("fn", [updated, unpacked, from_keys])
def test_hashed_as_often_as_in_eager(fn, capsys):
    def effects(f):
        calls.clear()
        result = f(torch.ones(2)).tolist()
        return result, list(calls), capsys.readouterr().out

    fast = braze.compile(fn)
    for _ in range(3):
        assert effects(fast) == effects(fn)
