#include "capture/objects/attributes.h"

#include "capture/calls/calls.h"
#include "capture/calls/native.h"
#include "capture/calls/native_scope.h"
#include "capture/frames/subject.h"
#include "capture/known.h"
#include "capture/objects/module_parts.h"
#include "capture/objects/super.h"
#include "capture/objects/tensor_attributes.h"
#include "capture/objects/variables.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"
#include "cpython/lookup.h"
#include "cpython/text.h"
#include "cpython/watch.h"

namespace braze::capture {

namespace {

bool is_traceback_name(PyObject* name) {
  return PyUnicode_CompareWithASCIIString(name, "__traceback__") == 0 ||
         PyUnicode_CompareWithASCIIString(name, "with_traceback") == 0;
}

// Of a frame; the others stay while its function runs.
bool changes_as_it_runs(PyObject* name) {
  return PyUnicode_CompareWithASCIIString(name, "f_lineno") == 0 ||
         PyUnicode_CompareWithASCIIString(name, "f_lasti") == 0 ||
         PyUnicode_CompareWithASCIIString(name, "f_locals") == 0;
}

// Of what lies in the instance dict, which an object that the trace made may have from outside.
const Source* attribute_source(TraceContext& trace, const Source* owner, PyObject* dict,
                               PyObject* name) {
  if (owner) return trace.guards.source(SourceKind::kAttribute, owner, name);
  const Source* source = trace.world.source_of(dict);
  return source ? trace.world.item_source(dict, source, name) : nullptr;
}

// The exception is an AttributeError; clears it then.
bool clear_attribute_error() {
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
  PyErr_Clear();
  return true;
}

}  // namespace

static Tracked call_descriptor(TraceContext& trace, const Tracked& descriptor,
                               const Tracked& object);
static Tracked field_of_named_tuple(TraceContext& trace, const Tracked& object,
                                    PyObject* descriptor);
static void missing_attribute(PyObject* object, PyObject* name);
static Tracked attribute_of_created(TraceContext& trace, PyObject* object, PyObject* name,
                                    Ref value);
static PyObject* get_dunder();
static Tracked find_attribute(TraceContext& trace, const Tracked& object, PyObject* name,
                              Tracked* self);
static Tracked native_attribute_of(TraceContext& trace, const Tracked& object, PyObject* name);
static Tracked module_attribute_of(TraceContext& trace, const Tracked& module, PyObject* name);
static Tracked type_attribute_of(TraceContext& trace, const Tracked& object, PyObject* name,
                                 bool quiet);

Tracked bind_descriptor(TraceContext& trace, PyObject* descriptor, const Source* source,
                        const Tracked& object, Tracked* self) {
  if (self && PyType_HasFeature(Py_TYPE(descriptor), Py_TPFLAGS_METHOD_DESCRIPTOR)) {
    *self = object;
    return Tracked::borrow(descriptor, source);
  }
  if (PyFunction_Check(descriptor)) return Tracked::steal(PyMethod_New(descriptor, object.get()));
  auto get = Py_TYPE(descriptor)->tp_descr_get;
  if (!get) {
    if (!source) return trace.world.wrap(descriptor);
    return trace.world.read(descriptor, source);
  }
  if (is_heap_type(Py_TYPE(descriptor)) && trace.world.is_outside(descriptor))
    return call_descriptor(trace, Tracked::borrow(descriptor, source), object);
  Ref value = Ref::steal(get(descriptor, object.get(), as_object(Py_TYPE(object.get()))));
  if (!value) return {};
  // staticmethod: what it holds is as fixed as the descriptor itself.
  if (source && Py_IS_TYPE(descriptor, &PyStaticMethod_Type))
    return trace.world.read(value.get(),
                            trace.guards.source(SourceKind::kAttribute, source, names().func));
  return result_of_native(trace, std::move(value));
}

// A descriptor written in Python: its __get__ is evaluated.
static Tracked call_descriptor(TraceContext& trace, const Tracked& descriptor,
                               const Tracked& object) {
  static PyObject* get_name = PyUnicode_InternFromString("__get__");
  if (descriptor.source && !trace.world.read(descriptor.get(), descriptor.source)) return {};
  Tracked get = special_method(trace, descriptor, get_name);
  if (!get) return {};
  Tracked args[2] = {object, Tracked::borrow(as_object(Py_TYPE(object.get())))};
  return call(trace, get, args, 2, nullptr);
}

Tracked generic_getattr(TraceContext& trace, const Tracked& object, PyObject* name, Tracked* self,
                        bool quiet) {
  PyObject* obj = object.get();
  PyTypeObject* type = Py_TYPE(obj);
  const Source* source = trace.world.source_of(object);
  const Source* type_source = nullptr;
  PyObject* found = trace.world.type_lookup(type, name, &type_source);
  Ref descriptor = Ref::borrow(found);
  auto get = descriptor ? Py_TYPE(descriptor.get())->tp_descr_get : nullptr;

  if (get && PyDescr_IsData(descriptor.get())) {
    if (Py_IS_TYPE(descriptor.get(), &PyProperty_Type)) {
      Ref getter = Ref::steal(PyObject_GetAttr(descriptor.get(), names().fget));
      if (!getter) return {};
      if (getter.get() == Py_None) {
        PyErr_Format(PyExc_AttributeError, "property of '%.100s' object has no getter",
                     type->tp_name);
        return {};
      }
      Tracked args[1] = {object};
      return call(trace, trace.world.wrap(getter), args, 1, nullptr);
    }
    if (is_heap_type(Py_TYPE(descriptor.get())) &&
        PyFunction_Check(_PyType_Lookup(Py_TYPE(descriptor.get()), get_dunder())))
      return call_descriptor(trace, Tracked::borrow(descriptor.get(), type_source), object);
    if (const Write* write = source ? trace.world.log().written_slot(obj, name) : nullptr) {
      if (write->value) return trace.world.wrap(write->value.get());
      PyErr_Format(PyExc_AttributeError, "'%.200s' object has no attribute '%U'", type->tp_name,
                   name);
      return {};
    }
    if (source && Py_IS_TYPE(descriptor.get(), known().tuple_getter))
      return field_of_named_tuple(trace, object, descriptor.get());
    if (source && !cpython::is_native_data_descriptor(descriptor.get()))
      return trace.refuse(BreakKind::kNativeObject,
                          std::string("an attribute of a '") + type->tp_name +
                              "' object from outside, read by a '" +
                              Py_TYPE(descriptor.get())->tp_name + "' object");
    Ref value = Ref::steal(get(descriptor.get(), obj, as_object(type)));
    if (!value) {
      if (source && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        Ref error = take_exception();
        trace.guards.add(GuardKind::kAbsent,
                         trace.guards.source(SourceKind::kAttribute, source, name));
        restore_exception(std::move(error));
      }
      return {};
    }
    if (!source) return attribute_of_created(trace, obj, name, std::move(value));
    if (name == names().dict) {
      trace.world.dicts().note_owner(value.get(), obj);
      return trace.world.read(value.get(), trace.guards.source(SourceKind::kInstanceDict, source));
    }
    if (name == names().class_)
      return trace.world.read(value.get(), trace.guards.source(SourceKind::kType, source));
    return trace.world.read(value.get(), trace.guards.source(SourceKind::kAttribute, source, name));
  }

  if (PyObject* dict =
          Py_IS_TYPE(obj, known().partial) ? cpython::existing_dict(obj) : instance_dict(obj)) {
    if (!trace.world.log().is_unwritten(dict)) {
      trace.world.dicts().note_owner(dict, obj);
      if (const Write* write = trace.world.log().written(dict, name)) {
        if (write->value) return trace.world.wrap(write->value.get());
        goto class_attribute;
      }
    }
    PyObject* used = trace.world.effective(dict);
    const Source* at = used == dict ? attribute_source(trace, source, dict, name) : nullptr;
    if (PyObject* value = PyDict_GetItemWithError(used, name))
      return at ? trace.world.read(value, at) : trace.world.wrap(value);
    if (PyErr_Occurred()) return {};
    if (at) trace.guards.add(GuardKind::kAbsent, at);
  } else if (source && Py_IS_TYPE(obj, known().partial)) {
    trace.guards.add(GuardKind::kAbsent, trace.guards.source(SourceKind::kAttribute, source, name));
  }
class_attribute:
  if (descriptor) return bind_descriptor(trace, descriptor.get(), type_source, object, self);
  if (!quiet) missing_attribute(obj, name);
  return {};
}

// The class of a namedtuple has a descriptor for each field, which says the item that it stands for
// in how it is pickled: (class, (index, doc)).
static Tracked field_of_named_tuple(TraceContext& trace, const Tracked& object,
                                    PyObject* descriptor) {
  Ref reduced = Ref::steal(PyObject_CallMethodNoArgs(descriptor, names().reduce));
  if (!reduced) return {};
  PyObject* index = PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0);
  const Py_ssize_t at = PyLong_AsSsize_t(index);
  if (!PyTuple_Check(object.get()) || at >= PyTuple_GET_SIZE(object.get())) {
    PyErr_SetString(PyExc_IndexError, "tuple index out of range");
    return {};
  }
  return trace.world.read(
      PyTuple_GET_ITEM(object.get(), at),
      trace.guards.source(SourceKind::kItem, trace.world.source_of(object), index));
}

