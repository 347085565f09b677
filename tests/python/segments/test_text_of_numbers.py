"""Text of numbers that vary is made at each call and is no reason to compile again."""

import contextlib
import io
import logging
import warnings

import braze
import pytest
import torch
from support import compare, entries, same

KEPT = []


class Keep(logging.Handler):
    def emit(self, record):
        KEPT.append((record.getMessage(), record.funcName, record.lineno))


LOG = logging.getLogger("test_text_of_numbers")
LOG.addHandler(Keep())
LOG.setLevel(logging.INFO)
LOG.propagate = False

# By name: the function, and how many entries it takes. A break on data is one of them, and so is
# what follows it; a number that is an argument is a symbol from the second value on.
PROGRAMS = {}


def program(count):
    def note(function):
        PROGRAMS[function.__name__] = (function, count)
        return function

    return note


@program(2)
def a_tensor(x):
    y = x * 2
    print(y.amax())
    return y + 1


@program(2)
def an_f_string(x):
    y = x * 2
    print(f"loss {y.amax().item():.4f} of {4}")
    return y + 1


@program(2)
def a_number(x):
    y = x * 2
    loss = y.amax().item()
    print("loss", loss, sep="=", end=";\n")
    return y + 1


@program(2)
def a_conversion(x):
    y = x * 2
    loss = float(y.amax())
    print(f"{loss!r:>24}|{loss!s}|{str(loss)}|{loss:{'.2e'}}")
    return y + 1


@program(2)
def an_old_template(x):
    y = x * 2
    loss = y.amax().item()
    print("loss %.3f%%" % loss)
    return y + 1


@program(2)
def a_template(x):
    y = x * 2
    loss = y.amax().item()
    print("loss {:.3f} {{}}".format(loss))
    return y + 1


@program(2)
def an_integer(x):
    y = x * 2
    count = int(y.argmax())
    print("at", count, f"{count:05d} {count:x}", "%d" % count)
    return y + 1


@program(2)
def a_bool(x):
    y = x * 2
    print(f"{bool(y.amax() > 0)!s:>6}")
    return y + 1


@program(2)
def text_of_a_tensor(x):
    y = x * 2
    print(f"{y}", "and more")
    return y + 1


@program(2)
def text_that_is_kept(x):
    y = x * 2
    name = f"loss {y.amax().item():.4f}"
    return y + 1, {"name": name, "again": [name]}


@program(2)
def an_argument(x, step):
    print("step", step, f"{step} {step + 1:03d}")
    return x * 2


@program(2)
def a_log_record(x):
    y = x * 2
    LOG.info(f"loss {y.amax().item():.4f}")
    return y + 1


@program(2)
def several_numbers(x, step):
    y = x * 2
    loss, best = y.amax().item(), step
    print(f"{loss:.3f} {best} {x.dtype}")
    return y + 1


def call(function, takes_step, k):
    x = torch.randn(4, generator=torch.Generator().manual_seed(k))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = function(x, k + 3) if takes_step else function(x)
    kept = list(KEPT)
    KEPT.clear()
    return value, printed.getvalue(), kept


