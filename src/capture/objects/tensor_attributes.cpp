#include "capture/objects/tensor_attributes.h"

#include "capture/calls/calls.h"
#include "capture/calls/elements.h"
#include "capture/calls/native_scope.h"
#include "capture/calls/torch_failures.h"
#include "capture/known.h"
#include "capture/objects/attribute_writes.h"
#include "capture/objects/attributes.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {

Tracked tensor_attribute_of(TraceContext& trace, const Tracked& tensor, PyObject* name,
                            Tracked* self) {
  PyObject* obj = tensor.get();
  PyTypeObject* type = Py_TYPE(obj);
  const char* text = cpython::utf8_of(name);
  PyObject* descriptor = trace.world.type_lookup(type, name);
  if (descriptor && PyType_HasFeature(Py_TYPE(descriptor), Py_TPFLAGS_METHOD_DESCRIPTOR)) {
    if (self) {
      *self = tensor;
      return Tracked::borrow(descriptor);
    }
    return Tracked::steal(PyObject_GetAttr(obj, name));
  }
  switch (tensor_attribute(text)) {
    case TensorAttribute::kBreak:
      return trace.refuse(BreakKind::kTensorInternals, std::string("Tensor.") + text + " is read");
    case TensorAttribute::kMetadata:
    case TensorAttribute::kTensor: {
      if (std::string_view(text) == "is_leaf" && requires_grad(obj))
        return trace.refuse(BreakKind::kTensorInternals, "Tensor.is_leaf is read");
      if (!may_show_sizes(trace, obj, text)) return {};
      if (name == names().shape)
        if (Ref shape = trace.recording.shape_of(obj)) return Tracked(std::move(shape));
      NativeScope scope(trace, true, descriptor);
      Ref value = Ref::steal(PyObject_GetAttr(obj, name));
      if (!value) return torch_failed(trace);
      return trace.world.wrap(std::move(value));
    }
    case TensorAttribute::kData: {
      static PyObject* detach = PyUnicode_InternFromString("detach");
      Tracked method = getattr(trace, tensor, detach);
      if (!method) return {};
      const OriginTracker::Data data(trace.origins);
      Tracked made = call(trace, method, nullptr, 0, nullptr);
      if (made) trace.recording.count_apart(made.get());
      return made;
    }
    case TensorAttribute::kGradient:
      // Of a tensor from outside it is an attribute like others.
      if (!trace.world.source_of(tensor)) {
        if (!requires_grad(obj) || is_leaf(obj))
          return trace.world.wrap(Ref::steal(PyObject_GetAttr(obj, name)));
        return trace.refuse(BreakKind::kTensorInternals,
                            "Tensor.grad is read of what the traced code computes");
      }
      if (PyObject* real = trace.world.real_of(obj); requires_grad(real)) {
        // Eager warns of others.
        for (const char* has_one : {"is_leaf", "retains_grad"}) {
          const Ref answer = Ref::steal(PyObject_GetAttrString(real, has_one));
          if (!answer) return {};
          if (answer.get() == Py_True) break;
          if (std::string_view(has_one) == "retains_grad")
            return trace.refuse(BreakKind::kTensorInternals,
                                "Tensor.grad is read of what has a history");
        }
      }
      return generic_getattr(
          trace, Tracked::borrow(trace.world.real_of(obj), trace.world.source_of(tensor)), name,
          self, false);
    case TensorAttribute::kOther:
      break;
  }
  if (descriptor && PyDescr_IsData(descriptor))
    return trace.refuse(BreakKind::kTensorInternals, std::string("Tensor.") + text + " is read");
  if (trace.world.source_of(tensor)) return generic_getattr(trace, tensor, name, self, false);
  NativeScope scope(trace, true, nullptr);
  Ref value = Ref::steal(PyObject_GetAttr(obj, name));
  return value ? trace.world.wrap(std::move(value)) : Tracked();
}

// What eager would refuse is left to it.
static bool set_gradient(TraceContext& trace, const Tracked& tensor, const Tracked& value) {
  const bool is_none = value.get() == Py_None;
  const bool fits = is_none || (is_fake(value.get()) && may_be_gradient(tensor.get(), value.get()));
  if (!fits || value.get() == tensor.get())
    return trace.breaks.refuse(BreakKind::kTensorInternals, "Tensor.grad is set");
  const Source* source = trace.world.source_of(tensor);
  if (!source) return PyObject_SetAttr(tensor.get(), names().grad, value.get()) == 0;
  const Source* gradient = trace.guards.source(SourceKind::kAttribute, source, names().grad);
  if (is_none && trace.origins.recorded_nodes() == 0 && !trace.guards.is_guarded(gradient))
    trace.gradients_dropped_early[tensor.get()] = true;
  return trace.world.write_attribute(tensor.get(), names().grad, value.get(), true);
}

static bool is_plain_tensor(PyObject* object) {
  return Py_TYPE(object) == known().tensor || Py_TYPE(object) == known().parameter;
}

bool change_requires_grad(TraceContext& trace, const Tracked& tensor, bool value) {
  PyObject* obj = tensor.get();
  if (requires_grad(obj) == value) return true;
  if (!is_plain_tensor(obj) || is_fake(obj) || !trace.world.source_of(tensor) ||
      trace.torch_calls || !may_require_grad(obj))
    return false;
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  if (!trace.world.write_attribute(obj, name, value ? Py_True : Py_False, true)) return false;
  trace.recording.set_requires_grad(obj, value);
  return true;
}

bool detach_in_place(TraceContext& trace, const Tracked& tensor) {
  PyObject* obj = tensor.get();
  if (!is_plain_tensor(obj) || trace.torch_calls || is_view(obj)) return false;
  if (trace.world.source_of(tensor))
    return is_leaf(obj) && change_requires_grad(trace, tensor, false);
  if (!is_fake(obj)) return false;
  std::string why;
  const NativeScope scope(trace, true, nullptr);
  trace.recording.detach_in_place(obj, &why);
  return why.empty();
}

bool set_tensor_attribute(TraceContext& trace, const Tracked& tensor, PyObject* name,
                          const Tracked& value) {
  PyObject* obj = tensor.get();
  PyTypeObject* type = Py_TYPE(obj);
  const bool plain = type == known().tensor || type == known().parameter;
  const bool own = plain && PyUnicode_Check(name) && PyUnicode_GET_LENGTH(name) > 0 &&
                   PyUnicode_READ_CHAR(name, 0) != '_' && !_PyType_Lookup(type, name);
  const bool stands_for_another = trace.world.real_of(obj) != obj;
  if (plain && !stands_for_another && name == names().grad)
    return set_gradient(trace, tensor, value ? value : Tracked::borrow(Py_None));
  if (plain && value && PyBool_Check(value.get()) &&
      PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0 &&
      (change_requires_grad(trace, tensor, value.get() == Py_True) || PyErr_Occurred()))
    return !PyErr_Occurred();
  if (!own || stands_for_another)
    return trace.breaks.refuse(BreakKind::kTensorInternals,
                               std::string("Tensor.") + cpython::utf8_of(name) + " is set");
  if (trace.world.source_of(tensor)) return generic_setattr(trace, tensor, name, value);
  return (value ? PyObject_SetAttr(obj, name, value.get()) : PyObject_DelAttr(obj, name)) == 0;
}

}  // namespace braze::capture
