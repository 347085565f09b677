#include "cpython/live_frame.h"

#include <opcode.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "cpython/code.h"
#include "cpython/exception.h"
#include "cpython/frame_layout.h"
#include "cpython/resume_points.h"

namespace braze::cpython {

namespace {

constexpr int kGenerators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

std::string units_of(PyCodeObject* code) {
  const Ref bytes = Ref::steal(PyCode_GetCode(code));
  BRAZE_CHECK(bytes, "out of memory while reading bytecode");
  return {PyBytes_AS_STRING(bytes.get()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.get()))};
}

// Where CPython is to leave before the instruction at `offset`.
int leaving_unit([[maybe_unused]] const std::string& units, int offset) {
#if PY_VERSION_HEX < 0x030C0000
  // A PRECALL that has been specialised carries out the CALL behind it too.
  constexpr int kPrecallUnits = 2;  // with its cache
  const int before = offset - kPrecallUnits;
  if (before >= 0 &&
      static_cast<uint8_t>(units[static_cast<size_t>(before) * kBytesPerUnit]) == PRECALL)
    return before;
#endif
  return offset;
}

}  // namespace

namespace internal {

Ref replaced(PyObject* code, const Ref& keywords) {
  const Ref replace = Ref::steal(PyObject_GetAttrString(code, "replace"));
  const Ref arguments = Ref::steal(PyTuple_New(0));
  Ref made = replace && arguments && keywords
                 ? Ref::steal(PyObject_Call(replace.get(), arguments.get(), keywords.get()))
                 : Ref();
  BRAZE_CHECK(made && PyCode_Check(made.get()), "the code object cannot be copied");
  return made;
}

}  // namespace internal

bool is_exit(const Instruction& instruction) {
  return instruction.op == Opcode::kYieldValue || instruction.op == Opcode::kReturnValue ||
         instruction.op == Opcode::kReturnConst;
}

bool ends_generator_unhandled([[maybe_unused]] const DecodedCode& decoded,
                              [[maybe_unused]] int index) {
#if PY_VERSION_HEX >= 0x030C0000
  const Instruction& in = decoded.instructions[static_cast<size_t>(index)];
  // The compiler leaves out what cannot raise: the NOP of a `try`.
  return (decoded.code->co_flags & kGenerators) != 0 && in.op != Opcode::kNop &&
         in.op != Opcode::kJump && in.offset > decoded.code->_co_firsttraceable &&
         decoded.handler(index) == nullptr;
#else
  return false;
#endif
}

std::vector<int> with_generator_exits(PyCodeObject* code, std::vector<int> offsets) {
  if ((code->co_flags & kGenerators) == 0) return offsets;
  const DecodedCode& decoded = decode(code);
  const std::vector<int> depths = stack_depths(decoded);
  for (size_t i = 0; i < depths.size(); ++i) {
    const Instruction& in = decoded.instructions[i];
    const bool exit = in.enterable && is_exit(in);
    if (depths[i] >= 0 && (exit || ends_generator_unhandled(decoded, static_cast<int>(i))))
      offsets.push_back(in.offset);
  }
  return offsets;
}

StopCode::StopCode(PyCodeObject* code, std::vector<int> offsets) {
  const SavedException pending;
  const DecodedCode& decoded = decode(code);
  const std::vector<int> depths = stack_depths(decoded);
  std::sort(offsets.begin(), offsets.end());
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  std::string units = units_of(code);
  for (int offset : offsets) {
    const auto index = static_cast<size_t>(decoded.index_of_offset(offset));
    BRAZE_CHECK(index < depths.size() && decoded.instructions[index].offset == offset,
                "no instruction at ", offset);
    stops_.push_back({offset, leaving_unit(units, offset), depths[index]});
  }
  for (const Stop& stop : stops_) {
    const size_t at = static_cast<size_t>(stop.unit) * kBytesPerUnit;
    // CPython finds the end of the prologue, before which a frame is not to be seen, by its RESUME.
    BRAZE_CHECK(stop.unit > code->_co_firsttraceable && at + 1 < units.size(), "unit ", stop.unit);
    units[at] = static_cast<char>(internal::kLeave);
    units[at + 1] = 0;
  }
  code_ = internal::replaced(reinterpret_cast<PyObject*>(code),
                             Ref::steal(Py_BuildValue("{s:y#}", "co_code", units.data(),
                                                      static_cast<Py_ssize_t>(units.size()))));
}

const StopCode::Stop* StopCode::left_at(int unit) const {
  for (const Stop& stop : stops_)
    if (stop.unit == unit) return &stop;
  return nullptr;
}

const StopCode::Stop* StopCode::at(int offset) const {
  for (const Stop& stop : stops_)
    if (stop.offset == offset) return &stop;
  return nullptr;
}

LiveFrame::LiveFrame(PyThreadState* thread, FrameView view, const Suspension* suspension)
    : thread_(thread), frame_(view.raw()), offset_(view.offset()), suspension_(suspension) {
  if (suspension_ == nullptr) internal::link_to_current(thread_, frame_);
}

PyObject** LiveFrame::slots() const { return internal::slots(frame_); }

