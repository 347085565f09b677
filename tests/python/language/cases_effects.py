"""Side effects on lists, dicts, sets, deques, attributes, globals, cells and slices."""

import array
import collections
import itertools
import types

import torch
from running import case


class Box:
    kind = "box"

    def __init__(self, **values):
        self.__dict__.update(values)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


total = 0
settings = {"scale": 2, "calls": 0}
box = Box(value=1, items=[1], child=Box(value=2))
slotted = Slotted(5)
namespace = types.SimpleNamespace(level=0)
ring = collections.deque([1, 2, 3])
names = {"a", "b"}
numbers = {1, 2}  # The order of strings would vary with the process.
ordered = collections.OrderedDict(a=1, b=2, c=3)
groups = collections.defaultdict(list)
tally = collections.Counter("aab")
chained = collections.ChainMap({"a": 1}, {"b": 2})
raw = bytearray(b"abc")


@case
def list_methods(items):
    items.append(9)
    items.extend([7, 8])
    items.insert(1, "in")
    items.remove(9)
    popped = items.pop(), items.pop(0)
    items.reverse()
    return popped, items.index("in"), items.count(7)


@case
def list_sort(items, x):
    items.sort()
    items.sort(key=lambda v: -v)
    items.sort(reverse=True, key=abs)
    return x + items[0]


@case
def list_slices(items, x):
    items[1:2] = [x, x]
    items[::2] = [0] * len(items[::2])
    del items[-1]
    items[len(items) :] = ["end"]
    return x * 2


@case
def list_operators(items, x):
    alias = items
    items += [x]
    items *= 2
    return alias is items, len(items), items + [1], items == alias


@case
def list_cleared_while_iterated(items):
    out = []
    for v in items:
        out.append(v)
        if len(out) == 2:
            items.clear()
    return out


@case
def dict_methods(d, x):
    d["c"] = x
    d.update({"e": 1}, f=2)
    d.setdefault("g", []).append(3)
    first = d.pop("a")
    last = d.popitem()
    del d["e"]
    return first, last, d.get("zz", 5), list(d), "b" in d


@case
def dict_merge_operators(d, x):
    d |= {"n": x}
    return d | {"m": 1}, {**d, "k": 2}


@case
def dict_changed_while_iterated(d):
    for key in d:
        d[key + "x"] = 1


@case
def dict_views(d, x):
    keys, values = d.keys(), d.values()
    d["new"] = x
    return len(keys), len(values), "new" in keys, sorted(keys & {"a", "new"})


@case
def set_methods(x):
    names.add("c")
    names.discard("a")
    names.update({"d", "e"})
    names.difference_update({"e"})
    removed = "b" in names
    return x + len(names), sorted(names), removed


@case
def set_operators(x):
    global numbers
    numbers |= {5}
    numbers &= {1, 2, 5}
    numbers -= {2}
    return x + len(numbers)


@case
def deque_methods(x):
    ring.append(4)
    ring.appendleft(0)
    ring.rotate(1)
    ring.extend([x.dim()])
    ring.popleft()
    return x + ring[0], ring.maxlen


@case
def ordered_dict(x):
    ordered["d"] = 4
    ordered.move_to_end("a")
    ordered.popitem(last=False)
    return x + len(ordered), list(ordered)


@case
def default_dict(x):
    groups["a"].append(1)
    groups[x.dim()].append(2)
    return x + len(groups)


@case
def counter(x):
    tally.update("abc")
    tally["z"] += 2
    return x + tally["a"], tally.most_common(1)


@case
def chain_map(x):
    chained["c"] = 3
    chained["b"] = 5
    return x + chained["b"], sorted(chained)


@case
def byte_array(x):
    raw.append(100)
    raw[0] = 65
    return x + len(raw)


@case
def array_item(x):
    values = array.array("i", [1, 2, 3])
    values[0] = 7
    return x + values[0]


@case
def attributes(x):
    box.value += 1
    box.fresh = x
    box.items.append(box.value)
    box.child.value = box.items
    del box.fresh
    return x * box.value


@case
def attribute_deleted_and_read(x):
    local = Box(a=1)
    del local.a
    return hasattr(local, "a"), getattr(local, "a", 7), x + 1


