#include "capture/frames/assertions.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "capture/calls/torch.h"
#include "capture/known.h"
#include "capture/objects/operators.h"
#include "capture/recording/recording.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {
namespace {

using cpython::Instruction;
using cpython::Opcode;

// What the interpreter and builtins catch: the end of an iteration, an attribute that is not there.
bool is_a_sign(PyObject* name) {
  constexpr std::string_view kSigns[] = {"StopIteration",  "StopAsyncIteration", "GeneratorExit",
                                         "AttributeError", "IndexError",         "KeyError"};
  return std::ranges::find(kSigns, cpython::utf8_of(name)) != std::end(kSigns);
}

// Whether the instructions from `at` on make an exception and raise it.
bool only_raises(const cpython::DecodedCode& decoded, size_t at) {
  const std::vector<Instruction>& instructions = decoded.instructions;
  constexpr size_t kMost = 100;  // for a message of some length
  for (const size_t end = std::min(instructions.size(), at + kMost); at < end; ++at) {
    switch (instructions[at].op) {
      case Opcode::kNop:
      case Opcode::kPushNull:
      case Opcode::kLoadConst:
      case Opcode::kLoadFast:
      case Opcode::kLoadDeref:
      case Opcode::kLoadAttr:
      case Opcode::kLoadMethod:
      case Opcode::kLoadAssertionError:
      case Opcode::kBinaryOp:
      case Opcode::kBinarySubscr:
      case Opcode::kFormatValue:
      case Opcode::kConvertValue:
      case Opcode::kBuildString:
      case Opcode::kBuildTuple:
      case Opcode::kKwNames:
      case Opcode::kCall:
      case Opcode::kCallKw:
        continue;
      case Opcode::kLoadGlobal:
        if (is_a_sign(PyTuple_GET_ITEM(decoded.code->co_names, instructions[at].arg >> 1)))
          return false;
        continue;
      case Opcode::kRaiseVarargs:
        return true;
      default:
        return false;
    }
  }
  return false;
}

// The __exit__ of a context manager of PyTorch's, none of which takes an exception away.
bool is_exit_of_torch(PyObject* exit) {
  if (!PyMethod_Check(exit)) return false;
  const Ref module = Ref::steal(PyObject_GetAttrString(
      reinterpret_cast<PyObject*>(Py_TYPE(PyMethod_GET_SELF(exit))), "__module__"));
  if (!module) PyErr_Clear();
  return module && PyUnicode_Check(module.get()) &&
         std::string_view(cpython::utf8_of(module.get())).starts_with("torch.");
}

// Whether what is raised at the frame's instruction or at those that it is called from may be
// caught in the code that is captured: then the branch is a way on, as the end of a loop is.
bool may_be_caught(const Frame& innermost, int at) {
  for (const Frame* frame = &innermost; frame;
       frame = frame->back, at = frame ? frame->current() : 0) {
    const cpython::DecodedCode& decoded = *frame->info->decoded;
    for (const auto* handler = decoded.handler(at); handler;
         handler = decoded.handler(handler->target)) {
      const auto target = static_cast<size_t>(handler->target);
      if (decoded.instructions[target].op != Opcode::kPushExcInfo) continue;  // it puts things back
      const bool is_with = decoded.instructions[target + 1].op == Opcode::kWithExceptStart;
      const auto depth = static_cast<size_t>(handler->depth);
      if (!is_with || depth == 0 || depth > frame->stack.size() ||
          !is_exit_of_torch(frame->stack[depth - 1].get()))
        return true;
    }
  }
  return false;
}

// In a trace. A loop that an exception ends, in a way that is not seen here, would have no end.
constexpr int kMostAssertions = 1000;

bool record_assertion(TraceContext& trace, Tracked condition, bool expected) {
  if (!expected) {
    condition = call_torch(trace, Tracked::borrow(known().logical_not), "torch", "logical_not",
                           &condition, 1, nullptr);
    if (!condition) return false;
  }
  const Ref words = Ref::steal(PyUnicode_FromString("a branch that raises"));
  Tracked args[] = {std::move(condition), Tracked::borrow(words.get())};
  return bool(call_torch(trace, Tracked::borrow(known().assert_async), "torch", "_assert_async",
                         args, 2, nullptr));
}

}  // namespace

int truth_for_jump(TraceContext& trace, const Frame& frame, const Tracked& condition, int at) {
  // A user's backend cannot run a call again.
  if (!is_condition(condition.get()) || trace.torch_calls) return truth(trace, condition);
  const cpython::DecodedCode& decoded = *frame.info->decoded;
  const Instruction& jump = decoded.instructions[static_cast<size_t>(at)];
  if (jump.op != Opcode::kPopJumpIfTrue && jump.op != Opcode::kPopJumpIfFalse)
    return truth(trace, condition);
  const bool there = only_raises(decoded, static_cast<size_t>(jump.target));
  const bool here = only_raises(decoded, static_cast<size_t>(at) + 1);
  if (there == here || may_be_caught(frame, at)) return truth(trace, condition);
  if (++trace.assertions > kMostAssertions) return truth(trace, condition);
  const bool expected = (jump.op == Opcode::kPopJumpIfTrue) == here;
  return record_assertion(trace, condition, expected) ? expected : -1;
}

}  // namespace braze::capture