static void missing_attribute(PyObject* object, PyObject* name) {
  PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'",
               Py_TYPE(object)->tp_name, name);
  Ref error = take_exception();
  if (PyObject_SetAttr(error.get(), names().name_plain, name) < 0 ||
      PyObject_SetAttr(error.get(), names().obj, object) < 0)
    PyErr_Clear();
  restore_exception(std::move(error));
}

// What a descriptor made in C gives for an object that the trace made.
static Tracked attribute_of_created(TraceContext& trace, PyObject* object, PyObject* name,
                                    Ref value) {
  bool made =
      PyFunction_Check(object) ? trace.world.made_function(object) : trace.world.is_created(object);
  if (!made) return result_of_native(trace, std::move(value));
  bool is_part = (PyFunction_Check(object) || Py_IS_TYPE(object, known().partial)) &&
                 PyDict_CheckExact(value.get());
  if ((name == names().dict || is_part) && !trace.world.source_of(value.get()))
    trace.world.mark_created(value.get());
  return trace.world.wrap(std::move(value));
}

static PyObject* get_dunder() {
  static PyObject* name = PyUnicode_InternFromString("__get__");
  return name;
}

static AttributeTraits traits_of(TraceContext& trace, PyTypeObject* type) {
  AttributeTraits& before = trace.caches.traits[type];
  const unsigned version = cpython::current_type_version(type);
  if (before.version == version && version != 0) return before;
  AttributeTraits traits;
  traits.heap = is_heap_type(type);
  traits.symbol = type == known().sym_int || type == known().sym_bool ||
                  type == known().sym_float || type == known().text;
  traits.tensor = is_tensor_type(type);
  traits.traceback = type == &PyTraceBack_Type;
  traits.frame = type == &PyFrame_Type;
  traits.exception = PyType_FastSubclass(type, Py_TPFLAGS_BASE_EXC_SUBCLASS);
  traits.module = PyType_IsSubtype(type, &PyModule_Type);
  traits.type = PyType_FastSubclass(type, Py_TPFLAGS_TYPE_SUBCLASS);
  PyObject* found = traits.heap ? _PyType_Lookup(type, names().getattribute) : nullptr;
  if (found && PyFunction_Check(found)) traits.getattribute = found;
  traits.native = type->tp_getattro != PyObject_GenericGetAttr && !traits.getattribute &&
                  !is_wrapper_of(found, PyObject_GenericGetAttr);
  traits.version = cpython::current_type_version(type);
  return trace.caches.traits[type] = traits;
}

