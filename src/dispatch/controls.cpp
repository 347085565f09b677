#include "dispatch/controls.h"

#include <atomic>
#include <optional>
#include <string_view>

#include "capture/policy/policy.h"
#include "dispatch/compiler.h"

namespace braze::dispatch {
namespace {

using cpython::Ref;

constexpr const char* kNames[] = {
#define X(id, name) name,
    BRAZE_STANCES(X)
#undef X
};
constexpr uint8_t kNone = 0xFF;

std::atomic<uint8_t> process_stance = 0;
thread_local uint8_t thread_stance = kNone;

PyObject* name_of(uint8_t stance) {
  if (stance == kNone) Py_RETURN_NONE;
  return PyUnicode_FromString(kNames[stance]);
}

// None: no stance.
std::optional<uint8_t> read(PyObject* name) {
  if (name == Py_None) return kNone;
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  for (uint8_t i = 0; text && i < std::size(kNames); ++i)
    if (std::string_view(text) == kNames[i]) return i;
  if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "no stance: %R", name);
  return std::nullopt;
}

PyObject* set_process_stance(PyObject*, PyObject* name) {
  auto wanted = read(name);
  if (!wanted) return nullptr;
  return name_of(process_stance.exchange(*wanted == kNone ? 0 : *wanted));
}

PyObject* set_thread_stance(PyObject*, PyObject* name) {
  auto wanted = read(name);
  if (!wanted) return nullptr;
  return name_of(std::exchange(thread_stance, *wanted));
}

PyObject* stances(PyObject*, PyObject*) {
  Ref all = Ref::steal(PyTuple_New(std::size(kNames)));
  for (size_t i = 0; all && i < std::size(kNames); ++i)
    PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), PyUnicode_FromString(kNames[i]));
  return all.release();
}

PyObject* is_compiling(PyObject*, PyObject*) { return PyBool_FromLong(capturing()); }

// Does nothing outside of captures; in one, its rule breaks the graph.
PyObject* graph_break(PyObject*, PyObject* args, PyObject* kwargs) {
  static char name[] = "msg";
  static char* names[] = {name, nullptr};
  PyObject* message = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:graph_break", names, &message)) return nullptr;
  Py_RETURN_NONE;
}

// Outside of captures it returns its argument; in one, its rule says what it does.
PyObject* expect(PyObject*, PyObject* condition) { return Py_NewRef(condition); }

// Only for captures, where its rule says what it does.
PyObject* control_flow(PyObject*, PyObject*) {
  PyErr_SetString(PyExc_RuntimeError, "for functions that stand for those of PyTorch in captures");
  return nullptr;
}

PyMethodDef kControlMethods[] = {
    {"stances", stances, METH_NOARGS, "The names of all stances."},
    {"set_process_stance", set_process_stance, METH_O, "Sets it; the one before."},
    {"set_thread_stance", set_thread_stance, METH_O,
     "Sets it for this thread, None for the process's; the one before."},
    {"is_compiling", is_compiling, METH_NOARGS,
     "is_compiling()\n--\n\nTrue while this code is being captured, False when it runs."},
    {"graph_break", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(graph_break)),
     METH_VARARGS | METH_KEYWORDS,
     "graph_break(msg='')\n--\n\nIn compiled code: a break here. `msg` is shown with it."},
    {"expect", expect, METH_O,
     "The condition itself; in a capture one on numbers that come from data is asserted."},
    {"operand", control_flow, METH_VARARGS,
     "operand(value, tensor): a float that varies as a tensor beside that one; else the number."},
    {"run_backward", control_flow, METH_VARARGS,
     "run_backward(tensors, tangents, inputs, keeps_graph, creates_graph, accumulates): "
     "gradients."},
    {"elementwise", control_flow, METH_VARARGS,
     "elementwise(function, tensors): what it gives for numbers, of which these are many; see "
     "python/braze/_flex_attention.py."},
    {"element_program", control_flow, METH_VARARGS,
     "element_program(numbers, positions, outputs): (text, tables) of what has been recorded "
     "between these, or None."},
    {"call_later", control_flow, METH_VARARGS,
     "call_later(look, function, arguments): puts function(*arguments) off; see "
     "python/braze/_schedulers.py."},
#define X(id, name, text) {name, control_flow, METH_VARARGS, text},
    BRAZE_CONTROL_FLOW_CALLS(X)
#undef X
        {nullptr, nullptr, 0, nullptr}};

}  // namespace

Stance stance() {
  const uint8_t own = thread_stance;
  return static_cast<Stance>(own != kNone ? own : process_stance.load(std::memory_order_relaxed));
}

static bool add_control_flow(PyObject* module, const char* name, capture::ControlFlowCall call) {
  Ref function = Ref::steal(PyObject_GetAttrString(module, name));
  if (!function) return false;
  capture::add_rule(function.get(), {.callee = capture::Callee::kControlFlow,
                                     .op = static_cast<int>(call),
                                     .text = std::string(name) + "()"});
  return true;
}

bool initialize_controls(PyObject* module) {
  if (PyModule_AddFunctions(module, kControlMethods)) return false;
  const std::pair<const char*, capture::Callee> rules[] = {
      {"is_compiling", capture::Callee::kReadOnly},
      {"graph_break", capture::Callee::kGraphBreak},
      {"expect", capture::Callee::kExpect},
      {"operand", capture::Callee::kOperand},
      {"run_backward", capture::Callee::kBackward},
      {"call_later", capture::Callee::kLate},
      {"elementwise", capture::Callee::kElementwise},
      {"element_program", capture::Callee::kElementProgram}};
  for (const auto& [name, callee] : rules) {
    Ref function = Ref::steal(PyObject_GetAttrString(module, name));
    if (!function) return false;
    capture::add_rule(function.get(), {.callee = callee, .text = std::string(name) + "()"});
  }
#define X(id, name, text) \
  if (!add_control_flow(module, name, capture::ControlFlowCall::k##id)) return false;
  BRAZE_CONTROL_FLOW_CALLS(X)
#undef X
  return true;
}

}  // namespace braze::dispatch
