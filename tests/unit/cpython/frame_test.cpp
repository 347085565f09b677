#include "cpython/frame.h"

#include "base/error.h"
#include "cpython/code.h"
#include "frame_states.h"
#include "python.h"

namespace braze::cpython {
namespace {

using testing::call;
using testing::code_of;
using testing::Program;
using testing::repr;
using testing::state_at;
using testing::take_exception;

// Where the n-th instruction `op` (from 0) starts.
int offset_of(PyObject* function, Opcode op, int n = 0) {
  for (const Instruction& instruction : decode(code_of(function)).instructions)
    if (instruction.op == op && n-- == 0) return instruction.offset;
  BRAZE_UNREACHABLE("no ", to_string(op));
}

constexpr char kManaged[] = R"(
import contextlib, sys
log = []
@contextlib.contextmanager
def manager():
    log.append('enter')
    try: yield 5
    finally: log.append('exit')
def f(x):
    a = x + 1
    with manager() as c:
        for i in range(3):
            b = a * 2 + i
            log.append(b)
    try:
        d = b + c
    except ValueError as e:
        d = repr(e)
    return d, a
held = None
def half_way():
    global held, iterator
    log.clear()
    held = manager(); held.__enter__()
    iterator = iter(range(3)); next(iterator)
    return held.__exit__
)";

TEST(CallFrom, InTheMiddleOfWithAndFor) {
  Program program(kManaged);
  PyObject* f = program.get("f");
  const Ref exit = program.eval("half_way()");
  const Ref a = program.eval("100"), c = program.eval("5"), i = program.eval("0");
  const Ref doubled = program.eval("200"), x = program.eval("1");
  FrameState state = state_at(f, offset_of(f, Opcode::kBinaryOp, 2),
                              {{"a", a.get()}, {"c", c.get()}, {"i", i.get()}},
                              {exit.get(), program.get("iterator"), doubled.get(), i.get()});
  PyObject* args[] = {x.get()};
  const Ref result = Ref::steal(call_from(f, args, 1, nullptr, std::move(state)));
  EXPECT_EQ(repr(result), "(207, 100)");
  EXPECT_EQ(repr(program.get("log")), "['enter', 200, 201, 202, 'exit']");
}

TEST(CallFrom, RaisesIntoTheFramesHandlers) {
  Program program(kManaged);
  PyObject* f = program.get("f");
  const Ref exit = program.eval("half_way()");
  const Ref a = program.eval("100"), x = program.eval("1");
  const int add = offset_of(f, Opcode::kBinaryOp, 2);
  FrameState state = state_at(f, add, {{"a", a.get()}}, {exit.get(), program.get("iterator")});
  state.raise = true;
  PyErr_SetString(PyExc_ValueError, "from a step");
  PyObject* args[] = {x.get()};
  const Ref result = Ref::steal(call_from(f, args, 1, nullptr, std::move(state)));
  EXPECT_FALSE(result);
  // The line is that of the instruction.
  {
    SavedException pending;
    EXPECT_TRUE(pending);
    pending.restore();
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetTraceback(value, traceback);
  program.set("error", value);
  EXPECT_TRUE(program.holds("error.__traceback__.tb_frame.f_code is f.__code__"));
  EXPECT_TRUE(program.holds("error.__traceback__.tb_lineno == f.__code__.co_firstlineno + 4"));
  EXPECT_EQ(repr(program.get("log")), "['enter', 'exit']");
  Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(traceback);
}

TEST(CallFrom, FirstInstructionOfATryIsCovered) {
  Program program(
      "def f(g):\n"
      "  try:\n"
      "    g()\n"
      "  except ValueError as e:\n"
      "    return 'caught', str(e)\n"
      "  g.x\n");
  PyObject* f = program.get("f");
  const DecodedCode& code = decode(code_of(f));
  ASSERT_FALSE(code.handlers.empty());
  const int start = code.instructions[code.handlers.front().start].offset;
  FrameState state = state_at(f, start, {{"g", Py_None}}, {});
  state.raise = true;
  PyErr_SetString(PyExc_ValueError, "early");
  PyObject* args[] = {Py_None};
  const Ref caught = Ref::steal(call_from(f, args, 1, nullptr, std::move(state)));
  EXPECT_EQ(repr(caught), "('caught', 'early')");
  // Behind the try statement it is not.
  state = state_at(f, offset_of(f, Opcode::kLoadAttr), {{"g", Py_None}}, {Py_None});
  state.raise = true;
  PyErr_SetString(PyExc_ValueError, "late");
  EXPECT_EQ(call_from(f, args, 1, nullptr, std::move(state)), nullptr);
  EXPECT_EQ(take_exception(), "ValueError: late");
}

TEST(CallFrom, KeepsReferenceCounts) {
  Program program(kManaged);
  program.run("def g(x, y=object()):\n  a = x\n  return a.real + x\n");
  PyObject* g = program.get("g");
  const Ref value = program.eval("123456.5"), unused = program.eval("object()");
  const int offset = offset_of(g, Opcode::kBinaryOp);
  const auto counts = [&] {
    return std::vector<Py_ssize_t>{Py_REFCNT(value.get()), Py_REFCNT(unused.get()), Py_REFCNT(g),
                                   Py_REFCNT(reinterpret_cast<PyObject*>(code_of(g)))};
  };
  const auto before = counts();
  for (int i = 0; i < 100000; ++i) {
    PyObject* args[] = {unused.get()};
    FrameState state =
        state_at(g, offset, {{"a", value.get()}, {"x", value.get()}}, {value.get(), value.get()});
    state.raise = i % 2 != 0;
    if (state.raise) PyErr_SetNone(PyExc_KeyError);
    const Ref result = Ref::steal(call_from(g, args, 1, nullptr, std::move(state)));
    ASSERT_EQ(static_cast<bool>(result), i % 2 == 0);
    PyErr_Clear();
  }
  EXPECT_EQ(counts(), before);
}

TEST(CallFrom, BindingErrorTakesTheHookOut) {
  Program program("def g(x):\n  return x + 1\n");
  PyObject* g = program.get("g");
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  const auto installed = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  FrameState state = state_at(g, offset_of(g, Opcode::kBinaryOp), {}, {Py_None, Py_None});
  EXPECT_EQ(call_from(g, nullptr, 0, nullptr, std::move(state)), nullptr);
  EXPECT_EQ(take_exception(), "TypeError: g() missing 1 required positional argument: 'x'");
  EXPECT_EQ(_PyInterpreterState_GetEvalFrameFunc(interpreter), installed);
  const Ref one = program.eval("1");
  EXPECT_EQ(repr(call(g, {one.get()})), "2");
}

TEST(CallFrom, RefusesAnInconsistentState) {
  Program program("def g(x):\n  return x + 1\ndef h():\n  yield\n");
  PyObject* g = program.get("g");
  PyObject* args[] = {Py_None};
  const auto message = [&](PyObject* function, FrameState state) {
    try {
      call_from(function, args, 1, nullptr, std::move(state));
    } catch (const InternalError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message(g, {}).find("0 locals for 1 slots"), std::string::npos);
  FrameState deep = state_at(g, 0, {}, std::vector<PyObject*>(50, Py_None));
  EXPECT_NE(message(g, deep).find("value stack of 50"), std::string::npos);
  EXPECT_NE(message(g, state_at(g, 1000, {}, {})).find("offset 1000"), std::string::npos);
  EXPECT_NE(message(program.get("h"), {}).find("a generator"), std::string::npos);
  FrameState silent = state_at(g, 0, {}, {});
  silent.raise = true;
  EXPECT_NE(message(g, silent).find("exception is pending"), std::string::npos);
  EXPECT_NE(message(Py_None, {}).find("not a Python function: NoneType"), std::string::npos);
}

TEST(CallFrom, CellsAndMethods) {
  Program program(
      "class C:\n"
      "  def m(self, x):\n"
      "    def inner(): return x, self\n"
      "    return inner\n"
      "c = C()\n"
      "def cell(v):\n"
      "  return (lambda: v).__closure__[0]\n"
      "xs = cell(7); selfs = cell(8)\n");
  const Ref method = program.eval("c.m");
  PyObject* function = PyMethod_GET_FUNCTION(method.get());
  PyObject* inner_code = nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code_of(function)->co_consts); ++i) {
    PyObject* constant = PyTuple_GET_ITEM(code_of(function)->co_consts, i);
    if (PyCode_Check(constant)) inner_code = constant;
  }
  const Ref x = program.eval("1");
  PyObject* args[] = {x.get()};
  // The same on all versions: the closure tuple lies below the code.
  FrameState state = state_at(function, offset_of(function, Opcode::kMakeFunction),
                              {{"x", program.get("xs")}, {"self", program.get("selfs")}}, {});
  const Ref closure = program.eval("(selfs, xs)");
  state.stack.push_back(closure);
  state.stack.push_back(Ref::borrow(inner_code));
  const Ref result = Ref::steal(call_from(method.get(), args, 1, nullptr, std::move(state)));
  ASSERT_TRUE(result) << take_exception();
  EXPECT_EQ(repr(call(result.get(), {})), "(7, 8)");
}

TEST(CallFrom, NestedFramesRunUnhooked) {
  Program program(
      "def deep(n): return 0 if n == 0 else 1 + deep(n - 1)\n"
      "def g(n): return deep(n)\n"
      "import sys; sys.setrecursionlimit(30000)\n");
  PyObject* g = program.get("g");
  const Ref n = program.eval("20000");
  PyObject* args[] = {n.get()};
  FrameState state = state_at(g, 0, {{"n", n.get()}}, {});
  const Ref result = Ref::steal(call_from(g, args, 1, nullptr, std::move(state)));
  EXPECT_EQ(repr(result), "20000");
}

}  // namespace
}  // namespace braze::cpython