@pytest.mark.parametrize("dynamic", [None, True], ids=["auto", "dynamic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_is_compiled_once(name, dynamic):
    function, count = PROGRAMS[name]
    compiled = braze.compile(function, dynamic=dynamic)
    takes_step = function.__code__.co_argcount == 2
    for k in range(8):
        want, got = call(function, takes_step, k), call(compiled, takes_step, k)
        same(got[0], want[0])
        assert got[1:] == want[1:]
    extra = name == "several_numbers"  # its first part is compiled for the step as well
    assert len(entries(compiled)) <= count + extra


@pytest.mark.parametrize("dynamic", [None, True], ids=["auto", "dynamic"])
def test_shapes(dynamic):
    def f(x):
        print("shape", x.shape, len(x), f"{x.shape} {x.numel():4d} {tuple(x.shape)}")
        return x + 1

    calls = [lambda n=n: (torch.ones(n, 3),) for n in range(3, 9)]
    assert len(entries(compare(lambda: f, calls, dynamic=dynamic))) <= 2


# What looks at such text looks at the str, and what it was made of is guarded.
LOOKS = {
    "length": lambda text: len(text),
    "comparison": lambda text: text == "1.00",
    "membership": lambda text: "1" in text,
    "character": lambda text: (text[0], text[-2:]),
    "method": lambda text: (text.upper(), text.split("."), text.startswith("1")),
    "joined": lambda text: "-".join([text, "end"]) + text * 2,
    "added": lambda text: "loss " + text + "!",
    "key": lambda text: {text: 1}.get("1.00", 0),
    "type": lambda text: (isinstance(text, str), type(text) is str, callable(text)),
    "truth": lambda text: bool(text) and not not text,
    "number": lambda text: float(text) * 2,
    "loop": lambda text: [character for character in text],
    "unpacked": lambda text: (lambda a, *rest: (a, rest))(*text),
    "sorted": lambda text: sorted(text),
    "hash": lambda text: hash(text) == hash(str(text)),
    "set": lambda text: {text, "1.00"} == {"1.00"},
    "text again": lambda text: (f"<{text:>8}>", str(text), repr(text), "%s" % text),
    "keyword": lambda text: dict(**{text: 1}),
    "attribute": lambda text: setattr(Box, "text", 1) if text == "never" else hasattr(Box, text),
    "match": lambda text: matched(text),
    "error": lambda text: raised(text),
    "no number": lambda text: text + 1,
    "no such item": lambda text: text[100],
    "encoded": lambda text: text.encode(),
    "written": lambda text: io.StringIO(text).read(),
    "module": lambda text: torch.ones(2).sum() + len(text),
}


class Box:
    pass


def matched(text):
    match text:
        case "1.00":
            return "one"
        case str():
            return "text"
    return None


def raised(text):
    try:
        raise ValueError(f"loss {text}")
    except ValueError as error:
        return error.args, str(error)


@pytest.mark.parametrize("name", LOOKS)
def test_looked_at(name):
    look = LOOKS[name]

    def f(x):
        y = x * 2
        text = f"{y.amax().item():.2f}"
        return y + 1, look(text), text

    calls = [lambda v=v: (torch.full((3,), v),) for v in (0.5, 1.0, 0.5, 123.456)]
    compare(lambda: f, calls)


def test_numbers_that_no_format_takes():
    """Formats that fail for some values of a type only are tried on the value."""

    def f(x):
        n = int(x.amax())
        y = x * 2
        try:
            text = f"{n:c}"
        except (OverflowError, ValueError) as error:
            text = str(error)
        try:
            text += "%d" % float(x.amin())
        except (OverflowError, ValueError) as error:
            text += str(error)
        return y + 1, text

    calls = [
        lambda v=v: (torch.tensor(v),) for v in ([65.0, 1.0], [-5.0, -7.0], [66.0, -float("inf")])
    ]
    compare(lambda: f, calls)


def test_other_types():
    """The text is that of the type that it was made for."""

    def f(x, value):
        print(f"{value}", value)
        return x + 1

    values = (1.5, 2.5, 3, 4, True, "text", None, (1, 2), 5.5)
    compare(lambda: f, [lambda v=v: (torch.ones(2), v) for v in values])


def test_a_warning_of_a_number():
    def f(x):
        y = x * 2
        warnings.warn(f"loss {y.amax().item():.2f}", stacklevel=2)
        return y + 1

    compiled = braze.compile(f)
    for k in range(3):
        told = []
        for function in (f, compiled):
            with warnings.catch_warnings(record=True) as record:
                warnings.simplefilter("always")
                function(torch.full((2,), float(k)))
            told.append([(str(w.message), w.filename, w.lineno) for w in record])
        assert told[0] == told[1]


NEW = {
    "numbers": lambda y: y.new_tensor([1.0, 2.0]) + y[:2],
    "a number": lambda y: y.new_tensor(3) + y,
    "nested": lambda y: y.new_tensor([[1.0, 2.0], [3.0, 4.0]]),
    "nothing": lambda y: y.new_tensor([]),
    "of a dtype": lambda y: y.new_tensor([1, 2], dtype=torch.float64),
    "on a device": lambda y: y.new_tensor([1.5], device="cpu"),
    "of bools": lambda y: (y > 0).new_tensor([True, False]),
    "of a shape": lambda y: y.new_tensor([y.shape[0], 2]),
    "zeros": lambda y: y.new_zeros(3) + y.new_ones(y.shape)[:3],
    "full": lambda y: y.new_full((2,), 3.0),
    "empty": lambda y: y.new_empty(2).fill_(1),
    "type of another": lambda y: torch.ones(3).type_as(y.double()),
    "as a tensor": lambda y: torch.as_tensor([1.0, 2.0], dtype=y.dtype) + y[:2],
    "a tensor": lambda y: torch.tensor([1.0, 2.0], dtype=y.dtype, device=y.device),
}


@pytest.mark.parametrize("dynamic", [None, True], ids=["auto", "dynamic"])
@pytest.mark.parametrize("name", NEW)
def test_new_tensors_are_captured(name, dynamic):
    """Of a computed tensor; without a break."""
    make = NEW[name]
    calls = [lambda n=n: (torch.ones(n),) for n in (3, 4, 5, 6)]
    compiled = compare(lambda: lambda x: make(x * 2), calls, dynamic=dynamic)
    made = entries(compiled)
    assert not any(entry["reason"] for entry in made)
    assert len(made) <= 2


OTHER_NEW = {
    "of a tensor": lambda y: y.new_tensor(y),
    "of tensors": lambda y: y.new_tensor([y[0], y[1]]),
    "with a gradient": lambda y: y.new_tensor([1.0], requires_grad=True),
    "without data": lambda y: y.new_tensor(),
    "of text": lambda y: y.new_tensor("text"),
    "of uneven rows": lambda y: y.new_tensor([[1.0], [1.0, 2.0]]),
    "with a wrong option": lambda y: y.new_tensor([1.0], color="red"),
    "legacy": lambda y: y.new([1.0, 2.0]),
}


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("name", OTHER_NEW)
def test_other_new_tensors(name):
    make = OTHER_NEW[name]

    def f(x):
        try:
            return make(x * 2)
        except (TypeError, ValueError, RuntimeError) as error:
            return str(error)

    compare(lambda: f, [lambda n=n: (torch.ones(n),) for n in (3, 3, 4)])


def test_a_tensor_of_numbers_that_vary():
    def f(x):
        total = x.amax().item()
        return torch.tensor([total, 2.0]) * x.sum(), torch.tensor(total)

    calls = [lambda k=k: (torch.full((3,), k / 3),) for k in range(8)]
    assert len(entries(compare(lambda: f, calls))) <= 4


def test_parts_of_a_group_that_was_raised_before_the_segment():
    def f(y, n):
        seen = []
        try:
            error = ExceptionGroup("g", [ValueError(y.shape[1]), KeyError("k")])
            if y.sum() > n:
                raise error
        except* ValueError as e:
            seen.append([str(part) for part in e.exceptions])
        except* KeyError as e:
            seen.append([str(part) for part in e.exceptions])
        return y * 2, seen

    fast = braze.compile(f, dynamic=True)
    for shape, n in (((2, 3), 2), ((2, 3), 3), ((4, 2), 5), ((5, 6), 5), ((4, 2), 3)):
        y = torch.ones(shape)
        wanted, got = f(y, n), fast(y, n)
        assert got[1] == wanted[1]
        torch.testing.assert_close(got[0], wanted[0])
