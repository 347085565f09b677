// The hook that sees the frames that begin on a thread, and what it is shown.
#include <string>
#include <vector>

#include "cpython/code.h"
#include "cpython/frame.h"
#include "frame_states.h"
#include "python.h"

namespace braze::cpython {
namespace {

using testing::call;
using testing::code_of;
using testing::Program;
using testing::repr;
using testing::state_at;

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
