// Every program is run by CPython as it is, and once more with CPython leaving the frame at each
// instruction. Both must give the same.
#include "cpython/live_frame.h"

#include <map>
#include <memory>

#include "cpython/code.h"
#include "python.h"

namespace braze::cpython {
namespace {

using testing::code_of;
using testing::Program;
using testing::repr;
using testing::take_exception;

// Leaves the frame before each instruction where that can be done.
struct EachInstruction {
  std::map<PyCodeObject*, std::unique_ptr<StopCode>> codes;
  int stops = 0;

  const StopCode& stop_code(PyCodeObject* code) {
    auto& made = codes[code];
    if (!made) {
      std::vector<int> offsets;
      const DecodedCode& decoded = decode(code);
      const std::vector<int> depths = stack_depths(decoded);
      bool after_names = false;
      for (size_t i = 0; i < decoded.instructions.size(); ++i) {
        const Instruction& in = decoded.instructions[i];
        // The names of keyword arguments are kept by the interpreter, not the frame.
        if (in.enterable && !after_names && depths[i] >= 0 && in.offset > code->_co_firsttraceable)
          offsets.push_back(in.offset);
        after_names = in.op == Opcode::kKwNames;
      }
      made = std::make_unique<StopCode>(code, offsets);
    }
    return *made;
  }
};

std::vector<int> next_of(PyCodeObject* code, int offset, const StopCode& all) {
  // A frame does not start at a place where it is to leave: that one is left out.
  std::vector<int> offsets;
  for (const Instruction& in : decode(code).instructions)
    if (in.offset != offset && in.enterable && all.at(in.offset)) offsets.push_back(in.offset);
  return offsets;
}

PyObject* drive(void* context, PyThreadState* thread, FrameView view) {
  auto* each = static_cast<EachInstruction*>(context);
  LiveFrame frame(thread, view);
  PyObject* result = nullptr;
  std::map<int, std::unique_ptr<StopCode>> stops;
  for (;;) {
    const int at = frame.offset();
    auto& stop = stops[at];
    if (!stop)
      stop = std::make_unique<StopCode>(frame.code(),
                                        next_of(frame.code(), at, each->stop_code(frame.code())));
    if (!frame.run_until(*stop, false, &result)) return result;
    ++each->stops;
  }
}

struct Case {
  const char* name;
  const char* source;  // defines f and the arguments `a`
};

class EveryStop : public ::testing::TestWithParam<Case> {};

TEST_P(EveryStop, GivesWhatThePlainCallGives) {
  const std::string expected = [] {
    Program program(GetParam().source);
    return repr(program.eval("outcome(lambda: f(*a))"));
  }();
  Program program(GetParam().source);
  const Ref args = program.eval("a");
  EachInstruction each;
  PyObject* f = program.get("f");
  Ref result = Ref::steal(call_driven(f, PySequence_Fast_ITEMS(args.get()),
                                      PyTuple_GET_SIZE(args.get()), nullptr, drive, &each));
  std::string got;
  if (result) {
    got = repr(
        Ref::steal(PyObject_CallFunctionObjArgs(program.get("returned"), result.get(), nullptr)));
  } else {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyException_SetTraceback(value, traceback);
    got = repr(Ref::steal(PyObject_CallFunctionObjArgs(program.get("raised"), value, nullptr)));
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
  EXPECT_EQ(got, expected);
  EXPECT_GT(each.stops, 1);
}

#define PRELUDE                                                                              \
  "import traceback, sys\n"                                                                  \
  "log = []\n"                                                                               \
  "def returned(r): return 'returned', r, list(log), sys.exc_info()\n"                       \
  "def raised(e):\n"                                                                         \
  "    t = e.__traceback__\n"                                                                \
  "    lines = [(x.name, x.lineno) for x in traceback.extract_tb(t) if x.name != 'outcome' " \
  "and x.name != '<lambda>']\n"                                                              \
  "    return 'raised', repr(e), lines, repr(e.__context__), list(log)\n"                    \
  "def outcome(call):\n"                                                                     \
  "    try: r = call()\n"                                                                    \
  "    except BaseException as e: return raised(e)\n"                                        \
  "    return returned(r)\n"

const Case kCases[] = {
    {"Arithmetic", PRELUDE R"(
def f(x, y):
    z = x + y * 2 - -x
    z += 3
    w = not (z > y) and z != 5 or x
    return z, w, x if y else z, ~x, z is None, x in (1, 2), f"{x!r:>4}{y:03d}"
a = (1, 2)
)"},
    {"Loops", PRELUDE R"(
def f(n):
    total = 0
    for i in range(n):
        if i == 2: continue
        if i == 7: break
        total += i
    else:
        total = -1
    while total > 0:
        total -= 5
    return total, [k * 2 for k in range(3)], {k: v for k, v in zip('ab', (1, 2))}, {k for k in 'x'}
a = (10,)
)"},
    {"CellsAndFunctions", PRELUDE R"(
def f(x):
    y = x
    def inner(z=x, *args, k: int = 3):
        nonlocal y
        y += z + k
        return y
    inner(); inner(5, k=7)
    g = lambda: (y, x)
    del x
    return y, inner(1), g.__closure__ is not None
a = (3,)
)"},
    {"With", PRELUDE R"(
class Manager:
    def __enter__(self): log.append('enter'); return 5
    def __exit__(self, *e): log.append(('exit', repr(e[1]))); return True
def f(x):
    with Manager() as m, Manager():
        log.append(m)
        if x: raise ValueError(x)
    with Manager():
        pass
    return 'after'
a = (1,)
)"},
    {"Exceptions", PRELUDE R"(
def g(x): raise KeyError(x)
def f(x):
    try:
        g(x)
    except ValueError:
        log.append('no')
    except KeyError as e:
        log.append(repr(e)); log.append(repr(sys.exc_info()[1]))
        try:
            raise ValueError('b') from e
        except ValueError as v:
            log.append((repr(v.__cause__), repr(v.__context__)))
    finally:
        log.append('finally')
    log.append(sys.exc_info())
    for i in range(3):
        try:
            if i == 1: continue
            if i == 2: break
        finally:
            log.append(i)
    return x
a = (4,)
)"},
    {"Raises", PRELUDE R"(
def g(x):
    return x['a'
      ]['b']
def f(x):
    try:
        log.append(1)
        y = (x +
             g(x))
    finally:
        log.append('end')
    return y
a = ({'a': {}},)
)"},
    {"Unpacking", PRELUDE R"(
def h(*args, **kw): return args, kw
def f(x):
    p, q = x
    m, *n = x * 3
    (u, v), w = (x, 3)
    d = {'k': 1, **{'l': 2}}
    return p, q, m, n, u, v, w, [*x, *n], {*x}, d, h(*x, 1, z=2, **d), h(1, a=2), x[0:1], x[::-1]
a = ([1, 2],)
)"},
    {"Attributes", PRELUDE R"(
class C:
    def __init__(self): self.v = 1; self.items = {}
    def m(self, x): return self.v + x
class D(C):
    def m(self, x): return super().m(x) * 2
def f(x):
    o = D()
    o.v += x
    o.items['k'] = o.m(x)
    del o.items['k']
    o.z = 3
    del o.z
    global counter
    counter = x
    import math as m, os.path
    from math import pi, sqrt as s
    return o.v, o.m(2), o.items, counter, m.floor(pi), s(4), hasattr(o, 'z')
a = (4,)
)"},
    {"Match", PRELUDE R"(
class P:
    __match_args__ = ('x', 'y')
    def __init__(self, x, y): self.x, self.y = x, y
def one(v):
    match v:
        case {'k': k, **rest}: return k, rest
        case [a, 2, *r]: return a, r
        case P(x, y=3): return x
        case str() | None: return 'text'
        case _: return '?'
def f(v):
    out = []
    for item in v:
        match item:
            case {'k': k, **rest}: out.append((k, rest))
            case [a, 2, *r]: out.append((a, r))
            case P(x, y=3): out.append(x)
            case str() | None: out.append('text')
            case _: out.append('?')
    return out
a = ([{'k': 1, 'l': 2}, [1, 2, 3], P(7, 3), 'x', None, 5],)
)"},
    {"Unbound", PRELUDE R"(
def f(x):
    if x:
        y = 1
        del y
    return y
a = (1,)
)"},
    {"Assert", PRELUDE R"(
def f(x):
    assert x, 'first'
    def gen():
        got = yield x
        yield from [got, 2]
    class K:
        z = x
    print(end='')
    assert not x, ('second', list(gen()), K.z)
a = (1,)
)"},
    {"ExceptionGroups", PRELUDE R"(
def f(x):
    try:
        raise ExceptionGroup('g', [ValueError(1), KeyError(2)])
    except* ValueError as e:
        log.append(len(e.exceptions))
    except* KeyError:
        log.append('key')
    return x
a = (1,)
)"},
};

INSTANTIATE_TEST_SUITE_P(Programs, EveryStop, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(LiveFrame, LeaksNothing) {
  Program program(R"(
def f(x, y):
    try:
        for i in range(3): x = x + [i]
        raise ValueError
    except ValueError:
        return x
start = []
)");
  const Ref start = program.eval("start");
  PyObject* f = program.get("f");
  PyObject* args[] = {start.get(), f};
  EachInstruction each;
  auto counts = [&] {
    return std::vector<Py_ssize_t>{Py_REFCNT(start.get()), Py_REFCNT(f), Py_REFCNT(code_of(f)),
                                   Py_REFCNT(Py_None) / 1000};
  };
  std::vector<Py_ssize_t> before;
  for (int i = 0; i < 200; ++i) {
    if (i == 20) before = counts();
    Ref result = Ref::steal(call_driven(f, args, 2, nullptr, drive, &each));
    ASSERT_TRUE(result);
    EXPECT_EQ(repr(result), "[0, 1, 2]");
  }
  // The memo of decoded code and the stop codes hold no more with each call.
  EXPECT_EQ(counts(), before);
}

// CPython specialises what it runs often, and does two instructions by one then (PRECALL on 3.11).
TEST(LiveFrame, HotCodeStillStopsBeforeACall) {
  Program program(R"(
def f(x, n):
    for i in range(n):
        pass
    return float(x)
)");
  PyObject* f = program.get("f");
  auto* code = reinterpret_cast<PyCodeObject*>(code_of(f));
  std::vector<int> calls;
  for (const Instruction& in : decode(code).instructions)
    if (in.op == Opcode::kCall) calls.push_back(in.offset);
  ASSERT_EQ(calls.size(), 2u);
  struct Counted {
    StopCode stop;
    int stops = 0;
  } counted{StopCode(code, {calls[1]})};
  const Driver drive_to_call = [](void* context, PyThreadState* thread, FrameView view) {
    auto* counted = static_cast<Counted*>(context);
    LiveFrame frame(thread, view);
    PyObject* result = nullptr;
    if (!frame.run_until(counted->stop, false, &result)) return result;
    ++counted->stops;
    return frame.finish();
  };
  const Ref x = program.eval("3"), n = program.eval("20");
  PyObject* args[] = {x.get(), n.get()};
  constexpr int kRuns = 200;
  for (int i = 0; i < kRuns; ++i) {
    const Ref result = Ref::steal(call_driven(f, args, 2, nullptr, drive_to_call, &counted));
    ASSERT_TRUE(result) << take_exception();
    EXPECT_EQ(repr(result), "3.0");
  }
  EXPECT_EQ(counted.stops, kRuns);
}

TEST(LiveFrame, RecursionIsCountedAsCPythonCountsIt) {
  Program program(R"(
def f(n):
    return 0 if n == 0 else 1 + f(n - 1)
)");
  PyObject* f = program.get("f");
  const Ref n = program.eval("400");
  PyObject* args[] = {n.get()};
  EachInstruction each;
  for (int i = 0; i < 300; ++i) {
    Ref result = Ref::steal(call_driven(f, args, 1, nullptr, drive, &each));
    ASSERT_TRUE(result) << take_exception();
  }
}

}  // namespace
}  // namespace braze::cpython
