"""Statements of random coroutines and asynchronous generators."""


class Async:
    """Mixed into `programs.Writer`."""

    def awaited(self):
        """What gives a tensor when it is awaited."""
        a, x = self.integer(1), self.var("tensor")
        return self.pick(
            f"slow({x}, {a})", f"slow({self.tensor(1)}, 2)", f"Give({x})", f"deep({x}, {a} % 4)"
        )

    def suspend_async(self):
        value = self.pick(self.tensor(), self.integer(), self.var("list"))
        choices = [
            f"await Give({value})",
            f"LOG.append(await Give({value}))",
            f"LOG.append(await {self.awaited()})",
            f"LOG.append([await Give(1), await {self.awaited()}, {self.integer(1)}])",
        ]
        if self.kind == "async generator":
            choices += [
                f"yield {value}",
                f"LOG.append((yield {value}))",
                f"yield await Give({value})",
            ]
        self.put(self.pick(*choices))

    def asynchronous(self):
        x, a = self.var("tensor"), self.integer(1)
        kind = self.random.randrange(6)
        if kind == 0:
            self.count += 1
            self.put(f"async for v in ticks({x}, {self.random.randint(0, 4)}):")

            def fill():
                self.names["tensor"].append("v")
                if self.chance(40):
                    self.put(f"if {self.condition()}: {self.pick('break', 'continue')}")

            self.block(fill)
            if self.chance(20):
                self.put("else:")
                self.block(most=1)
        elif kind == 1:
            manager = self.pick(
                "Entering(True)",
                "Entering(False)",
                "Entering(False), Guard(True)",
                "lasting(ValueError)",
            )
            self.put(f"async with {manager}:")
            self.block(lambda: self.raising() if self.chance(40) else self.suspend_async())
        elif kind == 2:
            self.put(f"LOG.append([v * {a} async for v in ticks({x}, 3)])")
        elif kind == 3:
            self.put("try:")
            self.block(self.suspend_async)
            self.put(f"except {self.pick('ValueError', 'Exception')} as e:")
            self.put("    LOG.append(repr(e)[:20])")
            self.put(f"    LOG.append(await {self.awaited()})")
            self.put("finally:")
            self.put("    LOG.append('left')")
        elif kind == 4:
            self.count += 1
            g = f"g{self.count}"
            self.put(f"{g} = ticks({x}, 4)")
            for _ in range(self.random.randint(1, 3)):
                action = self.pick(
                    "anext({})",
                    "{}.asend(3)",
                    "{}.athrow(ValueError('in'))",
                    "{}.aclose()",
                    "anext({}, 7)",
                )
                self.put("try:")
                self.put(f"    LOG.append(await {action.format(g)})")
                self.put("except (ValueError, StopAsyncIteration, RuntimeError) as e:")
                self.put("    LOG.append(repr(e)[:20])")
            self.put(f"await {g}.aclose()")
        else:
            self.put(f"LOG.append([await slow(v, i) for i, v in enumerate({x}[:2])])")
