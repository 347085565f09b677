#include "cpython/frame.h"

#include <map>

#include "base/error.h"
#include "cpython/code.h"
#include "python.h"

namespace braze::cpython {
namespace {

using testing::code_of;
using testing::Program;
using testing::repr;
using testing::take_exception;

// Where the n-th instruction `op` (from 0) starts.
int offset_of(PyObject* function, Opcode op, int n = 0) {
  for (const Instruction& instruction : decode(code_of(function)).instructions)
    if (instruction.op == op && n-- == 0) return instruction.offset;
  BRAZE_UNREACHABLE("no ", to_string(op));
}

FrameState state_at(PyObject* function, int offset, const std::map<std::string, PyObject*>& locals,
                    const std::vector<PyObject*>& stack) {
  PyCodeObject* code = code_of(function);
  FrameState state;
  state.offset = offset;
  state.locals.resize(code->co_nlocalsplus);
  for (int i = 0; i < code->co_nlocalsplus; ++i) {
    auto found = locals.find(PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_localsplusnames, i)));
    if (found != locals.end()) state.locals[i] = Ref::borrow(found->second);
  }
  for (PyObject* object : stack) state.stack.push_back(Ref::borrow(object));
  return state;
}

Ref call(PyObject* function, std::vector<PyObject*> args) {
  return Ref::steal(PyObject_Vectorcall(function, args.data(), args.size(), nullptr));
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

// ---- hooks

struct Recorder {
  std::vector<std::string> names;
  Ref answer;  // returned for frames called `answer_for`
  std::string answer_for;
  bool fail = false;

  static PyObject* hook(void* context, PyThreadState* thread, FrameView frame, bool throwing) {
    auto& self = *static_cast<Recorder*>(context);
    const std::string name = PyUnicode_AsUTF8(frame.code()->co_name);
    self.names.push_back(name);
    if (name != self.answer_for) return evaluate_natively(thread, frame, throwing);
    if (self.fail) {
      PyErr_SetString(PyExc_KeyError, "hook");
      return nullptr;
    }
    return Py_NewRef(self.answer.get());
  }
};

constexpr char kCalls[] = R"(
def g(x, *rest, k=3, **more):
    return x * 2
def f(x):
    return g(x) + g(x + 1, 2, k=4, z=5)
def gen():
    got = yield 1
    yield got
)";

TEST(HookScope, SeesNestedFramesAndRestores) {
  Program program(kCalls);
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  const auto before = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  const Ref x = program.eval("10");
  Recorder recorder;
  {
    HookScope scope(Recorder::hook, &recorder);
    EXPECT_EQ(repr(call(program.get("f"), {x.get()})), "42");
  }
  EXPECT_EQ(recorder.names, (std::vector<std::string>{"f", "g", "g"}));
  EXPECT_EQ(_PyInterpreterState_GetEvalFrameFunc(interpreter), before);
  call(program.get("f"), {x.get()});
  EXPECT_EQ(recorder.names.size(), 3u);
}

TEST(HookScope, AnswersForAFrame) {
  Program program(kCalls);
  const Ref x = program.eval("10.25");
  Recorder recorder;
  recorder.answer = program.eval("1.5");
  recorder.answer_for = "g";
  PyObject* g = program.get("g");
  const Py_ssize_t references = Py_REFCNT(x.get()), functions = Py_REFCNT(g);
  const Py_ssize_t codes = Py_REFCNT(reinterpret_cast<PyObject*>(code_of(g)));
  {
    HookScope scope(Recorder::hook, &recorder);
    for (int i = 0; i < 100000; ++i) {
      const Ref result = call(program.get("f"), {x.get()});
      ASSERT_EQ(PyFloat_AsDouble(result.get()), 3.0);
    }
    recorder.fail = true;
    for (int i = 0; i < 100000; ++i) {
      ASSERT_FALSE(call(program.get("f"), {x.get()}));
      ASSERT_TRUE(PyErr_ExceptionMatches(PyExc_KeyError));
      PyErr_Clear();
    }
  }
  EXPECT_EQ(Py_REFCNT(x.get()), references);
  EXPECT_EQ(Py_REFCNT(g), functions);
  EXPECT_EQ(Py_REFCNT(reinterpret_cast<PyObject*>(code_of(g))), codes);
}

