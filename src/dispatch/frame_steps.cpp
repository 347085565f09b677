// What a driven frame carries out between segments: calls by the driver, all else by CPython.
#include "capture/policy/policy.h"
#include "dispatch/driven_frame.h"

namespace braze::dispatch {

using capture::Drive;
using cpython::Instruction;
using cpython::LiveFrame;
using cpython::Opcode;
using cpython::Ref;

// Carries out all instructions before the next call for real, or that call.
bool FrameDriver::step_to_call() {
  const cpython::StopCode* calls = state_->call_code();
  if (!calls) return finish();
  if (calls->at(frame_.offset())) return step();
  return !frame_.run_until(*calls, false, &result_);
}

// Carries out the next instruction for real.
bool FrameDriver::step() {
  if (has_to_finish()) return finish();
  const auto& instructions = state_->decoded.instructions;
  auto at = static_cast<size_t>(index());
  PyObject* kwnames = nullptr;
  if (instructions[at].op == Opcode::kKwNames)
    kwnames = PyTuple_GET_ITEM(frame_.code()->co_consts, instructions[at++].arg);
  const Instruction& in = instructions[at];
  if (in.op == Opcode::kCall || in.op == Opcode::kCallKw) return call(in, kwnames);
  if (in.op == Opcode::kCallFunctionEx) return call_unpacked(in);
  PyObject** end = frame_.slots() + frame_.code()->co_nlocalsplus + frame_.stack_size();
  if (in.op == Opcode::kForIter) return step_into(end[-1]);
  if (in.op == Opcode::kSend) return step_into(end[-2]);
  return step_natively();
}

// The same where the instruction resumes `iterator`, whose frame is driven too if it is a
// generator or coroutine.
bool FrameDriver::step_into(PyObject* iterator) {
  PyCodeObject* code = code_to_drive(iterator);
  if (!code) return step_natively();
  cpython::Resumption resumption(code, driver_for(Drive::kCapture), &context_);
  return step_natively();
}

PyCodeObject* FrameDriver::code_to_drive(PyObject* iterator) const {
  const bool coroutine = PyCoro_CheckExact(iterator);
  if ((!coroutine && !PyGen_CheckExact(iterator)) || driven_frames >= kMaximalDepth) return nullptr;
  Ref frame = Ref::steal(PyObject_GetAttrString(iterator, coroutine ? "cr_frame" : "gi_frame"));
  if (!frame || !PyFrame_Check(frame.get())) {
    PyErr_Clear();
    return nullptr;
  }
  auto* python_frame = reinterpret_cast<PyFrameObject*>(frame.get());
  Ref globals = Ref::steal(PyFrame_GetGlobals(python_frame));
  Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(python_frame)));
  if (!capture::may_drive_code(globals.get())) return nullptr;
  auto* wanted = reinterpret_cast<PyCodeObject*>(code.get());  // the generator keeps it
  if (cpython::comes_to_driver(wanted)) return nullptr;
  auto known = context_.segments.codes.find(wanted);
  const bool left = known != context_.segments.codes.end() && known->second->left_to_cpython;
  return left ? nullptr : wanted;
}

bool FrameDriver::step_natively() {
  const cpython::StopCode* stops = state_->step_code(frame_.offset());
  if (!stops) return finish();
  return !frame_.run_until(*stops, false, &result_);
}

// (method self | NULL callable, args… [names] -- result); 3.13: (callable NULL | method self, …)
bool FrameDriver::call(const Instruction& in, PyObject* kwnames) {
  const int names = in.op == Opcode::kCallKw ? 1 : 0;
  const int operands = in.arg + 2 + names;
  PyObject** base = frame_.slots() + frame_.code()->co_nlocalsplus + frame_.stack_size() - operands;
  if (names) kwnames = base[operands - 1];
  const bool has_self = base[0] && base[1];
  PyObject* callable = base[0] ? base[0] : base[1];
  frame_.set_offset(in.offset);
  const int given = in.arg + (has_self ? 1 : 0);
  const auto named = kwnames ? static_cast<int>(PyTuple_GET_SIZE(kwnames)) : 0;
  PyObject* value =
      call_out(callable, base + (has_self ? 1 : 2), static_cast<size_t>(given - named), kwnames);
  return finish_call(in, operands, value);
}

