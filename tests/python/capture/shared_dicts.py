"""Objects whose `__dict__` has other names as well, and functions of them: `CASES` by name, each a
function and what makes its arguments."""

import types

import torch


class Plain:
    def __init__(self, **values):
        self.__dict__.update(values)


class Other(Plain):
    pass


class Borg:
    shared = {}

    def __init__(self):
        self.__dict__ = Borg.shared


class AttrDict(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class Loose(dict):
    """Without the `self.__dict__ = self`, unless it is given."""


class WithSlot:
    __slots__ = ("n",)


class SlotAndDict(WithSlot):
    pass


class DictWithSlot(dict):
    __slots__ = ("n",)


class Items(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class ItemsWithoutDelete(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__


class Appends(list):
    __setattr__ = list.append


def shown(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    if isinstance(value, torch.nn.Module):
        return value.training, value.__dict__.get("count")
    if isinstance(value, types.FunctionType):
        return "function"
    if isinstance(value, dict):
        items = {k: shown(v) for k, v in value.items() if not str(k).startswith("__")}
        return type(value).__name__, list(items.items())
    if isinstance(value, types.ModuleType) or hasattr(value, "__dict__"):
        return type(value).__name__, shown(vars(value)), getattr(value, "n", None)
    return value


def pair():
    values = {"v": 0.0}
    a, b = Plain(), Other()
    a.__dict__ = b.__dict__ = values
    return a, b, values


def borg():
    Borg.shared.clear()
    Borg.shared["v"] = 0.0
    return (Borg(),)


def modules():
    a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    a.count = 0
    b.__dict__ = a.__dict__
    return a, b


def slotted():
    made = SlotAndDict()
    made.n = made.m = 0
    return (made,)


def module():
    made = types.ModuleType("made")
    made.z = 0
    return (made,)


def globals_as_dict():
    made = {}
    exec("k = 0\ndef count():\n    global k\n    k += 1\n    return k\n", made)
    owner = Plain()
    owner.__dict__ = made
    return owner, made["count"]


CASES = {}


def case(make):
    def add(function):
        CASES[function.__name__] = function, make
        return function

    return add


@case(pair)
def written_by_one_read_by_the_other(x, a, b, d):
    a.v = a.v + 1
    return x * b.v


@case(pair)
def written_by_all(x, a, b, d):
    a.v = a.v + 1
    d["v"] += 2
    b.v += 3
    return x * b.__dict__["v"] + a.v


@case(pair)
def made_and_deleted(x, a, b, d):
    a.q = a.v + 1
    there = hasattr(b, "q")
    del b.q
    return x, there, hasattr(a, "q"), "q" in d, len(d)


@case(pair)
def whole_dict(x, a, b, d):
    a.q = x + 1
    return len(d), list(d), sorted(vars(a)), {**b.__dict__}, str(len(d))


@case(pair)
def written_as_dict(x, a, b, d):
    d["v"] += 1
    d.update(z=3)
    return x * a.v + b.z, d.pop("v"), b.__dict__.setdefault("v", 5.0)


@case(pair)
def order_of_names(x, a, b, d):
    a.z = 1
    del a.z
    a.z = 2
    b.y = 1
    del d["z"]
    a.z = 3
    return x, list(d), list(b.__dict__.items())


@case(lambda: (Plain(v=0),))
def dict_kept_in_a_variable(x, a):
    d = a.__dict__
    a.w = 1
    return x * len(d), sorted(d), bool(d)


@case(borg)
def borg_made_by_the_trace_writes(x, a):
    made = Borg()
    made.v += 1
    return x * a.v, Borg().v


@case(borg)
def borg_made_by_the_trace_reads(x, a):
    a.v += 1
    return x * Borg().v, hasattr(Borg(), "w")


@case(borg)
def borg_made_by_the_trace_is_returned(x, a):
    made = Borg()
    object.__setattr__(made, "q", x)
    vars(made)["v"] += 1
    try:
        del made.nothing
    except AttributeError as error:
        return made, str(error), a.q * a.v


@case(modules)
def module_of_a_module(x, a, b):
    a.count += 1
    b.train(not b.training)
    return x * b.count, a.training, b.weight is a.weight


@case(lambda: (AttrDict(v=0.0, t=torch.ones(2)),))
def dict_of_itself(x, d):
    d.v = d.v + 1
    read = x * d["v"]
    d["v"] += 1
    d.n = 2
    d.t = d.t + d["t"]
    return read, d.v, len(d), list(d), d.get("n"), "n" in d


@case(lambda: (AttrDict(v=0.0, inner=AttrDict(k=1)),))
def dict_of_itself_inside(x, d):
    d.inner.k += 1
    d["inner"]["k"] += 1
    d.inner["z"] = d.inner.k
    d.w = 1
    del d.w
    return x * d.inner.z, {**d.inner}, d.setdefault("p", 4), d.p, hasattr(d, "w")


@case(slotted)
def slot_beside_dict(x, a):
    a.n += 1
    return x * (a.n + len(a.__dict__))


@case(slotted)
def slot_and_item_of_one_name(x, a):
    d = vars(a)
    a.n += 1
    d["n"] = 7
    a.k = 2
    return x * a.n, d["n"], sorted(d)


@case(slotted)
def slot_deleted(x, a):
    a.m += 1
    d = vars(a)
    d["z"] = 1
    a.n = 2
    del a.n
    there = hasattr(a, "n")
    a.n = 5
    return x, there, d


@case(lambda: (DictWithSlot(n=4),))
def slot_of_a_dict(x, d):
    d.n = 1
    d["n"] += 1
    return x * d.n + d["n"], len(d)


@case(module)
def module_by_its_dict(x, m):
    m.__dict__["z"] += 1
    m.y = m.z
    return x * m.z, vars(m)["y"]


@case(module)
def module_updated(x, m):
    vars(m).update(z=m.z + 1)
    return x * m.z


@case(globals_as_dict)
def globals_of_a_function(x, a, count):
    count()
    a.k += 1
    return x * count() + a.k


@case(lambda: (Items(v=0),))
def attributes_are_items(x, d):
    d.v = d.v + 1
    d.k = x
    read = d.k + d["v"]
    del d.k
    return read, len(d)


@case(lambda: (ItemsWithoutDelete(v=0),))
def attributes_are_items_but_not_deleted(x, d):
    d.k = 4
    try:
        del d.k
    except AttributeError as error:
        return x, len(d), str(error), d.nothing


@case(lambda: (Appends(),))
def attributes_are_appended(x, items):
    try:
        items.a = 1
    except TypeError as error:
        return x, str(error)