// Who asked for what, which CPython adds to an AttributeError that does not say so.
static void complete_error(const World& world, const Tracked& object, PyObject* name) {
  static PyObject *const what = PyUnicode_InternFromString("name"), *const whom =
                                                                        PyUnicode_InternFromString(
                                                                            "obj");
  Ref error = take_exception();
  Ref known_name = Ref::steal(PyObject_GetAttr(error.get(), what));
  Ref known_object = Ref::steal(PyObject_GetAttr(error.get(), whom));
  if (known_name.get() == Py_None && known_object.get() == Py_None) {
    PyObject_SetAttr(error.get(), what, name);
    PyObject_SetAttr(error.get(), whom, world.real_of(object.get()));
  }
  PyErr_Clear();
  restore_exception(std::move(error));
}

Tracked getattr(TraceContext& trace, const Tracked& object, PyObject* name, Tracked* self) {
  Tracked value = find_attribute(trace, object, name, self);
  if (!value && !trace.breaks.under_way() && PyErr_ExceptionMatches(PyExc_AttributeError))
    complete_error(trace.world, object, name);
  return value;
}

static Tracked find_attribute(TraceContext& trace, const Tracked& object, PyObject* name,
                              Tracked* self) {
  PyObject* obj = object.get();
  PyTypeObject* type = Py_TYPE(obj);
  const AttributeTraits traits = traits_of(trace, type);
  if (traits.symbol) {
    Tracked number = object;
    make_concrete(trace, number);
    return getattr(trace, number, name, self);
  }
  const Subject subject(trace, object);
  if (PyFunction_Check(obj)) trace.world.guard_identity_of_function(obj);
  if (PyCell_Check(obj) && PyUnicode_Check(name) &&
      PyUnicode_CompareWithASCIIString(name, "cell_contents") == 0) {
    Tracked contents = read_cell(trace, obj);
    if (!contents && !trace.breaks.under_way()) PyErr_SetString(PyExc_ValueError, "Cell is empty");
    return contents;
  }
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "attribute name must be string, not '%.200s'",
                 Py_TYPE(name)->tp_name);
    return {};
  }
  if (traits.tensor) return tensor_attribute_of(trace, object, name, self);
  // What is raised in a trace has no frames of CPython's behind it.
  if (traits.traceback || (traits.exception && is_traceback_name(name)))
    return trace.refuse(BreakKind::kTraceback, "the traceback of an exception");
  if (traits.frame && changes_as_it_runs(name))
    return trace.refuse(BreakKind::kIntrospection, std::string(cpython::utf8_of(name)) +
                                                       " of a frame, which goes on as it runs");
  if (traits.module && !trace.world.made_module(obj))
    return module_attribute_of(trace, object, name);
  if (traits.native && !traits.type) return native_attribute_of(trace, object, name);

  const bool outside = trace.world.source_of(object) != nullptr;
  // Looked up first: a look-up with an exception pending would clear it.
  Ref fallback;
  if (traits.heap)
    fallback = Ref::borrow(outside ? trace.world.type_lookup(type, names().getattr)
                                   : _PyType_Lookup(type, names().getattr));
  if (fallback && !PyFunction_Check(fallback.get()) && !is_method_of_c(fallback.get()))
    return native_attribute_of(trace, object, name);
  Tracked value;
  if (traits.getattribute) {
    if (outside) trace.world.type_lookup(type, names().getattribute);
    Tracked args[2] = {object, Tracked::borrow(name)};
    value = call(trace, Tracked::borrow(traits.getattribute), args, 2, nullptr);
  } else if (traits.type) {
    value = type_attribute_of(trace, object, name, bool(fallback));
  } else {
    value = generic_getattr(trace, object, name, self, bool(fallback));
  }
  if (value || !fallback) return value;
  if (PyErr_Occurred() && !clear_attribute_error()) return {};
  if (fallback.get() == known().module_getattr && module_getattr(trace, object, name, value))
    return value;
  Tracked args[2] = {object, Tracked::borrow(name)};
  return call(trace, Tracked(fallback), args, 2, nullptr);
}

