#include "capture/known.h"

#include "capture/capture.h"

namespace braze::capture {

using cpython::Ref;

namespace {

// A new reference that is never given back: it lives as long as the process.
PyObject* look_up(const char* module, const char* attribute) {
  Ref imported = Ref::steal(PyImport_ImportModule(module));
  return imported ? PyObject_GetAttrString(imported.get(), attribute) : nullptr;
}

bool look_up_type(const char* module, const char* attribute, PyTypeObject*& into) {
  PyObject* type = look_up(module, attribute);
  if (type && !PyType_Check(type)) {
    PyErr_Format(PyExc_TypeError, "%s.%s is not a type", module, attribute);
    return false;
  }
  into = reinterpret_cast<PyTypeObject*>(type);
  return type != nullptr;
}

// A method of C that a class has, for its class; null if it is none.
PyObject* class_method_of(PyObject* type, const char* name) {
  const Ref key = Ref::steal(PyUnicode_FromString(name));
  PyObject* found =
      key ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), key.get()) : nullptr;
  return found && Py_IS_TYPE(found, &PyClassMethodDescr_Type) ? Py_NewRef(found) : nullptr;
}

PyObject* substitutes = nullptr;
PyObject* float_substitutes = nullptr;
PyObject* checkpointed_call = nullptr;

}  // namespace

void set_substitutes(PyObject* functions, PyObject* for_floats, PyObject* checkpointed) {
  Py_XSETREF(substitutes, Py_NewRef(functions));
  Py_XSETREF(float_substitutes, Py_NewRef(for_floats));
  Py_XSETREF(checkpointed_call, Py_NewRef(checkpointed));
}

bool is_lru_cache(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == known().lru_cache ||
         (type->tp_call == known().lru_cache->tp_call && type->tp_call != nullptr);
}

PyObject* substitute_for(PyObject* function) {
  return substitutes ? PyDict_GetItemWithError(substitutes, function) : nullptr;
}

bool is_checkpointed_call(PyObject* function) { return function == checkpointed_call; }

PyObject* substitute_for_floats(PyObject* function) {
  return float_substitutes ? PyDict_GetItemWithError(float_substitutes, function) : nullptr;
}

bool initialize_known() {
  Known& k = known_objects;
  if (k.break_type) return true;
#define X(id, text) \
  if (!(k.names.id = PyUnicode_InternFromString(text))) return false;
  BRAZE_NAMES(X)
#undef X
  bool types =
      look_up_type("torch", "Tensor", k.tensor) &&
      look_up_type("torch.nn", "Parameter", k.parameter) &&
      look_up_type("torch.nn", "Module", k.module) && look_up_type("torch", "Size", k.size) &&
      look_up_type("torch.overrides", "TorchFunctionMode", k.torch_function_mode) &&
      look_up_type("torch", "SymInt", k.sym_int) && look_up_type("torch", "SymBool", k.sym_bool) &&
      look_up_type("torch", "SymFloat", k.sym_float) &&
      look_up_type("logging", "Logger", k.logger) &&
      look_up_type("functools", "_lru_cache_wrapper", k.lru_cache) &&
      look_up_type("functools", "partial", k.partial) &&
      look_up_type("_collections", "_tuplegetter", k.tuple_getter) &&
      look_up_type("abc", "ABCMeta", k.abc_meta) &&
      look_up_type("collections", "OrderedDict", k.ordered_dict) &&
      look_up_type("collections", "deque", k.deque) &&
      look_up_type("collections", "defaultdict", k.defaultdict) &&
      look_up_type("collections", "Counter", k.counter) &&
      look_up_type("enum", "Enum", k.enum_type) &&
      look_up_type("contextvars", "ContextVar", k.context_var) &&
      look_up_type("types", "GeneratorType", k.generator) &&
      look_up_type("types", "MethodWrapperType", k.method_wrapper) &&
      look_up_type("re", "Pattern", k.pattern) &&
      look_up_type("torch.jit", "ScriptFunction", k.script_function);
  if (!types) return false;
  // Of the objects that stand for text that varies (symbols/text.cpp).
  k.text = reinterpret_cast<PyTypeObject*>(PyObject_CallFunction(
      reinterpret_cast<PyObject*>(&PyType_Type), "s(){s()}", "Text", "__slots__"));
  if (!k.text) return false;
  if (!look_up_type("numpy", "ndarray", k.ndarray)) PyErr_Clear();
  const char* numbers[] = {"bool_",     "int8",    "int16",   "int32",  "int64",
                           "longlong",  "uint8",   "uint16",  "uint32", "uint64",
                           "ulonglong", "float16", "float32", "float64"};
  for (const char* number : numbers)
    if (PyTypeObject* type = nullptr; k.ndarray && look_up_type("numpy", number, type))
      k.numpy_numbers.push_back(type);
    else
      PyErr_Clear();
  const char* atoms[] = {"dtype", "device", "layout", "memory_format"};
  for (int i = 0; i < 4; ++i)
    if (!(k.atom_types[i] = look_up("torch", atoms[i]))) return false;
  k.atom_types[4] = reinterpret_cast<PyObject*>(Py_TYPE(Py_NotImplemented));
  k.atom_types[5] = reinterpret_cast<PyObject*>(&PyComplex_Type);
  k.module_getattr = PyObject_GetAttr(reinterpret_cast<PyObject*>(k.module), k.names.getattr);
  if (const Ref base = Ref::steal(look_up("torch._C", "_FunctionBase")))
    k.function_apply = class_method_of(base.get(), "apply");
  k.is_compiling = look_up("torch.compiler", "is_compiling");
  k.assert_async = look_up("torch", "_assert_async");
  k.logical_not = look_up("torch", "logical_not");
  k.gc_get_objects = look_up("gc", "get_objects");
  k.gc_collect = look_up("gc", "collect");
  k.abc_cache_token = look_up("abc", "get_cache_token");
  k.sys_modules = look_up("sys", "modules");
  k.scripted = look_up("torch.jit._state", "_try_get_jit_cached_function");
  if (!k.scripted) PyErr_Clear();
  Ref slotnames = Ref::steal(look_up("copyreg", "_slotnames"));
  if (!slotnames || !PyFunction_Check(slotnames.get())) return false;
  k.slotnames_code = PyFunction_GET_CODE(slotnames.get());  // lives as long as its module
  if (!k.is_compiling || !PyFunction_Check(k.is_compiling)) return false;
  if (!k.module_getattr || !k.gc_get_objects || !k.gc_collect || !k.abc_cache_token ||
      !k.sys_modules || !k.assert_async || !k.logical_not)
    return false;
  k.break_type = PyErr_NewException("braze._C.Break", PyExc_BaseException, nullptr);
  return k.break_type != nullptr;
}

}  // namespace braze::capture