TEST(HookScope, AnswersAcrossDataStackChunks) {
  Program program(
      "def leaf(x): return None\n"
      "def f(n, x): return leaf(x) if n == 0 else f(n - 1, x)\n");
  Recorder recorder;
  recorder.answer = program.eval("'hooked'");
  recorder.answer_for = "leaf";
  HookScope scope(Recorder::hook, &recorder);
  for (int n = 0; n < 400; ++n) {
    const Ref depth = Ref::steal(PyLong_FromLong(n));
    ASSERT_EQ(repr(call(program.get("f"), {depth.get(), Py_None})), "'hooked'");
  }
}

TEST(HookScope, NestsAndEndsInAnyOrder) {
  Program program(kCalls);
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  const auto before = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  const Ref x = program.eval("10");
  Recorder outer, inner;
  auto first = std::make_unique<HookScope>(Recorder::hook, &outer);
  auto second = std::make_unique<HookScope>(Recorder::hook, &inner);
  call(program.get("g"), {x.get()});
  EXPECT_EQ(outer.names.size(), 0u);
  EXPECT_EQ(inner.names.size(), 1u);
  first.reset();
  call(program.get("g"), {x.get()});
  EXPECT_EQ(inner.names.size(), 2u);
  second.reset();
  EXPECT_EQ(_PyInterpreterState_GetEvalFrameFunc(interpreter), before);
}

TEST(HookScope, IgnoresOtherThreads) {
  Program program(
      "import threading\n"
      "def other(): return sum(work(i) for i in range(100))\n"
      "def work(i): return i\n"
      "def f():\n"
      "  t = threading.Thread(target=other); t.start(); t.join()\n");
  Recorder recorder;
  {
    HookScope scope(Recorder::hook, &recorder);
    call(program.get("f"), {});
  }
  for (const std::string& name : recorder.names) {
    EXPECT_NE(name, "other");
    EXPECT_NE(name, "work");
  }
  EXPECT_EQ(recorder.names.front(), "f");
}

TEST(HookScope, SurroundsCallFrom) {
  Program program(kCalls);
  PyObject* f = program.get("f");
  const Ref x = program.eval("10");
  PyObject* args[] = {x.get()};
  Recorder recorder;
  HookScope scope(Recorder::hook, &recorder);
  const Ref result =
      Ref::steal(call_from(f, args, 1, nullptr, state_at(f, 0, {{"x", x.get()}}, {})));
  EXPECT_EQ(repr(result), "42");
  // The frame itself is the call's; what it calls is the scope's.
  EXPECT_EQ(recorder.names, (std::vector<std::string>{"g", "g"}));
  FrameState state = state_at(f, 0, {}, {});
  EXPECT_EQ(call_from(f, nullptr, 0, nullptr, std::move(state)), nullptr);
  PyErr_Clear();
  call(program.get("g"), {x.get()});
  EXPECT_EQ(recorder.names.size(), 3u);
}

TEST(HookScope, CallUnhookedIsNotSeen) {
  Program program(kCalls);
  const Ref x = program.eval("10");
  PyObject* args[] = {x.get()};
  Recorder recorder;
  HookScope scope(Recorder::hook, &recorder);
  const auto ours = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
  EXPECT_EQ(repr(Ref::steal(call_unhooked(program.get("f"), args, 1, nullptr))), "42");
  EXPECT_TRUE(recorder.names.empty());
  EXPECT_EQ(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()), ours);
  call(program.get("g"), {x.get()});
  EXPECT_EQ(recorder.names.size(), 1u);
}

PyObject* pass_through(PyThreadState* thread, _PyInterpreterFrame* frame, int throwing) {
  return _PyEval_EvalFrameDefault(thread, frame, throwing);
}