// super objects, C types with a look-up of their own.
static Tracked native_attribute_of(TraceContext& trace, const Tracked& object, PyObject* name) {
  PyObject* obj = object.get();
  if (Py_IS_TYPE(obj, &PySuper_Type)) {
    static PyObject *this_class = PyUnicode_InternFromString("__thisclass__"),
                    *its_self = PyUnicode_InternFromString("__self__");
    Ref cls = Ref::steal(PyObject_GenericGetAttr(obj, this_class));
    Ref self = Ref::steal(PyObject_GenericGetAttr(obj, its_self));
    if (!cls || !self) return {};
    return super_attribute(trace, trace.world.wrap(cls), trace.world.wrap(self), name, nullptr);
  }
  if (trace.world.source_of(object) && !PyMethod_Check(obj) && !is_immutable(obj) &&
      trace.world.is_outside(obj) && !Py_IS_TYPE(obj, known().partial))
    return trace.refuse(
        BreakKind::kNativeObject,
        std::string("an attribute of a '") + Py_TYPE(obj)->tp_name + "' object from outside");
  Ref value = Ref::steal(PyObject_GetAttr(trace.world.effective(obj), name));
  if (!value) return {};
  if (Py_IS_TYPE(obj, known().partial) && trace.world.is_created(obj) &&
      PyDict_CheckExact(value.get()))
    trace.world.mark_created(value.get());
  if (PyMethod_Check(obj) && trace.world.source_of(object) && !PyMethod_Check(value.get()) &&
      !PyCFunction_Check(value.get()) && !is_atom(value.get()))
    return trace.world.read(value.get(), trace.guards.source(SourceKind::kAttribute,
                                                             trace.world.source_of(object), name));
  return trace.world.wrap(std::move(value));
}