// (NULL callable args [kwargs] -- result); 3.13: (callable NULL args [kwargs])
bool FrameDriver::call_unpacked(const Instruction& in) {
  const int operands = 3 + (in.arg & 1);
  PyObject** base = frame_.slots() + frame_.code()->co_nlocalsplus + frame_.stack_size() - operands;
  PyObject* callable = base[0] ? base[0] : base[1];
  PyObject* args = base[2];
  PyObject* kwargs = in.arg & 1 ? base[3] : nullptr;
  Drive how;
  if (!PyTuple_CheckExact(args) || (kwargs && !PyDict_CheckExact(kwargs)) ||
      !callee_to_drive(callable, &how))
    return step_natively();
  std::vector<PyObject*> values{nullptr};  // room for a method's self
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    values.push_back(PyTuple_GET_ITEM(args, i));
  const size_t positional = values.size() - 1;
  Ref names;
  std::vector<Ref> held;  // the callee may change the dict
  if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
    names = Ref::steal(PyTuple_New(PyDict_GET_SIZE(kwargs)));
    if (!names) return finish_raising();
    Py_ssize_t position = 0, count = 0;
    PyObject *key, *value;
    while (PyDict_Next(kwargs, &position, &key, &value)) {
      if (!PyUnicode_Check(key)) return step_natively();
      PyTuple_SET_ITEM(names.get(), count++, Py_NewRef(key));
      values.push_back(value);
      held.push_back(Ref::borrow(value));
    }
  }
  PyObject* value = call_out(callable, values.data() + 1, positional, names.get());
  return finish_call(in, operands, value);
}

PyObject* FrameDriver::call_out(PyObject* callable, PyObject* const* args, size_t count,
                                PyObject* kwnames) {
  LiveFrame::Running running(frame_);
  if (Py_EnterRecursiveCall(" while calling a Python object")) return nullptr;
  PyObject* value;
  Drive how;
  if (Ref callee = callee_to_drive(callable, &how))
    value = cpython::call_driven(callee.get(), args, count, kwnames, driver_for(how), &context_);
  else
    value = PyObject_Vectorcall(callable, args, count, kwnames);
  Py_LeaveRecursiveCall();
  return value;
}

// The frame is at the call `in`, whose operands are still on the stack.
bool FrameDriver::finish_call(const Instruction& in, int operands, PyObject* value) {
  frame_.set_offset(in.offset);
  const cpython::StopCode* stops = state_->step_code(in.offset);
  if (!value) return stops ? !frame_.run_until(*stops, true, &result_) : finish_raising();
  std::vector<Ref> done = frame_.pop(operands);
  frame_.push(Ref::steal(value));
  int next = state_->decoded.index_of_offset(in.offset) + 1;
  frame_.set_offset(state_->decoded.instructions[static_cast<size_t>(next)].offset);
  return false;
}

// The function or method behind `callable` if its frame is to be driven too; else empty.
Ref FrameDriver::callee_to_drive(PyObject* callable, Drive* how) const {
  if (driven_frames >= kMaximalDepth || LiveFrame::is_watched(frame_.thread())) return {};
  Ref callee = Ref::borrow(callable);
  if (!PyFunction_Check(callable) && !PyMethod_Check(callable)) {
    // An instance whose class says in Python how it is called.
    if (Ref method = capture::python_call_method(callable))
      callee = Ref::steal(PyMethod_New(method.get(), callable));
    else
      return {};
  }
  if (!callee || !cpython::can_be_driven(callee.get())) return {};
  auto* function = reinterpret_cast<PyFunctionObject*>(
      PyMethod_Check(callee.get()) ? PyMethod_GET_FUNCTION(callee.get()) : callee.get());
  *how = capture::how_to_drive(function);
  if (*how == Drive::kNot) return {};
  if (how_ == Drive::kStepsInside && *how == Drive::kCapture) *how = Drive::kSteps;
  auto known = context_.segments.codes.find(reinterpret_cast<PyCodeObject*>(function->func_code));
  if (known != context_.segments.codes.end() && known->second->left_to_cpython) return {};
  return callee;
}

}  // namespace braze::dispatch