int LiveFrame::stack_size() const { return internal::slot_count(frame_) - code()->co_nlocalsplus; }

std::vector<Ref> LiveFrame::pop(int count) {
  std::vector<Ref> popped;
  const int end = internal::slot_count(frame_);
  for (int i = end - count; i < end; ++i) popped.push_back(Ref::steal(slots()[i]));
  internal::set_slot_count(frame_, end - count);
  return popped;
}

void LiveFrame::push(Ref value) {
  const int end = internal::slot_count(frame_);
  slots()[end] = value.release();
  internal::set_slot_count(frame_, end + 1);
}

std::vector<Ref> LiveFrame::replace_stack(std::vector<Ref> stack) {
  BRAZE_CHECK(static_cast<int>(stack.size()) <= code()->co_stacksize, "value stack of ",
              stack.size(), ", room for ", code()->co_stacksize);
  std::vector<Ref> former = pop(stack_size());
  for (Ref& value : stack) push(std::move(value));
  return former;
}

bool LiveFrame::run_until(const StopCode& stops, bool raise, PyObject** result) {
  const Ref own = Ref::borrow(reinterpret_cast<PyObject*>(code()));
  const auto copy = reinterpret_cast<PyObject*>(stops.code());
  Py_INCREF(copy);
  Py_DECREF(internal::exchange_code(frame_, stops.code()));
  internal::set_next_offset(frame_, offset_, raise);
  const bool survives = internal::survives_its_end(frame_);
  const internal::Departure departure(thread_, frame_);
  *result = _PyEval_EvalFrameDefault(thread_, frame_, raise ? 1 : 0);
  const auto at_stop = [](void* context, int offset) {
    return static_cast<const StopCode*>(context)->left_at(offset) != nullptr;
  };
  // What kLeave took from the stack may be a NULL.
  const bool raised = *result == nullptr && PyErr_Occurred() != nullptr;
  const bool ended = raised || departure.has_ended(at_stop, const_cast<StopCode*>(&stops));
  if (ended && !survives) return false;
  Py_INCREF(own.get());
  Py_DECREF(internal::exchange_code(frame_, reinterpret_cast<PyCodeObject*>(own.get())));
  if (raised && suspension_ != nullptr) *result = hand_over_raised();
  if (ended) return false;
  departure.balance();
  internal::link_to_current(thread_, frame_);
  const StopCode::Stop* stop = stops.left_at(internal::current_offset(frame_));  // has_ended asked
  offset_ = stop->offset;
  // What kLeave took from the stack is still there, and no reference of ours.
  internal::set_slot_count(frame_, code()->co_nlocalsplus + stop->depth);
  *result = nullptr;
  return true;
}

// The evaluation under way raises the pending exception again, as a RERAISE does it: without a look
// for handlers, and without the frame in the traceback once more.
PyObject* LiveFrame::hand_over_raised() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  // RERAISE leaves the frame at the instruction that has raised.
  push(Ref::steal(PyLong_FromLong(internal::current_offset(frame_))));
  wait_in_copy(suspension_->points.reraise());
  return value;
}

// CPython goes on at this place of the copy.
void LiveFrame::wait_in_copy(int unit) {
  auto* copy = suspension_->copy;
  Py_INCREF(copy);
  Py_DECREF(internal::exchange_code(frame_, copy));
  internal::set_next_offset(frame_, unit, false);
}

bool LiveFrame::is_at_exit() const {
  return suspension_ != nullptr && suspension_->points.is_exit(offset_);
}

// What is returned goes back onto the stack.
PyObject* LiveFrame::leave_to_cpython() {
  internal::set_next_offset(frame_, offset_, false);
  return pop(1)[0].release();
}

PyObject* LiveFrame::hand_over(bool raise) {
  const DecodedCode& decoded = decode(code());
  if (raise && decoded.handler(decoded.index_of_offset(offset_)) == nullptr) {
    internal::set_next_offset(frame_, offset_, true);
    return nullptr;
  }
  PyObject* result = nullptr;
  if ((raise || !is_at_exit()) && !run_until(suspension_->points.exits(), raise, &result))
    return result;
  const Instruction& in =
      decoded.instructions[static_cast<size_t>(decoded.index_of_offset(offset_))];
  const bool yields = in.op == Opcode::kYieldValue;
  if (in.op != Opcode::kReturnConst && (!yields || stays_)) return leave_to_cpython();
  Ref value = yields ? std::move(pop(1)[0]) : Ref::borrow(Py_None);
  wait_in_copy(suspension_->points.tail_of(offset_));
  return value.release();
}

PyObject* LiveFrame::finish() {
  if (suspension_ != nullptr) return hand_over(false);
  internal::set_next_offset(frame_, offset_, false);
  return _PyEval_EvalFrameDefault(thread_, frame_, 0);
}

PyObject* LiveFrame::finish_raising() {
  if (suspension_ != nullptr) return hand_over(true);
  internal::set_next_offset(frame_, offset_, true);
  return _PyEval_EvalFrameDefault(thread_, frame_, 1);
}

}  // namespace braze::cpython