static Tracked module_attribute_of(TraceContext& trace, const Tracked& module, PyObject* name) {
  PyObject* dict = PyModule_GetDict(module.get());
  const Source* base = trace.guards.pinned(module.get());
  if (name == names().dict) {
    trace.world.dicts().note_owner(dict, module.get());
    return trace.world.read(dict, trace.guards.source(SourceKind::kInstanceDict, base));
  }
  const Source* source = trace.guards.source(SourceKind::kAttribute, base, name);
  if (!trace.world.log().is_unwritten(dict)) trace.world.dicts().note_owner(dict, module.get());
  if (const Write* write = trace.world.log().written(dict, name)) {
    if (write->value) return trace.world.wrap(write->value.get());
    return trace.refuse(BreakKind::kSideEffect, "a deleted module attribute is read");
  }
  if (PyObject* used = trace.world.effective(dict); used != dict) {
    if (PyObject* value = PyDict_GetItemWithError(used, name)) return trace.world.wrap(value);
    return trace.refuse(BreakKind::kSideEffect, "a module is changed through its dict");
  }
  if (PyObject* value = PyDict_GetItemWithError(dict, name)) return trace.world.read(value, source);
  if (PyErr_Occurred()) return {};
  if (PyTypeObject* type = Py_TYPE(module.get()); type != &PyModule_Type)
    if (PyObject* found = trace.world.type_lookup(type, name)) {
      // A switch of PyTorch's (torch.backends.mkldnn.enabled), which no guard covers.
      if (PyDescr_IsData(found) && is_torch_module_name(module_of(type)))
        return trace.refuse(BreakKind::kTorchState,
                            trace.guards.text_of(source) + " is computed when it is read");
      return generic_getattr(trace, module, name, nullptr,
                             false);  // of a class of the program's own
    }
  if (PyObject* fallback = PyDict_GetItemWithError(dict, names().getattr);
      fallback && PyFunction_Check(fallback) &&
      may_drive_code(reinterpret_cast<PyFunctionObject*>(fallback)->func_globals)) {
    trace.guards.add(GuardKind::kAbsent, source);
    Tracked function = trace.world.read(
        fallback, trace.guards.source(SourceKind::kAttribute, trace.guards.pinned(module.get()),
                                      names().getattr));
    Tracked args[1] = {Tracked::borrow(name)};
    return function ? call(trace, function, args, 1, nullptr) : Tracked();
  }
  NativeScope scope(trace, true, nullptr);  // lazy modules of libraries: __getattr__ runs natively
  ++trace.importing;
  Ref value = Ref::steal(PyObject_GetAttr(module.get(), name));
  --trace.importing;
  if (!value) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
      Ref error = take_exception();
      trace.guards.add(GuardKind::kAbsent, source);
      restore_exception(std::move(error));
    }
    return {};
  }
  if (PyDict_GetItemWithError(dict, name) == value.get())
    return trace.world.read(value.get(), source);
  if (is_immutable(value.get()) && !is_atom(value.get())) {
    trace.world.set_origin(value.get(), trace.guards.pinned(value.get()));
    trace.world.hold(value);
    return trace.world.wrap(value);
  }
  if (Py_TYPE(module.get()) != &PyModule_Type) return trace.world.read(value.get(), source);
  return result_of_native(trace, std::move(value));
}