@case
def class_attribute(x):
    Box.kind = "changed"
    return x + len(box.kind)


@case
def slots(x):
    slotted.a = 6
    slotted.b = x
    return x + slotted.a


@case
def slot_unset(x):
    fresh = Slotted(1)
    try:
        return fresh.b
    except AttributeError as error:
        return x + 1, str(error)


@case
def simple_namespace(x):
    namespace.level += 1
    namespace.seen = x.dim()
    return x + namespace.level


@case
def dict_of_an_instance(x):
    box.__dict__["added"] = 5
    vars(box)["other"] = 6
    return x + box.added + box.other, sorted(k for k in vars(box) if k < "d")


@case
def setattr_and_delattr(x):
    setattr(box, "dynamic", 3)
    value = box.dynamic
    delattr(box, "dynamic")
    return x + value, hasattr(box, "dynamic")


@case
def global_variable(x):
    global total
    total += 1
    total = total * 2
    return x + total


@case
def global_is_made_and_deleted(x):
    global fleeting
    fleeting = x + 1
    result = fleeting * 2
    del fleeting
    return result


@case
def global_dict_by_name(x):
    globals()["total"] = 100
    return x + total


@case
def settings_dict(x):
    settings["calls"] += 1
    settings["last"] = x
    return x * settings["scale"]


def make_counter():
    count = 0
    history = []

    def step(x):
        nonlocal count
        count += 1
        history.append(count)
        return x + count

    def read():
        return count, history

    return step, read


step, read = make_counter()


@case
def nonlocal_from_outside(x):
    return step(step(x)), read()[0]


@case
def nonlocal_inside(x):
    count = 0

    def bump(by=1):
        nonlocal count
        count += by
        return count

    bump()
    bump(3)
    return x + count, bump


@case
def shared_list_in_two_places(d, x):
    shared = []
    d["one"] = shared
    d["two"] = shared
    shared.append(x)
    d["one"].append(1)
    return d["two"]


@case
def cycle_is_made(d, items):
    items.append(d)
    d["items"] = items
    d["self"] = d


@case
def swapped_references(d):
    d["a"], d["b"] = d["b"], d["a"]
    return d["a"] * 2


@case
def augmented_attribute_of_an_item(x):
    boxes = [Box(n=1), Box(n=2)]
    boxes[0].n += 5
    boxes[1].n *= boxes[0].n
    return [b.n * x for b in boxes]


@case
def tensor_kept_in_state(x):
    previous = settings.get("previous")
    settings["previous"] = x * 2
    return x if previous is None or previous.shape != x.shape else x + previous


@case
def list_of_tensors_grows(x):
    box.items.append(x)
    return sum(v.sum() if isinstance(v, torch.Tensor) else v for v in box.items)


class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value):
        self.sum += value
        self.count += 1

    @property
    def mean(self):
        return self.sum / self.count


meter = Meter()


@case
def meter_with_a_property(x):
    meter.update(x.dim())
    meter.update(2)
    return x * meter.mean


@case
def unpacking_into_targets(d, items):
    (d["u"], items[0]), *rest = (1, 2), 3, 4
    d["rest"] = rest
    for d["k"], items[1] in [(1, 2), (3, 4)]:
        pass


@case
def walrus(x, items):
    if (n := len(items)) > 2 and (y := x + n) is not None:
        return y, [m := v + 1 for v in items], m
    return x


@case
def delete_locals_and_items(x, d):
    y = x + 1
    z = y
    del y, d["a"]
    try:
        return y
    except NameError as error:
        return z, str(error)


@case
def memo_of_a_function(x):
    def fib(k, memo={}):
        if k not in memo:
            memo[k] = k if k < 2 else fib(k - 1) + fib(k - 2)
        return memo[k]

    return x + fib(10), fib.__defaults__


registry = []


def register(function):
    registry.append(function.__name__)
    return function


@case
def decorator_with_an_effect(x):
    @register
    def local(v):
        return v + len(registry)

    return local(x)


@case
def product_and_state(x, log):
    for a, b in itertools.product("ab", range(2)):
        log.append(a * b)
    return x + len(log)
