// The Python type of compiled functions: how they are made, their attributes and methods.
#include <Python.h>
#include <structmember.h>

#include <cstddef>
#include <utility>

#include "dispatch/compiled_function.h"
#include "dispatch/controls.h"
#include "dispatch/fork_gate.h"
#include "dispatch/function_object.h"
#include "dispatch/graph_recorder.h"
#include "dispatch/triton_compiler.h"

namespace braze::dispatch {
namespace {

using cpython::Ref;

PyTypeObject* function_type = nullptr;
PyObject* graph_break_error_type = nullptr;

bool read_settings(PyObject* given, Settings& out) {
  auto flag = [&](const char* key, bool& value) {
    PyObject* item = PyDict_GetItemString(given, key);
    if (item) value = PyObject_IsTrue(item) == 1;
  };
  flag("fullgraph", out.fullgraph);
  flag("keep_report", out.keep_report);
  flag("capture_scalar_outputs", out.capture_scalars);
  flag("capture_dynamic_output_shape_ops", out.capture_sizes);
  flag("cuda_graphs", out.cuda_graphs);
  flag("autotune", out.autotune);
  if (PyObject* source = PyDict_GetItemString(given, "rng"))
    out.counter_random = PyUnicode_CompareWithASCIIString(source, "counter") == 0;
  if (PyObject* codegen = PyDict_GetItemString(given, "gpu_codegen");
      codegen && PyUnicode_CompareWithASCIIString(codegen, "triton") == 0)
    out.gpu_codegen = compile::GpuCodegen::kTriton;
  if (PyObject* bytes = PyDict_GetItemString(given, "activation_memory"); bytes && bytes != Py_None)
    out.activation_memory = PyLong_AsLongLong(bytes);
  if (PyObject* bytes = PyDict_GetItemString(given, "gradient_stage_bytes"))
    out.stage_bytes = PyLong_AsLongLong(bytes);
  if (PyObject* last = PyDict_GetItemString(given, "channels_last"); last && last != Py_None)
    out.channels_last = last == Py_True;
  if (PyObject* dynamic = PyDict_GetItemString(given, "dynamic"); dynamic && dynamic != Py_None)
    out.dynamic = dynamic == Py_True ? capture::DynamicSizes::Mode::kAlways
                                     : capture::DynamicSizes::Mode::kNever;
  if (PyObject* limit = PyDict_GetItemString(given, "recompile_limit"))
    out.recompile_limit = PyLong_AsLongLong(limit);
  PyObject* backend = PyDict_GetItemString(given, "backend");
  if (backend && PyUnicode_Check(backend)) {
    if (PyUnicode_CompareWithASCIIString(backend, "eager") == 0)
      out.backend = compile::Backend::kEager;
    else if (PyUnicode_CompareWithASCIIString(backend, "aten") == 0)
      out.backend = compile::Backend::kAten;
  } else if (backend) {
    out.custom_backend = Ref::borrow(backend);
  }
  return !PyErr_Occurred();
}

// CompiledFunction(function, self | None, wrapped, settings)
PyObject* construct(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *self, *wrapped, *settings;
  if (!PyArg_ParseTuple(args, "O!OOO!", &PyFunction_Type, &function, &self, &wrapped, &PyDict_Type,
                        &settings))
    return nullptr;
  auto* object = cast(type->tp_alloc(type, 0));
  if (!object) return nullptr;
  object->vectorcall = &call_compiled;
  object->function = Py_NewRef(function);
  object->self = self == Py_None ? nullptr : Py_NewRef(self);
  object->wrapped = Py_NewRef(wrapped);
  const Ref result = Ref::steal(reinterpret_cast<PyObject*>(object));
  Settings read;
  if (!read_settings(settings, read)) return nullptr;
  object->state = make_state(std::move(read));
  object->dict = PyDict_New();
  if (!object->dict) return nullptr;
  for (const char* name : {"__module__", "__name__", "__qualname__", "__doc__"}) {
    Ref value = Ref::steal(PyObject_GetAttrString(wrapped, name));
    if (!value)
      PyErr_Clear();
    else if (PyDict_SetItemString(object->dict, name, value.get()))
      return nullptr;
  }
  if (PyDict_SetItemString(object->dict, "__wrapped__", wrapped)) return nullptr;
  if (PyDict_SetItemString(object->dict, "_settings", settings)) return nullptr;
  return Py_NewRef(result.get());
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  CompiledFunction* self = cast(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->function);
  Py_VISIT(self->self);
  Py_VISIT(self->wrapped);
  Py_VISIT(self->dict);
  return 0;
}
int clear(PyObject* object) {
  CompiledFunction* self = cast(object);
  Py_CLEAR(self->dict);
  if (self->state) drop_entries(*self->state);
  return 0;
}
void deallocate(PyObject* object) {
  CompiledFunction* self = cast(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  clear(object);
  destroy(self->state);
  Py_CLEAR(self->function);
  Py_CLEAR(self->self);
  Py_CLEAR(self->wrapped);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* get_attribute(PyObject* object, PyObject* name) {
  PyObject* own = PyObject_GenericGetAttr(object, name);
  if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(cast(object)->wrapped, name);
}
// What belongs to the function is set on the function: `f.__defaults__ = ...` must be noticed.
int set_attribute(PyObject* object, PyObject* name, PyObject* value) {
  for (const char* special : {"__defaults__", "__kwdefaults__", "__code__", "__annotations__"})
    if (PyUnicode_CompareWithASCIIString(name, special) == 0)
      return PyObject_SetAttr(cast(object)->wrapped, name, value);
  return PyObject_GenericSetAttr(object, name, value);
}
PyObject* bind_method(PyObject* object, PyObject* instance, PyObject*) {
  if (!instance || cast(object)->self) return Py_NewRef(object);
  return PyMethod_New(object, instance);
}
PyObject* represent(PyObject* object) {
  return PyUnicode_FromFormat("<compiled %R>", cast(object)->wrapped);
}

PyObject* forget(PyObject* object, PyObject*) {
  reset(*cast(object)->state);
  Py_RETURN_NONE;
}
PyObject* entries(PyObject* object, PyObject*) { return reports(*cast(object)->state); }
PyObject* reduce(PyObject* object, PyObject*) {
  Ref module = Ref::steal(PyImport_ImportModule("braze._pickle"));
  if (!module) return nullptr;
  return PyObject_CallMethod(module.get(), "reduce_function", "O", object);
}

PyMethodDef methods[] = {
    {"reset", forget, METH_NOARGS, "Forget every compiled entry of this function."},
    {"_entries", entries, METH_NOARGS, "One dict for each entry, oldest first."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledFunction, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompiledFunction, weakrefs), READONLY, nullptr},
    {"_function", T_OBJECT, offsetof(CompiledFunction, function), READONLY, nullptr},
    {"_self", T_OBJECT, offsetof(CompiledFunction, self), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef getters[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(construct)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
                       {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(bind_method)},
                       {Py_tp_repr, reinterpret_cast<void*>(represent)},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_getset, getters},
                       {0, nullptr}};
PyType_Spec spec = {"braze._C.CompiledFunction", sizeof(CompiledFunction), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

// check_only(compiled, *args, **kwargs) -> bool: argument binding and guards, nothing else; what a
// call costs beyond running.
PyObject* check_only(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
  if (count < 1 || !PyObject_TypeCheck(args[0], function_type)) {
    PyErr_SetString(PyExc_TypeError, "check_only(compiled, *args)");
    return nullptr;
  }
  return PyBool_FromLong(
      has_entry_for(cast(args[0]), args + 1, static_cast<size_t>(count - 1), kwnames));
}
PyMethodDef kFunctionMethods[] = {
    {"check_only", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(check_only)),
     METH_FASTCALL | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* graph_break_error() { return graph_break_error_type; }

bool initialize(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type || PyModule_AddObjectRef(module, "CompiledFunction", type)) return false;
  function_type = reinterpret_cast<PyTypeObject*>(type);
  graph_break_error_type = PyErr_NewExceptionWithDoc(
      "braze.GraphBreakError",
      "fullgraph=True was asked for, but something in the function cannot be captured.",
      PyExc_RuntimeError, nullptr);
  if (!graph_break_error_type) return false;
  Py_INCREF(graph_break_error_type);
  if (PyModule_AddObject(module, "GraphBreakError", graph_break_error_type)) return false;
  return PyModule_AddFunctions(module, kFunctionMethods) == 0 && initialize_controls(module) &&
         initialize_graph_recorder(module) && initialize_triton_compiler(module) &&
         initialize_fork_gate();
}

}  // namespace braze::dispatch
