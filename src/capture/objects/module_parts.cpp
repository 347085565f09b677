#include "capture/objects/module_parts.h"

#include "capture/known.h"
#include "capture/trace_context.h"
#include "cpython/watch.h"

namespace braze::capture {

// The dicts that nn.Module keeps its parts in; null where the Python code has to be evaluated.
static ModuleParts* parts_of(TraceContext& trace, const Tracked& module) {
  PyObject* dict = instance_dict(module.get());
  if (!dict || trace.world.effective(dict) != dict) return nullptr;
  ModuleParts& parts = trace.caches.module_parts[module.get()];
  if (!trace.world.log().is_unwritten(dict)) trace.world.dicts().note_owner(dict, module.get());
  const uint64_t version = cpython::dict_version(dict);
  if (parts.version == version && parts.write_count == trace.world.write_count()) return &parts;
  PyObject* const places[] = {names().parameters, names().buffers, names().modules};
  for (int i = 0; i < 3; ++i) {
    if (trace.world.log().written(dict, places[i])) return nullptr;
    parts.dicts[i] = PyDict_GetItemWithError(dict, places[i]);
    parts.sources[i] = nullptr;
    if (!parts.dicts[i] || !PyDict_CheckExact(parts.dicts[i])) return parts.version = 0, nullptr;
  }
  parts.version = version;
  parts.write_count = trace.world.write_count();
  return &parts;
}

bool module_getattr(TraceContext& trace, const Tracked& module, PyObject* name, Tracked& result) {
  const Source* source = trace.world.source_of(module);
  if (!source) return false;
  ModuleParts* parts = parts_of(trace, module);
  if (!parts) return false;
  PyObject* const places[] = {names().parameters, names().buffers, names().modules};
  for (int i = 0; i < 3; ++i) {
    PyObject* entries = parts->dicts[i];
    const Source*& read = parts->sources[i];
    if (!read) {
      Tracked tracked =
          trace.world.read(entries, trace.guards.source(SourceKind::kAttribute, source, places[i]));
      if (!tracked) return true;
      read = tracked.source;
    }
    PyObject* used = trace.world.effective(entries);
    if (used == entries && !trace.world.log().is_unwritten(entries)) return false;
    PyObject* value = PyDict_GetItemWithError(used, name);
    if (value) {
      result = used == entries
                   ? trace.world.read(value, trace.guards.source(SourceKind::kItem, read, name))
                   : trace.world.wrap(value);
      return true;
    }
    if (used == entries)
      trace.guards.add(GuardKind::kAbsent, trace.guards.source(SourceKind::kItem, read, name));
  }
  return false;  // the AttributeError is left to the Python code
}

}  // namespace braze::capture
