"""Statements of random programs in which control leaves a block and comes back to it: generators
of many kinds, context managers, exceptions on their way, and loops that run often."""


class Flow:
    """Mixed into `programs.Writer`."""

    def attempt(self):
        self.put("try:")
        self.block()
        handler = self.pick(
            "ValueError", "(KeyError, IndexError)", "ZeroDivisionError", "Exception", "RuntimeError"
        )
        if self.chance(85):
            self.put(f"except {handler} as e:")
            self.block(lambda: self.put("LOG.append(type(e).__name__)"))
            if self.chance(20):
                self.put("else:")
                self.block(most=1)
            if self.chance(30):
                self.put("finally:")
                self.block(most=1)
        else:
            self.put("finally:")
            self.block(most=2)

    def context(self):
        manager = self.pick(
            "Guard(True)", "Guard(False)", f"noted({self.var('list')}, 3)", "contextlib.suppress(KeyError)",
            "torch.no_grad()", "torch.enable_grad()", "contextlib.nullcontext()", "Guard(False) as g, Guard(True)",
        )  # fmt: skip
        self.put(f"with {manager}:")
        self.block()

    def matching(self):
        self.put(
            f"match {self.pick(self.var('list'), self.integer(), self.var('dict'), self.var('box'))}:"
        )
        self.depth += 1
        for case in self.random.sample(
            ["[a, *_]", "{'a': a}", "0 | 1", "Box(value=a)", "int(a)", "[]"], 3
        ):
            self.put(f"case {case}:")
            self.block(most=1)
        self.put("case _:")
        self.block(most=1)
        self.depth -= 1

    def consume(self):
        self.count += 1
        g = f"g{self.count}"
        source = self.pick("walk", "through")
        self.put(f"{g} = {source}([{self.integer(1)}, 2, 3], {self.var('tensor')})")
        self.put(f"next({g})")
        for _ in range(self.random.randint(0, 2)):
            self.put(
                self.pick(
                    f"next({g})", f"{g}.send(4)", f"{g}.close()", f"LOG.append(next({g}, None))"
                )
            )

    def catching(self, lines):
        """The lines where what they may raise is noted."""
        self.put("try:")
        for line in lines:
            self.put("    " + line)
        self.put("except (ValueError, StopIteration, KeyError, RuntimeError, TypeError) as e:")
        self.put("    LOG.append(repr(e)[:20])")

    def new_generator(self):
        a, x = self.integer(1), self.var("tensor")
        return self.pick(
            f"walk([{a}, 2, 3], {x})",
            f"through([{a}, 4], {x})",
            f"stubborn({x}, {a})",
            f"tree({self.random.randint(0, 3)}, {x})",
            f"averages({x})",
            f"relay(stubborn({x}, 2))",
            f"({x} * i for i in {self.var('list')})",
            f"(i + {a} for i in range(4) if i != {self.integer(1)})",
            f"(v.sum() for v in {x} if {self.condition()})",
            f"zip(walk([1, 2], {x}), {self.var('list')})",
            f"map(lambda v: v * {a}, tree(2, {x}))",
        )

    def drive(self):
        """A generator that is used in turns."""
        self.count += 1
        g = f"g{self.count}"
        self.put(f"{g} = {self.new_generator()}")
        for _ in range(self.random.randint(1, 4)):
            action = self.pick(
                f"LOG.append(next({g}, None))",
                f"LOG.append(next({g}))",
                f"LOG.append({g}.send({self.pick('None', '4', self.integer(1))}))",
                f"LOG.append({g}.throw(ValueError('in')))",
                f"LOG.append({g}.throw(KeyError))",
                f"{g}.close()",
                f"LOG.append(list(itertools.islice({g}, 2)))",
                f"for v in {g}: break",
                f"LOG.append({self.integer(1)} in {g})" if self.chance(30) else f"next({g}, 0)",
            )
            if self.chance(70):
                self.catching([action] if "AttributeError" in action else [action])
            else:
                self.put(action)
        if self.chance(40):
            self.catching([f"LOG.extend({g})"])

    def local_generator(self):
        self.count += 1
        g, cell = f"g{self.count}", self.var("int")
        x = self.var("tensor")
        self.put(f"def {g}(v, k={self.integer(1)}):")
        self.depth += 1
        kind = self.random.randrange(4)
        if kind == 0:
            self.put("try:")
            self.put("    for i in range(3):")
            self.put("        got = yield v * i + k")
            self.put("        LOG.append(got)")
            self.put("finally:")
            self.put("    LOG.append('closed')")
        elif kind == 1:
            self.put(f"with {self.manager()}:")
            self.put("    yield v")
            self.put("    yield v.sum() * k")
            self.put("return k")
        elif kind == 2:
            self.put(f"got = yield from stubborn(v, {self.random.randint(1, 3)})")
            self.put("yield got")
        else:
            self.nonlocals.add(cell)
            self.put(f"nonlocal {cell}")
            self.put("while k < 6:")
            self.put(f"    {cell} = k")
            self.put("    k += 2")
            self.put("    yield v + k")
        self.depth -= 1
        self.put(
            self.pick(
                f"LOG.append([v for v in {g}({x})])",
                f"LOG.append(next({g}({x})))",
                f"for v in {g}({x}, 2): {self.var('tensor')} = v",
                f"LOG.append(list(zip({g}({x}), {g}({x}, 1))))",
            )
        )

    def manager(self):
        items = self.var("list")
        return self.pick(
            "swallowing(ValueError)",
            "swallowing(KeyError)",
            f"noted({items}, {self.integer(1)})",
            "swallowing(Exception) as kinds",
            f"contextlib.closing(walk({items}, {self.var('tensor')}))",
            f"noted({items}, 1) as a, swallowing(RuntimeError)",
            "contextlib.ExitStack() as stack",
        )

    def managed(self):
        self.put(f"with {self.manager()}:")

        def fill():
            if self.chance(30):
                self.put(f"LOG.append({self.integer()})")
            if self.chance(30):
                self.raising()

        self.block(fill)

    def leave(self):
        """A loop that is left from inside of a `try` or `with`."""
        self.count += 1
        i = f"i{self.count}"
        self.put(f"for {i} in range({self.random.randint(1, 4)}):")
        self.depth += 1
        self.put(self.pick("try:", f"with {self.manager()}:", "try:"))
        tried = self.lines[-1].endswith("try:")

        def fill():
            self.put(f"if {self.condition()}: {self.pick('break', 'continue', 'LOG.append(1)')}")

        self.block(fill, most=2)
        if tried:
            if self.chance(50):
                self.put(f"except {self.pick('Exception', 'ValueError')} as e:")
                self.put(
                    f"    LOG.append(type(e).__name__); {self.pick('continue', 'break', 'pass')}"
                )
            self.put("finally:")
            self.put(f"    LOG.append({i})")
            if self.chance(15):
                self.put(f"    {self.pick('continue', 'break')}")
        self.depth -= 1

    def chained(self):
        """An exception raised while another is handled."""
        self.put("try:")
        self.block(lambda: self.raising())
        self.put(f"except {self.pick('Exception', 'ValueError', 'LookupError')} as e:")
        self.depth += 1
        self.put("LOG.append((repr(e.__context__), repr(e.__cause__)))")
        self.put(
            self.pick(
                "pass",
                f"if {self.condition()}: raise",
                f"if {self.condition()}: raise RuntimeError(1) from e",
                f"if {self.condition()}: raise KeyError('k')",
                f"{self.var('tensor')} = {self.tensor(1)}",
            )
        )
        self.depth -= 1

    def often(self):
        """A loop that runs often enough for CPython to specialise what stands in it."""
        self.count += 1
        i, x, items = f"i{self.count}", self.var("tensor"), self.var("list")
        k, box, table = self.var("int"), self.var("box"), self.var("dict")
        self.put(f"for {i} in range({self.pick(9, 20, 40)}):")
        self.depth += 1
        for _ in range(self.random.randint(1, 3)):
            self.put(
                self.pick(
                    f"{k} += {i}", f"{items}.append({i})", f"if {i} > {k}: {k} += 1", f"{box}.value = {i} + {k}",
                    f"LOG.append(len({items}) + {i})", f"{table}['a'] = {i}", f"if {i} == 3: LOG.append({i})",
                    f"{x} = {x} + {i}", f"a, b = {i}, {k}; LOG.append(a * b)", f"LOG.append({box}.double)",
                    f"if isinstance({i}, int): {box}.push({i})", f"if {i} % 8 == 7: LOG.append(float({x}.sum()))",
                    f"w = 'a'; w += str({i}); LOG.append(w)", f"LOG.append(total({i}, {k}))", f"for v in walk([{i}], {x}): pass",
                    f"if {i} == 5: braze.graph_break()", f"LOG.append([*range({i} % 3)][:1])", f"min({i}, {k}); max({i}, 2)",
                    f"if {i} * 1.5 < {k}: continue", f"if {i} > 18: break", f"LOG.append({box}[0] if {box}.items else None)",
                )
            )  # fmt: skip
        if self.generator and self.chance(50):
            self.put(f"yield {self.pick(i, x, k)}")
        self.depth -= 1

    def comprehension(self):
        """One with a break inside."""
        x, a = self.var("tensor"), self.integer(1)
        self.put(
            self.pick(
                f"LOG.append([float(v.sum()) for v in {x}])",
                f"LOG.append([v * {a} for v in {x} if float(v.sum()) > {a}])",
                f"LOG.append({{i: v.sum().item() for i, v in enumerate({x}[:2])}})",
                f"LOG.append({{float(v.mean()) for v in {x}[:1]}})",
                f"LOG.append([[braze.graph_break(), v + j][1] for j in range(2) for v in {x}[:1]])",
                f"LOG.append([(m := v.sum()) + float(m) for v in {x}][-1])",
                f"LOG.append(sum(float(v.sum()) for v in {x}[:2]))",
                f"LOG.append([print(v.shape) or v for v in {x}[:2]])",
                f"LOG.append([next(g, 0) for g in [walk([{a}], {x}), tree(1, {x})]])",
            )
        )

    def suspend_inside(self):
        """A generator's yields in blocks of all kinds."""
        x, a = self.var("tensor"), self.integer(1)
        kind = self.random.randrange(6)
        if kind == 0:
            self.put(f"{self.fresh('list')} = yield from stubborn({x}, {a})")
        elif kind == 1:
            self.put("try:")
            self.block(lambda: self.put(f"yield {x} + {a}"))
            self.put("except ValueError:")
            self.put(f"    yield {a}" if self.chance(60) else "    raise")
            if self.chance(50):
                self.put("finally:")
                self.block(lambda: self.put(self.pick("LOG.append(2)", f"yield {a}")), most=1)
        elif kind == 2:
            self.put(f"with {self.manager()}:")
            self.block(lambda: self.put(f"LOG.append((yield {x} * 2))"))
        elif kind == 3:
            self.put(f"match (yield {a}):")
            self.put(f"    case None: yield {x}")
            self.put("    case int(a): LOG.append(a)")
        elif kind == 4:
            self.put(f"for v in {self.new_generator()}:")
            self.put("    yield v")
        else:
            self.put(f"LOG.append([(yield {a}), (yield {x} - 1), {self.integer(1)}])")
