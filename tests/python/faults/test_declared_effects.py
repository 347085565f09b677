"""Plans on disk and operators whose author declares other effects in a later process."""

import itertools

import pytest

# What the operator does is the same throughout, what is declared is not.
FORMS = {
    "none": ("(Tensor x) -> ()", "lambda x: None"),
    "writes": ("(Tensor(a!) x) -> ()", "lambda x: (x.add_(100), None)[1]"),
    "returns_new": ("(Tensor x) -> Tensor", "lambda x: x * 3"),
    "returns_it": ("(Tensor(a!) x) -> Tensor(a!)", "lambda x: x.mul_(3)"),
    "returns_view": ("(Tensor(a) x) -> Tensor(a)", "lambda x: x.view(-1, x.shape[-1])"),
    "writes_and_returns_new": ("(Tensor(a!) x) -> Tensor", "lambda x: (x.add_(7), x + 1)[1]"),
}

USE = """
lib = torch.library.Library("my", "DEF")
lib.define("op" + {schema!r})
implementation = {implementation}
torch.library.impl("my::op", "CPU", lib=lib)(implementation)
torch.library.register_fake("my::op", {fake}, lib=lib)
def g(x):
    y = x + 1
    z = torch.ops.my.op(y)
    w = y * 2 + x
    return (y, w) if z is None else (y, w, z + w)
for dynamic in (None, True):
    for n in (5, 4):
        x = torch.arange(6.0 * n).reshape(n, 6)
        fast = braze.compile(g, dynamic=dynamic)
        want, got = g(x.clone()), fast(x.clone())
        for a, b in zip(got, want, strict=True):
            same(a, b)
        print(fast._entries()[0]["from_cache"], end=" ")
"""


def use(form):
    schema, implementation = FORMS[form]
    fake = "lambda x: None" if schema.endswith("()") else "lambda x: torch.empty_like(x)"
    if form == "returns_it":
        fake = "lambda x: x"
    if form == "returns_view":
        fake = "lambda x: x.view(-1, x.shape[-1])"
    return USE.format(schema=schema, implementation=implementation, fake=fake)


@pytest.mark.parametrize("first, second", list(itertools.permutations(FORMS, 2)))
def test_declared_otherwise_in_a_later_process(first, second, program):
    program(use(first))
    program(use(second))


@pytest.mark.parametrize("form", FORMS)
def test_declared_the_same_it_is_taken_from_the_cache(form, program):
    program(use(form))
    assert "True" in program(use(form))


def test_a_random_tag_is_declared_later(program):
    source = """
    lib = torch.library.Library("my", "DEF")
    lib.define("draw(Tensor x) -> Tensor", tags=TAGS)
    torch.library.impl("my::draw", "CPU", lib=lib)(lambda x: torch.rand_like(x))
    torch.library.register_fake("my::draw", lambda x: torch.empty_like(x), lib=lib)
    def g(x):
        a, b = torch.ops.my.draw(x), torch.ops.my.draw(x)
        torch.ops.my.draw(x)
        return a, b, torch.rand(2)
    x = torch.zeros(8)
    torch.manual_seed(3)
    want = g(x)
    torch.manual_seed(3)
    got = braze.compile(g)(x)
    for a, b in zip(got, want):
        same(a, b)
    """
    # Without the tag two calls may be one: only that it runs is asked.
    untagged = source.replace("TAGS", "()").replace("for a, b in zip(got, want):", "if False:")
    program(untagged)
    program(source.replace("TAGS", "(torch.Tag.nondeterministic_seeded,)"))


def test_within_one_process_the_operator_that_is_there_counts(program):
    """An operator goes and another of its name comes, which may lie at the same address."""
    program(
        """
        import gc
        def g(x):
            y = x + 1
            z = torch.ops.mine.op(y)
            return y, y * 2 + x
        x = torch.arange(8.0)
        for k in range(12):
            lib = torch.library.Library("mine", "DEF")
            if k % 2:
                lib.define("op(Tensor(a!) x) -> ()")
                lib.impl("op", lambda x: (x.add_(k), None)[1], "CPU")
            else:
                lib.define("op(Tensor x) -> ()")
                lib.impl("op", lambda x: None, "CPU")
            torch.library.register_fake("mine::op", lambda x: None, lib=lib)
            want, got = g(x.clone()), braze.compile(g)(x.clone())
            for a, b in zip(got, want):
                same(a, b)
            lib._destroy()
            if hasattr(torch.ops.mine, "op"):
                del torch.ops.mine.op
            del lib
            gc.collect()
        """
    )


def test_the_order_of_what_was_seen_before_makes_no_difference(program):
    """Guesses by name (in-place twins) do not depend on what was traced before."""
    first = "once(lambda x: torch.index_add(x, 0, torch.tensor([1, 2]), x[:2]))\n"
    second = "once(lambda x: x.clone().index_add_(0, torch.tensor([1, 2]), x[:2]) + 1)\n"
    program(first + second)
    program(second + first)
