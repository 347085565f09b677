#include "capture/calls/autocast.h"

#include <string_view>
#include <vector>

#include "capture/calls/torch.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/trace_context.h"
#include "cpython/lookup.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

constexpr const char* kSettings[] = {"device", "fast_dtype", "_enabled", "_cache_enabled"};
constexpr const char* kNotes[] = {"prev", "prev_fastdtype", "prev_cache_enabled"};

// Called by guards: what the thread's dtype is for the device, and whether casts are kept.
PyObject* dtype_switch(bool cuda) {
  static PyObject* const torch = PyImport_ImportModule("torch");
  static PyObject* const get = PyObject_GetAttrString(torch, "get_autocast_dtype");
  static auto* const partial = reinterpret_cast<PyObject*>(known().partial);
  static PyObject* const of_cpu = PyObject_CallFunction(partial, "Os", get, "cpu");
  static PyObject* const of_cuda = PyObject_CallFunction(partial, "Os", get, "cuda");
  return cuda ? of_cuda : of_cpu;
}

PyObject* cache_switch() {
  static PyObject* const torch = PyImport_ImportModule("torch");
  static PyObject* const get = PyObject_GetAttrString(torch, "is_autocast_cache_enabled");
  return get;
}

Ref copy_of_context(PyObject* context) {
  Ref copy =
      Ref::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__new__",
                                     "O", reinterpret_cast<PyObject*>(Py_TYPE(context))));
  const Ref from = cpython::instance_dict(context);
  const Ref to = copy ? Ref::steal(PyObject_GenericGetDict(copy.get(), nullptr)) : Ref();
  if (!from || !to || PyDict_Update(to.get(), from.get()) < 0) return {};
  return copy;
}

}  // namespace

// Guards what the context sets, and what of the thread's state its notes show that no other guard
// covers.
static bool read_context(TraceContext& trace, const Tracked& context) {
  const Source* source = trace.world.source_of(context);
  if (!source || !is_torch_module_name(module_of(Py_TYPE(context.get())))) return false;
  PyObject* dict = cpython::existing_dict(context.get());
  if (dict && (!trace.world.log().is_unwritten(dict) || trace.world.effective(dict) != dict))
    return false;
  std::vector<std::pair<Ref, const Source*>> settings;
  for (const char* setting : kSettings) {
    const Ref name = Ref::steal(PyUnicode_InternFromString(setting));
    Ref value = cpython::stored_attribute(context.get(), name.get());
    if (!value || !is_atom(value.get())) return false;
    settings.emplace_back(std::move(value),
                          trace.guards.source(SourceKind::kAttribute, source, name.get()));
  }
  PyObject* device = settings[0].first.get();
  const std::string_view type = PyUnicode_Check(device) ? cpython::utf8_of(device) : "";
  if (type != "cpu" && type != "cuda") return false;  // whether it is on for others has no guard
  for (const auto& [value, from] : settings)
    if (!trace.world.read(value.get(), from, false)) return false;
  PyObject* dtype = dtype_switch(type == "cuda");
  trace.guards.add(GuardKind::kValue, trace.guards.source(SourceKind::kNative, nullptr, dtype),
                   trace.recording.autocast_dtype_before(type == "cuda"));
  trace.guards.add(GuardKind::kValue,
                   trace.guards.source(SourceKind::kNative, nullptr, cache_switch()),
                   trace.recording.autocast_cache_before() ? Py_True : Py_False);
  return true;
}

static bool write_notes(TraceContext& trace, PyObject* context, PyObject* copy, bool outermost) {
  for (const char* note : kNotes) {
    const Ref name = Ref::steal(PyUnicode_InternFromString(note));
    Ref value = cpython::stored_attribute(copy, name.get());
    // A trace keeps no casts.
    if (outermost && note == kNotes[2])
      value = Ref::borrow(trace.recording.autocast_cache_before() ? Py_True : Py_False);
    if (value && !trace.world.write_attribute(context, name.get(), value.get())) return false;
  }
  return true;
}

Tracked call_of_autocast(TraceContext& trace, const Tracked& callable, const char* module,
                         const char* name, Tracked* args, size_t count, PyObject* kwnames,
                         bool& done) {
  const std::string_view text = name, place = module;
  const bool enters = text == "__enter__" && count == 1;
  if ((!enters && text != "__exit__") || count == 0) return {};
  if (!place.starts_with("torch.") || !place.ends_with("amp.autocast_mode")) return {};
  const Tracked context = args[0];
  if (!trace.world.is_outside(context.get())) return {};
  Ref copy;
  for (const auto& [entered, made] : trace.entered_contexts)
    if (entered == context.get()) copy = made;
  if (enters && !copy) {
    if (!read_context(trace, context)) return {};
    copy = copy_of_context(context.get());
    if (!copy) return {};
    trace.world.mark_created(copy.get());
    trace.entered_contexts.emplace_back(context.get(), copy);
  }
  if (!copy) return {};
  done = true;
  const bool outermost = !trace.recording.is_within_autocast();
  std::vector<Tracked> all(args, args + count);
  all[0] = Tracked(copy);
  Tracked result = call_torch(trace, callable, module, name, all.data(), count, kwnames);
  if (!result || !enters) return result;
  if (!write_notes(trace, context.get(), copy.get(), outermost)) return {};
  return result.get() == copy.get() ? context : result;
}

}  // namespace braze::capture
