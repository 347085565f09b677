"""Objects that a function writes to: one check keeps each apart from all others of its class, and
what is written is not written twice where the compiled code stops."""

import braze
import pytest
import torch
from capturing import capture
from torch.nn import functional


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, x):
        self.seen += 1
        return x + self.seen


def test_one_guard_for_many_written_modules():
    model = torch.nn.Sequential(*[Counted() for _ in range(30)])
    captured = capture(lambda x, model: model(x), torch.ones(2), model)
    assert captured["exit"] == "return", captured["reason"]
    apart = [guard for guard in captured["guards"] if "distinct" in guard or "is not" in guard]
    assert len(apart) == 1 and apart[0].count("model[") == 30


@pytest.mark.parametrize("count", [2, 3, 40])
def test_written_objects_that_come_to_be_the_same(count):
    def fn(x, modules):
        for module in modules:
            x = module(x)
        return x

    fast = braze.compile(fn)
    for same in (None, None, 0, None, count - 1):
        ours, theirs = ([Counted() for _ in range(count)] for _ in range(2))
        for modules in (ours, theirs):
            if same is not None:
                modules[1 - (same > 0)] = modules[same]
                modules[same] = modules[1 - (same > 0)]
        x = torch.ones(2)
        assert torch.equal(fast(x, ours), fn(x, theirs))
        assert [m.seen for m in ours] == [m.seen for m in theirs]


def test_a_read_object_that_comes_to_be_the_written_one():
    class Box:
        def __init__(self, value):
            self.value = value

    def fn(x, boxes):
        boxes[0].value += 1
        return x + sum(box.value for box in boxes[1:])

    fast, x = braze.compile(fn), torch.ones(2)
    for same in (False, False, True, False):
        outcomes = []
        for call in (fast, fn):
            boxes = [Box(i) for i in range(20)]
            if same:
                boxes[17] = boxes[0]
            outcomes.append((repr(call(x, boxes)), [box.value for box in boxes]))
        assert outcomes[0] == outcomes[1]


WRITES = {
    "add_": lambda x: x.add_(1),
    "index_put_": lambda x: x.index_put_((torch.tensor([1, 1]),), torch.ones(4), accumulate=True),
    "scatter_add_": lambda x: x.scatter_add_(0, torch.zeros(2, 4).long(), torch.ones(2, 4)),
    "index_reduce_": lambda x: x.index_reduce_(
        0, torch.tensor([0, 0]), torch.full((2, 4), 3.0), "prod"
    ),
    "addmm_": lambda x: x.addmm_(x.clone(), x.clone()),
    "mm(out=)": lambda x: torch.mm(x.clone(), x.clone(), out=x),
    "cumsum_": lambda x: x.cumsum_(0),
    "batch_norm": lambda x: functional.batch_norm(x.clone(), x[0], x[1], training=True),
    "renorm_": lambda x: x.renorm_(2, 0, 0.5),
    "max_norm": lambda x: functional.embedding(torch.tensor([0, 1]), x, max_norm=0.5),
    "normal_": lambda x: x.normal_(),
    "dropout": lambda x: functional.dropout(x, 0.5, training=True, inplace=True),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_before_an_index_that_is_out_of_range(write):
    def fn(x, index, table):
        write(x)
        return table[index] + 1

    fast, table = braze.compile(fn), torch.ones(4, 3)
    for last in (2, 9, 9):
        written, drawn = [], []
        for call in (fn, fast):
            torch.manual_seed(last)
            x = torch.linspace(0.1, 0.9, 16).reshape(4, 4)
            if last == 9:
                with pytest.raises(IndexError):
                    call(x, torch.tensor([0, last]), table)
            else:
                call(x, torch.tensor([0, last]), table)
            written.append(x)
            drawn.append(torch.rand(1))
        torch.testing.assert_close(written[1], written[0])
        assert torch.equal(*drawn)


def test_keys_that_are_addresses():
    """Each call asks for the address of the object that it is given."""

    class Node:
        pass

    seen = {}

    def f(x, node):
        seen[id(node)] = x * 2
        return id(node)

    fast = braze.compile(f)
    nodes = [Node() for _ in range(3)]
    for _ in range(2):
        for number, node in enumerate(nodes):
            x = torch.full((3,), float(number))
            assert fast(x, node) == id(node)
            torch.testing.assert_close(seen[id(node)], x * 2)
    assert list(seen) == [id(node) for node in nodes]
    assert "captured as a whole" in braze.explain(f)(torch.ones(3), nodes[0])
