"""Random Python functions with tensors, whose results and side effects CPython itself tells.

`program(seed)` is the source of `f(x, y, n, items, table, box)` and of what it uses. Values of every
kind are kept in variables by type, statements are drawn by weight, and most of what may fail is
allowed to: an exception is a result like others.
"""

import random
from pathlib import Path

from program_async import Async
from program_flow import Flow
from program_libraries import PRELUDE as LIBRARIES_PRELUDE
from program_libraries import Libraries
from program_objects import Objects

PRELUDE = Path(__file__).with_name("program_prelude.py").read_text()


class Writer(Flow, Async, Objects, Libraries):
    def __init__(self, seed, kind="function", wide=False):
        self.wide = wide
        self.kind = kind
        self.generator = kind == "generator"
        self.random = random.Random(seed)
        self.lines = []
        self.depth = 1
        self.names = {
            "tensor": ["x", "y"],
            "int": ["n"],
            "list": ["items"],
            "dict": ["table"],
            "box": ["box"],
            "str": [],
            "function": [],
        }
        self.count = 0
        self.loops = 0
        self.budget = self.random.randint(5, 22)

    # --- text

    def put(self, line):
        self.lines.append("    " * self.depth + line)

    def pick(self, *choices):
        return self.random.choice(choices)

    def chance(self, of_hundred):
        return self.random.random() * 100 < of_hundred

    def rarely(self, risky, otherwise="n"):
        return risky if self.chance(12) else otherwise

    def fresh(self, kind):
        """A new variable, or one that is there and takes a new value."""
        if self.names[kind] and self.chance(35):
            return self.random.choice(self.names[kind])
        self.count += 1
        return f"{kind[0]}{self.count}"

    def bind(self, kind, text):
        name = self.fresh(kind)
        self.put(f"{name} = {text}")
        if name not in self.names[kind]:
            self.names[kind].append(name)
        return name

    def block(self, fill=None, most=3):
        """An indented block; what is bound in it may not be bound after it."""
        known = {kind: list(names) for kind, names in self.names.items()}
        self.depth += 1
        before = len(self.lines)
        if fill:
            fill()
        for _ in range(self.random.randint(1, most)):
            self.statement()
        if len(self.lines) == before:
            self.put("pass")
        self.depth -= 1
        if not self.chance(6):  # sometimes a name that may be unbound stays in use
            self.names = known

    # --- expressions

    def var(self, kind):
        return self.random.choice(self.names[kind])

    def integer(self, depth=0):
        if depth > 1 or self.chance(35):
            return self.pick(self.var("int"), str(self.random.randint(-2, 5)))
        a, b = self.integer(depth + 1), self.integer(depth + 1)
        return self.pick(
            f"({a} + {b})", f"({a} * {b})", f"({a} - {b})", f"({a} // 2)", f"({a} % 3)", self.rarely(f"({a} // {b})"),
            f"len({self.var('list')})", f"len({self.var('dict')})", f"{self.var('box')}.value",
            f"{self.var('tensor')}.shape[{self.pick(0, 1, -1)}]", f"{self.var('tensor')}.dim()",
            f"max({a}, {b})", f"abs({a})", f"min([{a}, {b}, 3])", f"({a} if {b} > 1 else {b})",
            f"sum(i for i in range({self.random.randint(0, 4)}))", f"total({a}, {b}, start=1)",
            f"total(*[{a}, 2], k={b})", f"{self.var('box')}.double", f"int({a} > {b})",
            f"functools.reduce(operator.add, [{a}, {b}], 1)", f"hash({a})", f"divmod({a}, 3)[1]",
            f"{self.var('dict')}.get({self.key()}, {a})", f"({self.var('list')} or [1])[0]",
            f"len(str({a}))", self.rarely(f"{self.var('list')}[{a}]"), f"int('{self.random.randint(0, 20)}')", f"round({a} / 2)",
            self.rarely(f"{self.var('box')}.missing"), f"getattr({self.var('box')}, 'extra', {a})",
            f"math.floor({a} * 1.5)", f"({a}).bit_length()", f"len({self.var('box')})",
        )  # fmt: skip

    def key(self):
        return self.pick("'a'", "'b'", "'c'", "n", "(1, n)")

    def condition(self):
        a, b = self.integer(), self.integer()
        return self.pick(
            f"{a} > {b}", f"{a} == {b}", f"{a} in {self.var('list')}", f"{self.key()} in {self.var('dict')}",
            f"{self.var('list')}", f"not {self.var('list')}", f"{a} < {b} <= 4", f"{a} and {b}",
            f"isinstance({self.var('box')}, Child)", f"{self.var('tensor')} is {self.var('tensor')}",
            f"any(i > {a} for i in {self.var('list')})", f"all(isinstance(i, int) for i in {self.var('list')})",
            f"hasattr({self.var('box')}, 'extra')", f"{self.var('tensor')}.shape == {self.var('tensor')}.shape",
            f"{self.var('tensor')}.sum() > {a}", f"callable({self.var('box')})", f"{self.var('box')}.kind == 'box'",
            f"(m := {a}) > 1",
        )  # fmt: skip

    def tensor(self, depth=0):
        x = self.var("tensor")
        if depth > 1 or self.chance(20):
            return x
        a, b, k = self.tensor(depth + 1), self.tensor(depth + 1), self.integer(1)
        return self.pick(
            f"({a} + {b})", f"({a} * {b})", f"({a} - {k})", f"({a} * {k})", f"torch.relu({a})",
            f"{a}.neg()", f"torch.where({a} > {b}, {a}, {b})", f"({a} * WEIGHT)", f"({a} * SCALE)",
            f"{a}.clamp({self.random.randint(-2, 0)}, 1)", f"{x}[{self.pick('0', ':1', '-1', '::2', '1:')}]",
            f"{x}.t().t()", f"torch.stack([{a}, {b}]).sum(0)", f"torch.cat([{x}, {x}])[:2]",
            f"{self.var('box')}({a})", f"{self.var('box')}.scaled({a}, by={k})", f"shifted({a}, scale={k})",
            f"shifted({a})", f"{a}.sum(-1, keepdim=True)", f"{a}.mean()", f"{a}.to(torch.float64).float()",
            f"torch.zeros_like({a})", f"{x}.clone()", f"{self.var('box')}.tensor", f"{a}.abs().sqrt()",
            f"sum([{a}, {b}])", f"functools.reduce(torch.add, [{a}, {b}])", f"({a} if {self.condition()} else {b})",
            f"{x}.reshape(-1)[:3]", f"{x}.view(3, 2)", f"torch.full_like({a}, {k})", f"{a}.detach()",
        )  # fmt: skip

    def text(self):
        return self.pick(
            f"f'{{{self.var('int')}}}:{{{self.var('int')}:>3}}'", f"'{{}}/{{}}'.format({self.integer()}, n)", f"str({self.var('list')})",
            f"'-'.join(str(i) for i in {self.var('list')})", f"repr({self.var('dict')})",
            f"type({self.var('box')}).__name__", f"str({self.var('tensor')}.shape)",
            f"'%d' % {self.integer()}", "'abc'.upper()", f"'a,b'.split(',')[{self.integer(1)}]",
        )  # fmt: skip

    def listing(self):
        a, b, items = self.integer(), self.integer(), self.var("list")
        return self.pick(
            f"[{a}, {b}]", f"[i + {a} for i in {items}]", f"list({items})", f"{items}[::-1]",
            f"sorted({items}, key=lambda v: -v)", f"list(map(lambda v: v * 2, {items}))",
            f"[*{items}, {a}]", f"{items} + [{b}]", f"[i for i in range(min({a}, 9)) if i != {b}]",
            f"list(itertools.chain({items}, [{a}]))", f"[v for v in {self.var('dict')}.values() if isinstance(v, int)]",
            f"list(walk({items}, {self.var('tensor')}))", f"list(through([{a}], {self.var('tensor')}))",
            f"{self.var('box')}.items", f"[a + b for a, b in zip({items}, {items}[1:])]", f"[{a}] * 3",
        )  # fmt: skip

    def dictionary(self):
        a, d = self.integer(), self.var("dict")
        return self.pick(
            f"{{'a': {a}}}", f"dict({d})", f"{{**{d}, 'b': {a}}}", f"{{k: {a} for k in {d}}}",
            f"dict(zip('abc', {self.var('list')}))", f"{d} | {{'c': {a}}}", f"dict(a={a}, c=3)",
        )  # fmt: skip

    # --- statements

    def statement(self):
        if self.budget <= 0:
            return
        self.budget -= 1
        kinds = [
            (22, self.compute), (9, self.number), (8, self.change_list), (7, self.change_dict),
            (8, self.change_box), (6, self.change_tensor), (4, self.output), (4, self.change_global),
            (3, lambda: self.bind("str", self.text())), (4, lambda: self.bind("list", self.listing())),
            (3, lambda: self.bind("dict", self.dictionary())), (3, self.unpack), (2, self.early),
            (3, self.raising), (3, self.new_box), (2, self.stop), (2, self.call_local),
        ]  # fmt: skip
        if self.generator:
            kinds += [
                (20, self.suspend),
                (8, self.suspend_inside if self.depth < 4 else self.suspend),
            ]
        elif self.kind != "function":
            kinds += [
                (20, self.suspend_async),
                (8, self.asynchronous if self.depth < 4 else self.suspend_async),
            ]
        if self.depth < 4:
            kinds += [
                (8, self.branch), (7, self.loop), (6, self.attempt), (5, self.context),
                (4, self.local_function), (3, self.while_loop), (2, self.matching), (3, self.consume),
                (4, self.drive), (3, self.local_generator), (3, self.managed), (3, self.leave),
                (3, self.chained), (3, self.often), (3, self.comprehension),
            ]  # fmt: skip
        if self.wide and self.depth < 4:
            kinds += self.over_objects()
        if self.wide == LIBRARIES and self.depth < 4:
            kinds += self.over_libraries()
        weights = [weight for weight, _ in kinds]
        self.random.choices([kind for _, kind in kinds], weights)[0]()

    def suspend(self):
        value = self.pick(self.tensor(), self.tensor(), self.integer(), self.var("list"))
        self.put(
            self.pick(
                f"yield {value}",
                f"LOG.append((yield {value}))",
                f"yield from walk([1, {self.integer()}], {self.var('tensor')})",
                f"{self.fresh('tensor')} = yield from walk([2], {self.tensor(1)})",
            )
        )

    def compute(self):
        if self.chance(20):
            self.put(f"{self.var('tensor')} {self.pick('+=', '*=', '-=')} {self.tensor(1)}")
        else:
            self.bind("tensor", self.tensor())

    def number(self):
        if self.chance(30):
            self.put(f"{self.var('int')} {self.pick('+=', '*=', '-=', '%=')} {self.integer()}")
        else:
            self.bind("int", self.integer())

    def change_list(self):
        items, a = self.var("list"), self.integer()
        self.put(
            self.pick(
                f"{items}.append({a})", f"{items}.extend([{a}, 1])", f"{items}.insert(0, {a})",
                f"{items}[-1:] = []", self.rarely(f"{items}[{self.integer(1)}] = {a}", "pass"), self.rarely(f"del {items}[0]", "pass"), f"{items}.sort()",
                f"{items}.reverse()", f"{items}[1:2] = [{a}, {a}]", f"{items} += [{a}]", self.rarely(f"{items}.remove({a})", "pass"),
                f"{items}.clear()", f"{self.var('box')}.items.append({a})", f"{items} *= 2",
            )
        )  # fmt: skip

    def change_dict(self):
        table, a = self.var("dict"), self.integer()
        self.put(
            self.pick(
                f"{table}[{self.key()}] = {a}", f"{table}.pop({self.key()}, None)", self.rarely(f"del {table}[{self.key()}]", "pass"),
                f"{table}.setdefault({self.key()}, {a})", f"{table}.update(b={a})", f"{table}['t'] = {self.tensor(1)}",
                self.rarely(f"{table}[{self.key()}] += 1", "pass"), self.rarely(f"{table}.popitem()", "pass"), f"{table} |= {{'z': {a}}}",
            )
        )  # fmt: skip

    def change_tensor(self):
        x, a = self.var("tensor"), self.integer(1)
        self.put(
            self.pick(
                f"{x}.add_({a})", f"{x}[0] = {a}", f"{x}[:, 1] += {self.tensor(1)}", f"{x}.mul_({self.tensor(1)})",
                f"{x}.zero_()", f"{x}.copy_({self.tensor(1)})", f"{x}[{x} > {a}] = 0", f"{x}.view(-1)[0] = {a}",
                f"torch.add({x}, {a}, out={x})", f"{x}.note = {a}",
            )
        )  # fmt: skip

    def output(self):
        self.put(
            self.pick(
                f"print({self.text()})",
                f"print({self.integer()}, end=';')",
                f"LOG.append({self.integer()})",
            )
        )

    def change_global(self):
        self.put(self.pick(f"TOTAL += {self.integer()}", f"TOTAL = {self.integer()}", "LOG.append(TOTAL)",
                           f"SCALE = {self.integer()} + 0.5", "LOG.clear()"))  # fmt: skip

    def unpack(self):
        if self.chance(50):
            self.count += 1
            self.put(f"i{self.count}, *rest = {self.listing()}")
            self.names["int"].append(f"i{self.count}")
        else:
            a, b = self.var("tensor"), self.var("tensor")
            self.put(f"{a}, {b} = {b}, {a}")

    def early(self):
        value = self.pick(self.tensor(), self.integer(), self.var("list"))
        self.put(f"if {self.condition()}: return {'' if self.kind == 'async generator' else value}")

    def raising(self):
        kind = self.pick("ValueError", "KeyError", "RuntimeError", "StopIteration")
        self.put(
            f"if {self.condition()}: raise {kind}({self.pick('', self.integer(), self.text())})"
        )

    def stop(self):
        """What a compiler must break at."""
        x = self.var("tensor")
        self.put(
            self.pick(
                f"LOG.append(float({x}.sum()))", f"print({x}.tolist())", "braze.graph_break()",
                f"{self.var('int')} = int({x}.sum().item() * 0)", f"LOG.append(str({x}.dtype))",
            )
        )  # fmt: skip

    def branch(self):
        self.put(f"if {self.condition()}:")
        self.block()
        if self.chance(40):
            self.put("else:")
            self.block()

    def loop(self):
        items, x = self.var("list"), self.var("tensor")
        kind = self.random.randrange(6)
        self.count += 1
        i = f"i{self.count}"
        if kind == 0:
            self.put(f"for {i} in range({self.random.randint(0, 3)}):")
        elif kind == 1:
            self.put(f"for {i} in list({items})[:3]:")
        elif kind == 2:
            self.put(f"for {i}, v in enumerate({x}[:2]):")
        elif kind == 3:
            self.put(f"for k, {i} in list({self.var('dict')}.items())[:3]:")
        elif kind == 4:
            self.put(f"for {i} in walk([1, {self.integer()}], {x}):")
        else:
            self.put(f"for {i}, j in zip(range(3), {items}):")

        def fill():
            if kind != 3:
                self.names["int"].append(i)
            if kind == 2:
                self.names["tensor"].append("v")
            if self.chance(25):
                self.put(f"if {self.condition()}: {self.pick('break', 'continue')}")

        self.block(fill)
        if self.chance(15):
            self.put("else:")
            self.block(most=1)

    def while_loop(self):
        self.count += 1
        w = f"w{self.count}"
        self.put(f"{w} = {self.random.randint(0, 3)}")
        self.put(f"while {w} > 0:")
        self.block(lambda: self.put(f"{w} -= 1"))

    def local_function(self):
        self.count += 1
        name, cell = f"f{self.count}", self.var("int")
        kind = self.random.randrange(3)
        if kind == 0:
            self.put(f"def {name}(v, k={self.integer(1)}):")
            self.put(f"    return v * k + {self.var('tensor')}.sum()")
            call = f"{name}({{x}})"
        elif kind == 1:
            self.put(f"def {name}(v):")
            self.put(f"    nonlocal {cell}")
            self.put(f"    {cell} += 1")
            self.put(f"    return v + {cell}")
            call = f"{name}({{x}})"
            cell_needed = cell
            self.nonlocals.add(cell_needed)
        else:
            self.put(f"{name} = lambda *v, **k: v[0] + len(v) + {self.integer(1)}")
            call = f"{name}({{x}}, 1, q=2)"
        self.names["function"].append(call)
        self.bind("tensor", call.format(x=self.var("tensor")))

    nonlocals = frozenset()

    def call_local(self):
        if self.names["function"]:
            self.bind("tensor", self.var("function").format(x=self.var("tensor")))