TEST(HookScope, PutsForeignEvaluatorsBack) {
  Program program(kCalls);
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  const Ref x = program.eval("10");
  PyObject* args[] = {x.get()};
  PyObject* f = program.get("f");
  _PyInterpreterState_SetEvalFrameFunc(interpreter, pass_through);
  {
    Recorder recorder;
    HookScope scope(Recorder::hook, &recorder);
    call(f, {x.get()});
    EXPECT_EQ(recorder.names.size(), 3u);
  }
  EXPECT_EQ(_PyInterpreterState_GetEvalFrameFunc(interpreter), pass_through);
  Py_DECREF(call_from(f, args, 1, nullptr, state_at(f, 0, {{"x", x.get()}}, {})));
  EXPECT_EQ(_PyInterpreterState_GetEvalFrameFunc(interpreter), pass_through);
  Py_DECREF(call_unhooked(f, args, 1, nullptr));
  EXPECT_EQ(_PyInterpreterState_GetEvalFrameFunc(interpreter), pass_through);
  _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
}

struct GeneratorHook {
  Ref value;
  int resumed = 0;
  std::vector<std::string> stacks;

  static PyObject* hook(void* context, PyThreadState* thread, FrameView frame, bool throwing) {
    auto& self = *static_cast<GeneratorHook*>(context);
    if (!frame.is_generator()) return evaluate_natively(thread, frame, throwing);
    ++self.resumed;
    self.stacks.push_back(frame.stack().empty() ? "" : repr(frame.stack().back()));
    // Yields another value than the code would.
    const DecodedCode& code = decode(frame.code());
    int skip = self.resumed - 1;
    for (const Instruction& instruction : code.instructions) {
      if (instruction.op != Opcode::kYieldValue || skip-- != 0) continue;
      FrameState state;
      state.offset = instruction.offset;
      for (PyObject* local : frame.locals()) state.locals.push_back(Ref::borrow(local));
      state.stack.push_back(self.value);
      return evaluate_from(thread, frame, std::move(state));
    }
    return evaluate_natively(thread, frame, throwing);
  }
};

TEST(HookScope, GeneratorsGoOnInTheMiddle) {
  Program program(kCalls);
  GeneratorHook hook;
  hook.value = program.eval("object()");
  const Py_ssize_t references = Py_REFCNT(hook.value.get());
  {
    HookScope scope(GeneratorHook::hook, &hook);
    program.set("value", hook.value.get());
    EXPECT_EQ(repr(program.eval("[x is value for x in gen()]")), "[True, True]");
    program.set("value", Py_None);
  }
  EXPECT_EQ(hook.resumed, 3);
  EXPECT_EQ(Py_REFCNT(hook.value.get()), references);
}

TEST(FrameView, ShowsTheStart) {
  Program program(kCalls);
  struct Seen {
    bool at_start = false;
    std::string locals;
    PyObject* function = nullptr;
    bool scopes = false;
    static PyObject* hook(void* context, PyThreadState* thread, FrameView frame, bool throwing) {
      auto& seen = *static_cast<Seen*>(context);
      seen.at_start = frame.at_start();
      seen.function = frame.function();
      seen.scopes = PyDict_Check(frame.globals()) && PyDict_Check(frame.builtins());
      for (PyObject* local : frame.locals()) seen.locals += (local ? repr(local) : "-") + " ";
      EXPECT_TRUE(frame.stack().empty());
      EXPECT_FALSE(frame.is_generator());
      return evaluate_natively(thread, frame, throwing);
    }
  } seen;
  HookScope scope(Seen::hook, &seen);
  const Ref x = program.eval("10");
  call(program.get("g"), {x.get(), Py_None});
  EXPECT_TRUE(seen.at_start);
  EXPECT_TRUE(seen.scopes);
  EXPECT_EQ(seen.function, program.get("g"));
  EXPECT_EQ(seen.locals, "10 3 (None,) {} ");
}

}  // namespace
}  // namespace braze::cpython
