// Generators are CPython's own objects. When one is resumed its frame comes to the hook; it is
// evaluated up to the next yield and then handed back in that state.
#include "capture/evaluator.h"
#include "capture/known.h"

namespace braze::capture {

using cpython::FrameView;
using cpython::Instruction;

namespace {

// The frame that lives inside a generator object.
const void* frame_of_generator(PyObject* generator) {
  return reinterpret_cast<PyGenObject*>(generator)->gi_iframe;
}

}  // namespace

void Evaluator::mark_generator(PyObject* generator) {
  world_.mark_created(generator);
  if (PyGen_CheckExact(generator)) generators_[frame_of_generator(generator)] = true;
}

PyObject* Evaluator::resume_hooked(PyThreadState* thread, FrameView view, bool throwing) {
  if (!generators_.contains(view.raw()))
    return raise_break(BreakKind::kOutsideIterator, "a generator from outside is resumed"), nullptr;
  if (throwing && (breaks_.begun() || stopped_)) return end_generator(thread, view);
  const CodeInfo& info = code_info(view.code(), view.globals());
  if (!budget_left()) return nullptr;
  auto frame = new_frame(info);
  fill_frame(*frame, view);
  for (PyObject* entry : view.stack()) frame->stack.push_back(entry ? world_.wrap(entry) : Slot());
  frame->pc = info.decoded->index_of_offset(view.offset());
  Slot result;
  Status status = run(*frame, result, throwing);
  if (status == Status::kStopped) return nullptr;
  if (status == Status::kError && breaks_.under_way()) {
    recycle(std::move(frame));
    return end_generator(thread, view);
  }
  cpython::FrameState state;
  state.offset = info.decoded->instructions[static_cast<size_t>(frame->current())].offset;
  for (Slot& local : frame->locals) state.locals.push_back(std::move(local.object));
  for (Slot& entry : frame->stack) state.stack.push_back(std::move(entry.object));
  if (status == Status::kError) {
    state.raise = true;
  } else {
    state.stack.push_back(std::move(result.object));
  }
  recycle(std::move(frame));
  return cpython::evaluate_from(thread, view, std::move(state));
}

// Of a trace that is thrown away: the generator ends with the pending exception, but without its
// handlers, which would run for real. None is in force behind RETURN_GENERATOR.
PyObject* Evaluator::end_generator(PyThreadState* thread, FrameView view) {
  const auto& instructions = cpython::decode(view.code()).instructions;
  size_t at = 0;
  while (instructions[at].op != cpython::Opcode::kReturnGenerator) ++at;
  cpython::FrameState state;
  state.offset = instructions[at + 1].offset;
  state.locals.resize(view.locals().size());
  state.raise = true;
  return cpython::evaluate_from(thread, view, std::move(state));
}

// (receiver value -- receiver result); finished: the result stands for the value, and on to the
// target.
bool Evaluator::send(Frame& frame, const Instruction& in) {
  Slot value = std::move(frame.stack.back());
  frame.stack.pop_back();
  Slot& receiver = frame.stack.back();
  if (world_.source_of(receiver) && world_.is_outside(receiver.get()))
    return breaks_.refuse(BreakKind::kOutsideIterator, "a generator from outside is resumed");
  PyObject* result = nullptr;
  PySendResult status = PyIter_Send(receiver.get(), value.get(), &result);
  if (breaks_.under_way()) {
    Py_XDECREF(result);
    return false;
  }
  if (status == PYGEN_ERROR) return false;
  frame.stack.push_back(world_.wrap(Ref::steal(result)));
  if (status == PYGEN_RETURN) frame.pc = in.target;
  return true;
}

// StopIteration may not leave a generator.
Slot Evaluator::stop_iteration_error(const Slot& exception) {
  if (!PyErr_GivenExceptionMatches(exception.get(), PyExc_StopIteration)) return exception;
  Ref message = Ref::steal(PyUnicode_FromString("generator raised StopIteration"));
  Ref error = Ref::steal(PyObject_CallOneArg(PyExc_RuntimeError, message.get()));
  if (!error) return {};
  PyException_SetCause(error.get(), Ref(exception.object).release());
  PyException_SetContext(error.get(), Ref(exception.object).release());
  return Slot(error);
}

// (receiver last exception -- None value): the end of a `yield from` into which was thrown.
bool Evaluator::cleanup_throw(Frame& frame) {
  Slot exception = frame.stack.back();
  if (!PyErr_GivenExceptionMatches(exception.get(), PyExc_StopIteration)) {
    frame.stack.pop_back();
    restore_exception(exception.object);
    return false;
  }
  frame.stack.resize(frame.stack.size() - 3);
  Ref value = Ref::steal(PyObject_GetAttrString(exception.get(), "value"));
  if (!value) return false;
  frame.stack.push_back(Slot::borrow(Py_None));
  frame.stack.push_back(world_.wrap(std::move(value)));
  return true;
}

}  // namespace braze::capture