LIBRARIES = "libraries"
KINDS = ("function", "generator", "coroutine", "async generator")


def with_prelude(function):
    """The whole program around the text of a function `f` that may use all of the preludes."""
    return f"{PRELUDE}\n\n{LIBRARIES_PRELUDE}\n\n{function}"


def program(seed, kind="function", wide=False):
    """Source text with a function `f` of this kind, which gives things back now and then.

    `wide`: with the statements of `program_objects.py`; `LIBRARIES`: with those of
    `program_libraries.py` as well.
    """
    writer = Writer(seed, kind, wide)
    writer.nonlocals = set()
    while writer.budget > 0:
        writer.statement()
    result = ", ".join(
        writer.random.choice(writer.names[kind]) for kind in ("tensor", "tensor", "int", "list")
    )
    if kind in ("generator", "async generator"):
        writer.put("yield n")
    body = "\n".join(writer.lines)
    begin = "async def" if kind in ("coroutine", "async generator") else "def"
    end = f"yield {result}" if kind == "async generator" else f"return {result}"
    prelude = f"{PRELUDE}\n\n{LIBRARIES_PRELUDE}" if wide == LIBRARIES else PRELUDE
    return (
        f"{prelude}\n\n{begin} f(x, y, n, items, table, box):\n    global TOTAL, SCALE\n{body}\n"
        f"    {end}\n"
    )
