#include "cpython/live_frame.h"

#include <algorithm>

#include "base/error.h"
#include "cpython/code.h"
#include "cpython/exception.h"
#include "cpython/frame_layout.h"
#include "cpython/resume_points.h"

namespace braze::cpython {

namespace {

constexpr size_t kBytesPerUnit = 2;

// A copy of `code` with kLeave at `offsets`.
Ref patched(PyCodeObject* code, const std::vector<int>& offsets) {
  const SavedException pending;
  const Ref bytes = Ref::steal(PyCode_GetCode(code));
  BRAZE_CHECK(bytes, "out of memory while reading bytecode");
  std::string units(PyBytes_AS_STRING(bytes.get()),
                    static_cast<size_t>(PyBytes_GET_SIZE(bytes.get())));
  for (int offset : offsets) {
    const size_t at = static_cast<size_t>(offset) * kBytesPerUnit;
    // CPython finds the end of the prologue, before which a frame is not to be seen, by its RESUME.
    BRAZE_CHECK(offset > code->_co_firsttraceable && at + 1 < units.size(), "offset ", offset);
    units[at] = static_cast<char>(internal::kLeave);
    units[at + 1] = 0;
  }
  return internal::replaced(reinterpret_cast<PyObject*>(code),
                            Ref::steal(Py_BuildValue("{s:y#}", "co_code", units.data(),
                                                     static_cast<Py_ssize_t>(units.size()))));
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

bool ends_generator_unhandled([[maybe_unused]] const DecodedCode& decoded,
                              [[maybe_unused]] int index) {
#if PY_VERSION_HEX >= 0x030C0000
  constexpr int kGenerators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  const Instruction& in = decoded.instructions[static_cast<size_t>(index)];
  // The compiler leaves out what cannot raise: the NOP of a `try`.
  return (decoded.code->co_flags & kGenerators) != 0 && in.op != Opcode::kNop &&
         in.op != Opcode::kJump && in.offset > decoded.code->_co_firsttraceable &&
         decoded.handler(index) == nullptr;
#else
  return false;
#endif
}

std::vector<int> with_unhandled_ends(PyCodeObject* code, std::vector<int> offsets) {
  const DecodedCode& decoded = decode(code);
  const std::vector<int> depths = stack_depths(decoded);
  for (size_t i = 0; i < depths.size(); ++i)
    if (depths[i] >= 0 && ends_generator_unhandled(decoded, static_cast<int>(i)))
      offsets.push_back(decoded.instructions[i].offset);
  return offsets;
}

StopCode::StopCode(PyCodeObject* code, std::vector<int> offsets) {
  const DecodedCode& decoded = decode(code);
  const std::vector<int> depths = stack_depths(decoded);
  std::sort(offsets.begin(), offsets.end());
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  code_ = patched(code, offsets);
  for (int offset : offsets) {
    const auto index = static_cast<size_t>(decoded.index_of_offset(offset));
    BRAZE_CHECK(index < depths.size() && decoded.instructions[index].offset == offset,
                "no instruction at ", offset);
    places_.push_back({offset, depths[index]});
  }
}

bool StopCode::stops_at(int offset) const {
  return std::any_of(places_.begin(), places_.end(),
                     [&](const Place& place) { return place.offset == offset; });
}

int StopCode::depth_at(int offset) const {
  for (const Place& place : places_)
    if (place.offset == offset) return place.depth;
  BRAZE_UNREACHABLE("no stop at ", offset);
}

LiveFrame::LiveFrame(PyThreadState* thread, FrameView view, const Suspension* suspension)
    : thread_(thread), frame_(view.raw()), offset_(view.offset()), suspension_(suspension) {}

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
    return static_cast<const StopCode*>(context)->stops_at(offset);
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
  offset_ = internal::current_offset(frame_);
  // What kLeave took from the stack is still there, and no reference of ours.
  internal::set_slot_count(frame_, code()->co_nlocalsplus + stops.depth_at(offset_));
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
