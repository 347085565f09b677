#include "capture/frames/assertions.h"

#include <algorithm>

#include "capture/calls/torch.h"
#include "capture/known.h"
#include "capture/objects/operators.h"
#include "capture/recording/recording.h"
#include "capture/trace_context.h"

namespace braze::capture {
namespace {

using cpython::Instruction;
using cpython::Opcode;

// Whether the instructions from `at` on make an exception and raise it.
bool only_raises(const std::vector<Instruction>& instructions, size_t at) {
  constexpr size_t kMost = 100;  // for a message of some length
  for (const size_t end = std::min(instructions.size(), at + kMost); at < end; ++at) {
    switch (instructions[at].op) {
      case Opcode::kNop:
      case Opcode::kPushNull:
      case Opcode::kLoadConst:
      case Opcode::kLoadFast:
      case Opcode::kLoadDeref:
      case Opcode::kLoadGlobal:
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
      case Opcode::kRaiseVarargs:
        return true;
      default:
        return false;
    }
  }
  return false;
}

// A tensor of dtype bool without dimensions, which has a truth value whatever its data; of the CPU,
// as a kernel on a GPU that asserts ends all that the process does there.
bool is_condition(PyObject* object) {
  if (!is_tensor(object)) return false;
  const Ref dtype = Ref::steal(PyObject_GetAttrString(object, "dtype"));
  const Ref rank = Ref::steal(PyObject_GetAttrString(object, "ndim"));
  const Ref on_cpu = Ref::steal(PyObject_GetAttrString(object, "is_cpu"));
  if (!dtype || !rank || !on_cpu) {
    PyErr_Clear();
    return false;
  }
  return dtype.get() == known().torch_bool && on_cpu.get() == Py_True &&
         PyLong_AsLong(rank.get()) == 0;
}

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
  const std::vector<Instruction>& instructions = frame.info->decoded->instructions;
  const Instruction& jump = instructions[static_cast<size_t>(at)];
  if (jump.op != Opcode::kPopJumpIfTrue && jump.op != Opcode::kPopJumpIfFalse)
    return truth(trace, condition);
  const bool there = only_raises(instructions, static_cast<size_t>(jump.target));
  const bool here = only_raises(instructions, static_cast<size_t>(at) + 1);
  if (there == here) return truth(trace, condition);
  const bool expected = (jump.op == Opcode::kPopJumpIfTrue) == here;
  return record_assertion(trace, condition, expected) ? expected : -1;
}

}  // namespace braze::capture
