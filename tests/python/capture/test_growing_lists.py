"""Lists and deques from outside that compiled code appends to, call by call."""

import collections
import contextlib
import copy
import io

import braze
import pytest
import torch

from tests.python.support import entries, same

CALLS = 12


class Record:
    def __init__(self):
        self.rows = []


def a_list(state):
    def f(x):
        state["rows"].append(x * 2)
        return x + 1

    return f


def several(state):
    def f(x):
        rows = state["rows"]
        rows.append(x.sum())
        rows.append(3)
        rows.append((x + 1, "text"))
        return x + 1

    return f


def an_attribute(state):
    record = state["record"] = Record()

    def f(x):
        record.rows.append(x.detach())
        return x * 3

    return f


def lists_of_a_dict(state):
    state["of"] = collections.defaultdict(list)

    def f(x):
        state["of"]["loss"].append(x.sum())
        state["of"]["step"].append(1)
        return x + 1

    return f


def a_deque(state):
    state["recent"] = collections.deque(maxlen=3)

    def f(x):
        state["recent"].append(x + 1)
        return x - 1

    return f


def a_bound_method(state):
    append = state["rows"].append

    def f(x):
        append(x)
        return x + 1

    return f


def what_comes_before_a_break(state):
    def f(x):
        state["rows"].append(x + 1)
        state["rows"].append(x.sum().item())
        return x - 1

    return f


def what_is_handled(state):
    def f(x):
        try:
            state["rows"].append(x)
            raise KeyError
        except KeyError:
            state["rows"].append(x + 2)
        return x + 1

    return f


def itself(state):
    def f(x):
        state["rows"].append(state["rows"])
        return x + 1

    return f


# Nothing is read of them, so that they are compiled once; twice where a key comes, or a number varies.
GROW = (
    a_list,
    several,
    an_attribute,
    lists_of_a_dict,
    a_deque,
    a_bound_method,
    what_comes_before_a_break,
    what_is_handled,
)


def its_length(state):
    def f(x):
        state["rows"].append(x.shape)
        state["rows"].append((len(state["rows"]), 1))
        return len(state["rows"]), x + 1

    return f


def its_last(state):
    def f(x):
        state["rows"].append(x * 2)
        return state["rows"][-1] + 1

    return f


def its_items(state):
    def f(x):
        state["rows"].append(x * 2)
        return sum(state["rows"])

    return f


def a_copy_of_what_holds_it(state):
    def f(x):
        state["rows"].append(x * 2)
        return copy.deepcopy(state), x + 1

    return f


def its_text(state):
    def f(x):
        state["rows"].append(len(x))
        return repr(state), x + 1

    return f


def printed(state):
    def f(x):
        state["rows"].append(len(x))
        print(state)
        return x + 1

    return f


def an_item_is_exchanged(state):
    def f(x):
        state["rows"].append(x)
        state["rows"][0] = x + 1
        return x

    return f


def one_is_taken_back(state):
    def f(x):
        state["rows"].append(x * 2)
        return state["rows"].pop(), state["rows"] == []

    return f


def others_change_it_too(state):
    def f(x):
        state["rows"].append(x)
        list.append(state["rows"], x + 1)
        state["rows"].extend([x])
        state["rows"] += (x,)
        return x

    return f


def compared(state):
    def f(x):
        before = list(state["rows"])
        state["rows"].append(1)
        return state == {"rows": before}, state == {"rows": [*before, 1]}, x + 1

    return f


def an_iterator_of_before(kind):
    def make(state):
        def f(x):
            made = kind(state["rows"])
            state["rows"].append(x)
            return len(list(made)), x + 1

        return f

    return make


def raises_behind_it(state):
    def f(x):
        state["rows"].append(x + 1)
        if len(state["rows"]) > 3:
            raise ValueError("too many")
        return x

    return f


READ = {
    "itself": itself,
    "its_length": its_length,
    "its_last": its_last,
    "its_items": its_items,
    "a_copy_of_what_holds_it": a_copy_of_what_holds_it,
    "its_text": its_text,
    "printed": printed,
    "an_item_is_exchanged": an_item_is_exchanged,
    "one_is_taken_back": one_is_taken_back,
    "others_change_it_too": others_change_it_too,
    "compared": compared,
    "iter": an_iterator_of_before(iter),
    "enumerate": an_iterator_of_before(enumerate),
    "reversed": an_iterator_of_before(reversed),
    "map": an_iterator_of_before(lambda rows: map(id, rows)),
    "zip": an_iterator_of_before(lambda rows: zip(rows, rows)),
    "raises_behind_it": raises_behind_it,
}


def told(make, way):
    """What each call gives and prints, the state behind it, and what was called."""
    state = {"rows": []}
    call = way(make(state))
    results = []
    for k in range(CALLS):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            try:
                result = call(torch.arange(3.0) + k)
            except ValueError as error:
                result = str(error)
        kept = {key: value.rows if key == "record" else value for key, value in state.items()}
        results.append((result, copy.deepcopy(kept), text.getvalue()))
    return results, call


def compare(make):
    expected, _ = told(make, lambda function: function)
    got, compiled = told(make, braze.compile)
    if make is itself:  # no comparison of them ends
        expected, got = repr(expected), repr(got)
    same(got, expected)
    return compiled


@pytest.mark.parametrize("make", GROW, ids=lambda make: make.__name__)
def test_what_only_grows_is_not_compiled_for_each_length(make):
    places = [entry["offset"] for entry in entries(compare(make))]
    assert max(map(places.count, places)) <= 2, places


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_as_in_eager(name):
    compare(READ[name])


def test_two_that_come_to_be_one():
    def f(a, b, x):
        a.append(1)
        b.append(2)
        a.append(3)
        return x + 1

    fast = braze.compile(f)
    first, second = [], []
    for _ in range(3):
        fast(first, second, torch.ones(2))
    assert (first, second) == ([1, 3] * 3, [2] * 3)
    fast(first, first, torch.ones(2))
    assert first == [1, 3] * 3 + [1, 2, 3]


def test_a_list_of_results_in_a_loop_with_breaks():
    def f(x):
        rows = []
        for k in range(6):
            rows.append(x + k)
            print(end="")
            rows.append(rows[-1].sum().item())
        return rows

    x = torch.arange(3.0)
    fast = braze.compile(f)
    for _ in range(3):
        same(fast(x), f(x))


def test_a_branch_reads_what_has_grown():
    rows = []

    def f(x):
        rows.append(x)
        return torch.cond(x.sum() > 0, lambda y: y + len(rows), lambda y: y - 1, (x,))

    fast = braze.compile(f, fullgraph=True)
    for k in range(1, 4):
        assert torch.equal(fast(torch.ones(3)), torch.ones(3) + k)
        assert len(rows) == k


def test_a_branch_that_reads_one_and_appends_to_another():
    first, second = [], []

    def branch(y):
        second.append(len(first))
        return y + 1

    def f(x):
        first.append(1)
        return torch.cond(x.sum() > 0, branch, lambda y: y - 1, (x,))

    reason = "a branch changes an object that was there before it"
    with pytest.raises(braze.GraphBreakError, match=reason):
        braze.compile(f, fullgraph=True)(torch.ones(3))
    assert first == second == []
