#include "cpython/resumable.h"

#include <opcode.h>

#include "base/error.h"
#include "cpython/frame_layout.h"
#include "cpython/resume_points.h"

namespace braze::cpython {

namespace {

// The gate calls the driver by its one operator, `~driver`: that runs no more of CPython than it
// must, no check for signals among it.
struct Gatekeeper {
  PyObject_HEAD std::shared_ptr<const ResumePoints>* points;
};

const std::shared_ptr<const ResumePoints>& points_of(PyObject* keeper) {
  return *reinterpret_cast<Gatekeeper*>(keeper)->points;
}

PyTypeObject* gatekeeper_type();

// The gatekeeper that the tails of `code` call; null if it has none.
PyObject* gatekeeper_of(PyCodeObject* code) {
  const Py_ssize_t count = PyTuple_GET_SIZE(code->co_consts);
  PyObject* gate = count > 0 ? PyTuple_GET_ITEM(code->co_consts, count - 1) : nullptr;
  if (gate == nullptr || !PyFunction_Check(gate)) return nullptr;
  auto* gate_code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(gate));
  if (PyTuple_GET_SIZE(gate_code->co_consts) != 1) return nullptr;
  PyObject* keeper = PyTuple_GET_ITEM(gate_code->co_consts, 0);
  return Py_IS_TYPE(keeper, gatekeeper_type()) ? keeper : nullptr;
}

// Any result lets CPython go on in the copy.
PyObject* pass(PyObject* keeper) {
  PyThreadState* thread = PyThreadState_Get();
  _PyInterpreterFrame* frame = internal::caller_in_same_evaluation(thread);
  if (frame == nullptr) Py_RETURN_NONE;
  const FrameView view(frame);
  if (!view.is_generator() || gatekeeper_of(view.code()) != keeper) Py_RETURN_NONE;
  const std::shared_ptr<const ResumePoints> points = points_of(keeper);
  const int place = points->place_of_gate(internal::current_offset(frame) + 1);
  if (place < 0) Py_RETURN_NONE;
  if (LiveFrame::is_watched(thread)) {
    // In the copy, whose RESUME has made it known to what watches (3.12).
    internal::set_next_offset(frame, place, false);
    const internal::Aside gate_aside(thread, frame);
    return LiveFrame(thread, view).leave_to_cpython();
  }
  Py_INCREF(points->code());
  const Ref copy =
      Ref::steal(reinterpret_cast<PyObject*>(internal::exchange_code(frame, points->code())));
  internal::set_next_offset(frame, place, false);
  const internal::Aside gate_aside(thread, frame);
  return points->drive(thread, view, reinterpret_cast<PyCodeObject*>(copy.get()));
}

void deallocate(PyObject* keeper) {
  PyTypeObject* type = Py_TYPE(keeper);
  delete reinterpret_cast<Gatekeeper*>(keeper)->points;
  type->tp_free(keeper);
  Py_DECREF(type);
}

PyTypeObject* make_gatekeeper_type() {
  static PyType_Slot slots[] = {{Py_nb_invert, reinterpret_cast<void*>(pass)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                                {0, nullptr}};
  static PyType_Spec spec = {"braze._C.Gatekeeper", sizeof(Gatekeeper), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  PyObject* type = PyType_FromSpec(&spec);
  BRAZE_CHECK(type, "a type cannot be made");
  return reinterpret_cast<PyTypeObject*>(type);
}

PyTypeObject* gatekeeper_type() {
  static PyTypeObject* const type = make_gatekeeper_type();
  return type;
}

// A function of one instruction, `~keeper`, and its return. Without a RESUME, CPython takes its
// frame for one that is still being set up, and shows it to nobody: not in tracebacks, not to
// sys._getframe, not to trace functions.
Ref make_gate(const std::shared_ptr<const ResumePoints>& points) {
  Ref keeper = Ref::steal(gatekeeper_type()->tp_alloc(gatekeeper_type(), 0));
  BRAZE_CHECK(keeper, "out of memory");
  reinterpret_cast<Gatekeeper*>(keeper.get())->points =
      new std::shared_ptr<const ResumePoints>(points);
  const Ref empty =
      Ref::steal(reinterpret_cast<PyObject*>(PyCode_NewEmpty("<braze>", "resume", 1)));
  BRAZE_CHECK(empty, "out of memory");
  const char units[] = {LOAD_CONST, 0, UNARY_INVERT, 0, static_cast<char>(RETURN_VALUE), 0};
  const Ref code = internal::replaced(
      empty.get(),
      Ref::steal(Py_BuildValue("{s:y#,s:(O),s:i,s:i}", "co_code", units,
                               static_cast<Py_ssize_t>(sizeof units), "co_consts", keeper.get(),
                               "co_stacksize", 1, "co_flags", CO_OPTIMIZED | CO_NEWLOCALS)));
  const Ref globals = Ref::steal(PyDict_New());
  Ref gate = globals ? Ref::steal(PyFunction_New(code.get(), globals.get())) : Ref();
  BRAZE_CHECK(gate, "out of memory");
  return gate;
}

}  // namespace

Resumable::Resumable(PyCodeObject* code, Driver driver, std::shared_ptr<void> context)
    : points_(std::make_shared<const ResumePoints>(code, driver, std::move(context))),
      copy_(points_->copy(make_gate(points_).get())) {}

Resumable::~Resumable() = default;

// 3.13 has other rules for where a frame stands during a call.
bool Resumable::is_possible() { return PY_VERSION_HEX < 0x030D0000; }

PyCodeObject* Resumable::code() const { return points_->code(); }

void Resumable::take_over(PyObject* generator) const {
  _PyInterpreterFrame* frame = internal::frame_of_new_generator(generator);
  if (frame == nullptr || FrameView(frame).code() != points_->code()) return;
  Py_INCREF(copy_.get());
  auto* copy = reinterpret_cast<PyCodeObject*>(copy_.get());
  Py_DECREF(internal::exchange_code(frame, copy));
  internal::set_current_offset(frame, points_->start());
}

bool comes_to_driver(PyCodeObject* code) { return gatekeeper_of(code) != nullptr; }

}  // namespace braze::cpython