static Tracked type_attribute_of(TraceContext& trace, const Tracked& object, PyObject* name,
                                 bool quiet) {
  auto* type = reinterpret_cast<PyTypeObject*>(object.get());
  PyTypeObject* meta = Py_TYPE(object.get());
  bool created = trace.world.made_function(object.get());
  if (name == names().dict && is_heap_type(type) && !created)
    return trace.refuse(BreakKind::kIntrospection, "the __dict__ of a class is read");
  const Source* source = nullptr;
  Ref meta_attribute = Ref::borrow(is_heap_type(meta) ? trace.world.type_lookup(meta, name)
                                                      : _PyType_Lookup(meta, name));
  bool meta_data = meta_attribute && PyDescr_IsData(meta_attribute.get());
  if (meta_data && Py_IS_TYPE(meta_attribute.get(), &PyProperty_Type)) {
    Ref getter = Ref::steal(PyObject_GetAttr(meta_attribute.get(), names().fget));
    Tracked args[1] = {object};
    return getter ? call(trace, trace.world.wrap(getter), args, 1, nullptr) : Tracked();
  }
  if (PyObject* found = meta_data ? nullptr : trace.world.type_lookup(type, name, &source)) {
    Ref held = Ref::borrow(found);
    if (PyFunction_Check(found)) return Tracked::borrow(found, trace.world.source_of(found));
    auto get = Py_TYPE(found)->tp_descr_get;
    if (!get) return source ? trace.world.read(found, source) : known_class_value(trace, held);
    Ref value = Ref::steal(get(found, nullptr, object.get()));
    if (!value) return {};
    if (PyMethod_Check(value.get()) || value.get() == found)
      return trace.world.wrap(std::move(value));
    if (source && Py_IS_TYPE(found, &PyStaticMethod_Type))
      return trace.world.read(value.get(),
                              trace.guards.source(SourceKind::kAttribute, source, names().func));
    return known_class_value(trace, std::move(value));
  }
  if (quiet && !meta_attribute) return {};
  NativeScope scope(trace, is_torch_module_name(module_of(type)), nullptr);
  // The fallback is not for native code to call.
  Ref value = Ref::steal(quiet ? PyType_Type.tp_getattro(object.get(), name)
                               : PyObject_GetAttr(object.get(), name));
  if (!value) return {};
  // __name__, __doc__, __bases__: a class statement's class can be given others.
  if (meta_data && !created && cpython::is_changeable_class(type) &&
      cpython::is_native_data_descriptor(meta_attribute.get()) &&
      (is_atom(value.get()) || PyTuple_CheckExact(value.get())))
    return trace.world.read(
        value.get(),
        trace.guards.source(SourceKind::kAttribute, trace.guards.pinned(object.get()), name));
  if (created || PyMethod_Check(value.get())) return trace.world.wrap(std::move(value));
  return known_class_value(trace, std::move(value));
}

Tracked known_class_value(TraceContext& trace, Ref value) {
  if (is_immutable(value.get())) {
    if (!is_atom(value.get()) && !trace.world.source_of(value.get())) {
      trace.world.set_origin(value.get(), trace.guards.pinned(value.get()));
      trace.world.hold(value);
    }
    return trace.world.wrap(std::move(value));
  }
  if (!trace.world.source_of(value.get()) && trace.world.is_outside(value.get())) {
    const Source* pinned = trace.guards.pinned(value.get());
    return trace.world.read(value.get(), pinned);
  }
  return trace.world.wrap(std::move(value));
}

PyObject* module_of(PyTypeObject* type) {
  PyObject* dict = type->tp_dict;
  PyObject* module = dict ? PyDict_GetItemWithError(dict, names().module) : nullptr;
  if (module && PyUnicode_Check(module)) return module;
  PyErr_Clear();
  static auto& memo = *new IdentityMap<PyObject*>;
  PyObject*& text = memo[type];
  if (!text) {
    const char* dot = strrchr(type->tp_name, '.');
    text = dot ? PyUnicode_FromStringAndSize(type->tp_name, dot - type->tp_name)
               : PyUnicode_InternFromString("builtins");
  }
  return text;
}

}  // namespace braze::capture
