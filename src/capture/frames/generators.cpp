#include "capture/frames/generators.h"

#include "capture/frames/evaluate.h"
#include "capture/frames/hook.h"
#include "capture/trace_context.h"

namespace braze::capture {

using cpython::FrameView;
using cpython::Instruction;

namespace {

// The frame that lives inside a generator object.
const void* frame_of_generator(PyObject* generator) {
  return reinterpret_cast<PyGenObject*>(generator)->gi_iframe;
}

}  // namespace

void mark_generator(TraceContext& trace, PyObject* generator) {
  trace.world.mark_created(generator);
  if (PyGen_CheckExact(generator)) trace.generators[frame_of_generator(generator)] = true;
}

PyObject* resume_generator(TraceContext& trace, PyThreadState* thread, FrameView view,
                           bool throwing) {
  if (!trace.generators.contains(view.raw()))
    return trace.raise_break(BreakKind::kOutsideIterator, "a generator from outside is resumed"),
           nullptr;
  if (throwing && (trace.breaks.begun() || trace.progress.stopped))
    return end_generator(thread, view);
  const CodeInfo& info = code_info(view.code(), view.globals());
  if (!budget_left(trace)) return nullptr;
  auto frame = trace.frames.make(info);
  fill_frame(trace, *frame, view);
  for (PyObject* entry : view.stack())
    frame->stack.push_back(entry ? trace.world.wrap(entry) : Tracked());
  frame->pc = info.decoded->index_of_offset(view.offset());
  Tracked result;
  Status status = run_frame(trace, *frame, result, throwing);
  if (status == Status::kStopped) return nullptr;
  if (status == Status::kError && trace.breaks.under_way()) {
    trace.frames.recycle(std::move(frame));
    return end_generator(thread, view);
  }
  cpython::FrameState state;
  state.offset = info.decoded->instructions[static_cast<size_t>(frame->current())].offset;
  for (Tracked& local : frame->locals) state.locals.push_back(std::move(local.object));
  for (Tracked& entry : frame->stack) state.stack.push_back(std::move(entry.object));
  if (status == Status::kError) {
    state.raise = true;
  } else {
    state.stack.push_back(std::move(result.object));
  }
  trace.frames.recycle(std::move(frame));
  return cpython::evaluate_from(thread, view, std::move(state));
}

PyObject* end_generator(PyThreadState* thread, FrameView view) {
  const auto& instructions = cpython::decode(view.code()).instructions;
  size_t at = 0;
  while (instructions[at].op != cpython::Opcode::kReturnGenerator) ++at;
  cpython::FrameState state;
  state.offset = instructions[at + 1].offset;
  state.locals.resize(view.locals().size());
  state.raise = true;
  return cpython::evaluate_from(thread, view, std::move(state));
}

bool send_value(TraceContext& trace, Frame& frame, const Instruction& in) {
  Tracked value = std::move(frame.stack.back());
  frame.stack.pop_back();
  Tracked& receiver = frame.stack.back();
  if (trace.world.source_of(receiver) && trace.world.is_outside(receiver.get()))
    return trace.breaks.refuse(BreakKind::kOutsideIterator, "a generator from outside is resumed");
  PyObject* result = nullptr;
  PySendResult status = PyIter_Send(receiver.get(), value.get(), &result);
  if (trace.breaks.under_way()) {
    Py_XDECREF(result);
    return false;
  }
  if (status == PYGEN_ERROR) return false;
  frame.stack.push_back(trace.world.wrap(Ref::steal(result)));
  if (status == PYGEN_RETURN) frame.pc = in.target;
  return true;
}

Tracked stop_iteration_error(const Tracked& exception) {
  if (!PyErr_GivenExceptionMatches(exception.get(), PyExc_StopIteration)) return exception;
  Ref message = Ref::steal(PyUnicode_FromString("generator raised StopIteration"));
  Ref error = Ref::steal(PyObject_CallOneArg(PyExc_RuntimeError, message.get()));
  if (!error) return {};
  PyException_SetCause(error.get(), Ref(exception.object).release());
  PyException_SetContext(error.get(), Ref(exception.object).release());
  return Tracked(error);
}

bool cleanup_throw(TraceContext& trace, Frame& frame) {
  Tracked exception = frame.stack.back();
  if (!PyErr_GivenExceptionMatches(exception.get(), PyExc_StopIteration)) {
    frame.stack.pop_back();
    restore_exception(exception.object);
    return false;
  }
  frame.stack.resize(frame.stack.size() - 3);
  Ref value = Ref::steal(PyObject_GetAttrString(exception.get(), "value"));
  if (!value) return false;
  frame.stack.push_back(Tracked::borrow(Py_None));
  frame.stack.push_back(trace.world.wrap(std::move(value)));
  return true;
}

}  // namespace braze::capture
