"""Statements of random programs over objects: classes with slots, properties and look-ups of their
own, patterns, decorators, containers that change while they are gone over, groups of exceptions,
tensors that share memory."""


class Objects:
    """Mixed into `programs.Writer`."""

    def over_objects(self):
        """Statements by weight."""
        return [
            (5, self.new_class), (4, self.pattern), (6, self.nested_leaving), (6, self.grouped),
            (8, self.while_going), (6, self.called), (8, self.shared_memory), (3, self.formatted),
        ]  # fmt: skip

    def change_box(self):
        box, a = self.var("box"), self.integer()
        self.put(
            self.pick(
                f"{box}.value = {a}", f"{box}.value += {a}", f"{box}.double = {a}", f"{box}.push({a})",
                f"{box}.extra = {a}", self.rarely(f"del {box}.extra", "pass"), f"setattr({box}, 'value', {a})",
                f"{box}.tensor = {self.tensor(1)}", f"{box}.tensor.add_({a})", f"{box}.items = {self.listing()}",
                f"{box}.__dict__['value'] = {a}", f"{box}.tensor += 1", f"{box}.kind = 'own'",
            )
        )  # fmt: skip

    def new_box(self):
        self.bind("box", f"{self.pick('Box', 'Child')}({self.integer()})")

    def new_class(self):
        """A class of the function itself, used at once."""
        self.count += 1
        name, a, x = f"C{self.count}", self.integer(1), self.var("tensor")
        kind = self.random.randrange(5)
        if kind == 0:
            lines = [
                f"class {name}:",
                "    __slots__ = ('v', 'w')",
                f"    def __init__(self, v, w={a}): self.v, self.w = v, w",
                "    @property",
                "    def both(self): return self.v * self.w",
                "    @both.setter",
                "    def both(self, value): self.w = value",
            ]
            use = [f"o = {name}({x})", f"o.both = {a}", "LOG.append(o.both)", "o.extra = 1"]
        elif kind == 1:
            lines = [
                f"class {name}(Box):",
                "    def __getattr__(self, name):",
                "        if name.startswith('_'): raise AttributeError(name)",
                f"        return len(name) + {a}",
                "    def __setattr__(self, name, value):",
                "        LOG.append(name)",
                "        super().__setattr__(name, value)",
            ]
            use = [f"o = {name}({a})", "LOG.append(o.anything)", f"o.tensor = {x}", "del o.tensor",
                   "LOG.append(getattr(o, '_none', 7))", "LOG.append(o.tensor)"]  # fmt: skip
        elif kind == 2:
            lines = [
                f"class {name}:",
                f"    def __init__(self): self.n = {a}",
                "    def __iter__(self): return self",
                "    def __next__(self):",
                "        self.n += 1",
                "        if self.n > 5: raise StopIteration",
                f"        return {x} * self.n",
                "    def __contains__(self, item): return item == self.n",
                "    def __bool__(self): return self.n > 2",
            ]
            use = [f"o = {name}()", f"LOG.append({a} in o)", "LOG.append([v for v in o][:2])",
                   "LOG.append(1 if o else 2)", "first, *others = o"]  # fmt: skip
        elif kind == 3:
            lines = [
                "@dataclasses.dataclass(order=True)",
                f"class {name}:",
                f"    n: int = {a}",
                "    items: list = dataclasses.field(default_factory=list)",
                "    def add(self, item): self.items.append(item); return self",
            ]
            use = [f"o = {name}().add({a}).add(2)", f"LOG.append(o < {name}(3))", "LOG.append(o.items)",
                   f"LOG.append(o == {name}(n={a}, items=[{a}, 2]))", "LOG.append(repr(o)[-20:])"]  # fmt: skip
        else:
            lines = [
                f"class {name}(collections.namedtuple('Pair', 'a b')):",
                "    def __add__(self, other): return type(self)(self.a + other, self.b)",
                "    @classmethod",
                "    def of(cls, v): return cls(v, v)",
                "    @staticmethod",
                f"    def plain(v): return v + {a}",
            ]
            use = [f"o = {name}.of({x}) + {a}", "LOG.append(o.a.sum())", f"LOG.append({name}.plain(1))",
                   "LOG.append(o._replace(b=2).b)", f"a, b = {name}(1, b={x})"]  # fmt: skip
        for line in lines:
            self.put(line)
        chosen = [use[0], *self.random.sample(use[1:], 3)]
        self.guarded(chosen)

    def guarded(self, lines):
        self.put("try:")
        for line in lines:
            self.put("    " + line)
        self.put("except Exception as e:")
        self.put("    LOG.append(type(e).__name__)")

    def pattern(self):
        x, a, d = self.var("tensor"), self.integer(1), self.var("dict")
        subject = self.pick(
            d, self.var("list"), self.var("box"), f"({a}, {self.var('list')})",
            f"{{'kind': 'k', 'v': {a}, 'more': [{a}, 2, 3]}}", f"[[{a}, 1], {x}]", self.text(),
        )  # fmt: skip
        self.put(f"match {subject}:")
        cases = [
            "{'kind': 'k', 'more': [first, *others], **rest}", "{'a': int(v) as w, **rest}", "[[a, b], other]",
            "(int(a), [*b]) if a > 1", "Child(value=v, kind='child') | Box(value=v, kind='own')", "str() as s",
            "Box(items=[], value=v)", "[int(), int(), *_] as all", "{'b': 2 | 3 | None}", "(a, [b, *_])",
        ]  # fmt: skip
        for case in self.random.sample(cases, 3):
            self.put(f"    case {case}:")
            self.put(f"        LOG.append({self.pick(a, repr(case), f'float({x}.sum())')})")
        self.put("    case _:")
        self.put(f"        {x} = {x} + 1")

    def nested_leaving(self):
        """`finally` within `finally`, left by return, break and continue."""
        self.count += 1
        i, x = f"i{self.count}", self.var("tensor")
        leave = self.pick("break", "continue", "raise KeyError(1)", "pass",
                          "return" if self.kind == "async generator" else f"return {x}")  # fmt: skip
        again = self.pick("break", "continue", "pass", "pass")
        self.put(f"for {i} in range(3):")
        for line in [
            "    try:",
            f"        with {self.manager()}:",
            "            try:",
            f"                {x} = {x} + {i}",
            f"                if {self.condition()}: {leave}",
            f"                LOG.append({self.pick(i, f'float({x}.sum())')})",
            "            finally:",
            f"                LOG.append(('inner', {i}))",
            f"                {self.pick('pass', f'print({x}.shape)', 'braze.graph_break()')}",
            "    except (KeyError, ValueError) as e:",
            f"        LOG.append((repr(e), e.__context__ is None)); {again}",
            "    finally:",
            f"        LOG.append(('outer', {i})); {self.pick('pass', 'pass', 'pass', again)}",
        ]:
            self.put(line)

    def grouped(self):
        """Groups of exceptions, notes, causes."""
        x, a = self.var("tensor"), self.integer(1)
        group = self.pick(
            f"ExceptionGroup('g', [ValueError({a}), KeyError('k')])", f"ValueError({a})",
            f"ExceptionGroup('g', [ExceptionGroup('h', [TypeError({a})]), ValueError(1)])", "OSError(2, 'no')",
        )  # fmt: skip
        for line in [
            "try:",
            "    try:",
            f"        error = {group}",
            f"        error.add_note(str({a}))",
            f"        if {self.condition()}: raise error {self.pick('', 'from KeyError(1)', 'from None')}",
            "    except* ValueError as e:",
            f"        LOG.append([str(i) for i in e.exceptions]); {x} = {x} * 2",
            f"        {self.pick('pass', f'print(float({x}.sum()))', 'raise RuntimeError(1)')}",
            "    except* (TypeError, KeyError) as e:",
            "        LOG.append(len(e.exceptions))",
            f"    {self.pick('else', 'finally')}:",
            f"        {x} = {x} - 1",
            "except BaseException as e:",
            "    LOG.append((type(e).__name__, str(e)[:30], getattr(e, '__notes__', 0)))",
            "    LOG.append((type(e.__cause__).__name__, e.__suppress_context__))",
        ]:
            self.put(line)

    def while_going(self):
        """Containers that change while they are gone over; what is consumed in turns."""
        items, d, a, x = self.var("list"), self.var("dict"), self.integer(1), self.var("tensor")
        self.guarded(
            self.pick(
                [f"for k in {d}: {d}[k * 2] = {a}"],
                [f"for k in {d}:", f"    if {d}.pop(k, 0): LOG.append(k)"],
                [f"for v in {items}:", f"    if len({items}) < 9: {items}.append({a})", f"    {x} = {x} + 1"],
                ["s = {1, 2, 3}", f"for v in s: s.add(v + {a}); LOG.append(v)"],
                [f"q = collections.deque({items}, maxlen=3)", f"q.append({a}); q.rotate(1)", "LOG.append(list(q))",
                 "for v in q: q.append(v)"],
                [f"it = iter({items})", "LOG.append(list(zip(it, it)))", "LOG.append(next(it))"],
                [f"c = itertools.chain({items}, ({x} * i for i in range(2)))", "LOG.append(list(itertools.islice(c, 3)))"],
                [f"LOG.append([(k, list(g)) for k, g in itertools.groupby(sorted({items}), key=lambda v: v % 2)])"],
                [f"LOG.append(list(itertools.accumulate([{x}.sum(), 1, {a}], lambda a, b: a * 2 + b)))"],
                [f"LOG.append(list(itertools.takewhile(lambda v: float({x}.sum()) > v, {items})))"],
                [f"LOG.append(collections.Counter({items}).most_common(2))"],
                [f"dd = collections.defaultdict(lambda: {x} + {a})", "dd['k'] += 1; LOG.append(dd['k'])", "LOG.append(len(dd))"],
                [f"rows = sorted({x}[:2], key=lambda r: float(r.sum()))", "LOG.append(rows[0])"],
                [f"LOG.append(max({items}, key=lambda v: (v % 3, {a}), default=None))"],
                [f"LOG.append(functools.reduce(lambda a, b: a + float(b.sum()), {x}, 0))"],
                [f"a, *b, c = *{items}, {a}, {x}", "LOG.append((a, b, c))"],
                [f"LOG.append({{k: v for k, v in sorted({d}.items(), key=lambda p: str(p)) if v is not {x}}})"],
                [f"LOG.append([[i + j for j in range(i) if j != {a}] for i in range(4) if i % 2 or {self.condition()}])"],
            )
        )  # fmt: skip

    def called(self):
        """Calls with stars, defaults that are kept, decorators, recursion, `del`, `nonlocal`."""
        self.count += 1
        f, a, x, items = f"h{self.count}", self.integer(1), self.var("tensor"), self.var("list")
        kind = self.random.randrange(6)
        if kind == 0:
            self.put(
                f"def {f}(a, /, b={a}, *args, c=lambda v: v + 1, **kwargs): return (a, b, args, c(2), kwargs)"
            )
            use = [f"LOG.append({f}(1, *{items}[:2], c=lambda v: v, d={a}))", f"LOG.append({f}(*{items}))",
                   f"LOG.append({f}(a=1))", f"LOG.append({f}(1, **{self.var('dict')}))"]  # fmt: skip
        elif kind == 1:
            self.put(f"def {f}(v, seen=[]): seen.append(v); return len(seen)")
            use = [f"LOG.append({f}(1))", f"LOG.append({f}({x}))", f"LOG.append({f}.__defaults__)"]
        elif kind == 2:
            self.put(
                f"{f} = [lambda v, i=i: v * i for i in range(3)] + [lambda v: v + i for i in range(1)]"
            )
            use = [f"LOG.append([g({x}) for g in {f}])", f"LOG.append({f}[-1](1))"]
        elif kind == 3:
            self.put("@counted")
            self.put("@functools.lru_cache(maxsize=None)")
            self.put(f"def {f}(k): return 1 if k < 1 else {f}(k - 1) * k + {a}")
            use = [f"LOG.append({f}({a}))", f"LOG.append({f}(4))", "LOG.append(TOTAL)"]
        elif kind == 4:
            self.put(f"def {f}():")
            self.put(f"    held = {x} * {a}")
            self.put("    def step(k):")
            self.put("        nonlocal held")
            self.put("        held = held + k")
            self.put("        if k > 2: del held")
            self.put("        return held")
            self.put("    return step")
            use = [f"g = {f}()", "LOG.append(g(1))", "LOG.append(g(3))", "LOG.append(g(1))"]
        else:
            self.put(f"{f} = {x}.sum()")
            self.put(f"if {self.condition()}: del {f}")
            use = [f"LOG.append({f})", f"{f} = {a}; del {f}", f"{f} += 1"]
        self.guarded(use)

    def shared_memory(self):
        x, y, a = self.var("tensor"), self.var("tensor"), self.integer(1)
        self.guarded(
            self.pick(
                [f"v = {x}.view(-1); v[1:4] += {a}; LOG.append({x}.clone())"],
                [f"v = {x}[0]; v.mul_({a}); {x}[-1] = v; LOG.append({x}.sum())"],
                [f"w = {x}.t(); w[0] = {y}.t()[0] + 1; {x}.add_(w.t())"],
                [f"torch.mul({x}, 2, out={y} if {x}.numel() <= {y}.numel() else torch.empty(0)); LOG.append({y}.clone())"],
                [f"o = torch.empty(0); torch.add({x}, {a}, out=o); LOG.append(o.shape)"],
                [f"a, b = {x}.chunk(2, -1); a.add_(1); LOG.append((b.clone(), {x}.clone()))"],
                [f"for r in {x}: r += {a}", f"LOG.append(float({x}.sum()))"],
                [f"v = {x}.detach(); v.zero_(); LOG.append(float({x}.sum()))"],
                [f"v = {x}.expand(2, *{x}.shape); LOG.append(v.sum()); v.add_(1)"],
                [f"{x}.data = {y} * 2; LOG.append({x}.mean())"],
                [f"{x}.unsqueeze_(0).squeeze_(0); {x}.t_().t_(); LOG.append({x}.stride())"],
                [f"c = {x}.clone(); c[c > {a}] = 0; LOG.append(c)", f"{x}.copy_(c); {y}[:, :1].fill_({a})"],
                [f"k = torch.tensor([1, 0]); {x}.index_add_(0, k, {y}[:2]); {x}[k] = {y}[:2]"],
            )
        )  # fmt: skip

    def formatted(self):
        a, x = self.integer(1), self.var("tensor")
        self.guarded(
            [
                "LOG.append("
                + self.pick(
                    f"f'{{{a}!r:>{{4}}}}|{{n:04d}}|{{n / 3:.2f}}'", f"f'{{{x}.sum().item():.1f}}'", f"'%s-%r' % ({a}, 'q')",
                    f"'{{:>5}}{{k}}'.format({a}, k=n)", f"f'{{{a}=}}'", f"'abc'[{a}:] + 'x' * n", f"f'{{{x}.shape}}'.split(',')",
                    "' '.join(map(str, range(min(n, 9)))).title().center(9, '*')", "f'{[i for i in range(2)]}{{}}'",
                    "bytes([n % 7]) + b'a'", "'a1b2'.translate({97: 'z'})", f"str({self.var('dict')}.keys())",
                )
                + ")"
            ]
        )  # fmt: skip
