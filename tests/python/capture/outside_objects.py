"""Objects for the tests of outside state whose special methods write, or keep something."""

import functools


class Slots:
    __slots__ = ("a",)


class HasCached:
    @functools.cached_property
    def cached(self):
        return 5


class Adds:
    """Writes to `seen` in every special method."""

    def __init__(self, seen):
        self.seen = seen

    def note(self, what):
        self.seen.append(what)
        return 1

    __len__ = lambda self: self.note("len")
    __hash__ = lambda self: self.note("hash")
    __eq__ = lambda self, other: bool(self.note("eq"))
    __lt__ = lambda self, other: bool(self.note("lt"))
    __repr__ = lambda self: str(self.note("repr"))
    __bool__ = lambda self: bool(self.note("bool"))
    __contains__ = lambda self, x: bool(self.note("contains"))
    __index__ = lambda self: self.note("index")
    __iter__ = lambda self: iter([self.note("iter")])
    __getitem__ = lambda self, k: self.note("getitem")
    __call__ = lambda self, *a: self.note("call")
    __add__ = lambda self, other: self.note("add")
    __format__ = lambda self, spec: str(self.note("format"))
    __float__ = lambda self: float(self.note("float"))
    __reversed__ = lambda self: iter([self.note("reversed")])
    __instancecheck__ = lambda self, other: bool(self.note("instancecheck"))
    __int__ = lambda self: self.note("int")
    __round__ = lambda self, n=None: self.note("round")
    __abs__ = lambda self: self.note("abs")
