// torch.nn.Module.__getattr__ in C++: the same reads with the same guards as its Python code.
#include "capture/evaluator.h"
#include "capture/known.h"
#include "cpython/watch.h"

namespace braze::capture {

// The dicts that nn.Module keeps its parts in; null where the Python code has to be evaluated.
ModuleParts* Evaluator::parts_of(const Slot& module) {
  PyObject* dict = instance_dict(module.get());
  if (!dict || world_.effective(dict) != dict) return nullptr;
  ModuleParts& parts = module_parts_[module.get()];
  const uint64_t version = cpython::dict_version(dict);
  if (parts.version == version && parts.write_count == world_.write_count()) return &parts;
  PyObject* const places[] = {names().parameters, names().buffers, names().modules};
  for (int i = 0; i < 3; ++i) {
    if (world_.written(module.get(), places[i])) return nullptr;
    parts.dicts[i] = PyDict_GetItemWithError(dict, places[i]);
    parts.sources[i] = nullptr;
    if (!parts.dicts[i] || !PyDict_CheckExact(parts.dicts[i])) return parts.version = 0, nullptr;
  }
  parts.version = version;
  parts.write_count = world_.write_count();
  return &parts;
}

bool Evaluator::module_getattr(const Slot& module, PyObject* name, Slot& result) {
  const Source* source = world_.source_of(module);
  if (!source) return false;
  ModuleParts* parts = parts_of(module);
  if (!parts) return false;
  PyObject* const places[] = {names().parameters, names().buffers, names().modules};
  for (int i = 0; i < 3; ++i) {
    PyObject* entries = parts->dicts[i];
    const Source*& read = parts->sources[i];
    if (!read) {
      Slot slot = world_.read(entries, world_.source(SourceKind::kAttribute, source, places[i]));
      if (!slot) return true;
      read = slot.source;
    }
    PyObject* used = world_.effective(entries);
    PyObject* value = PyDict_GetItemWithError(used, name);
    if (value) {
      result = used == entries ? world_.read(value, world_.source(SourceKind::kItem, read, name))
                               : world_.wrap(value);
      return true;
    }
    if (used == entries)
      world_.guard(GuardKind::kAbsent, world_.source(SourceKind::kItem, read, name));
  }
  return false;  // the AttributeError is left to the Python code
}

}  // namespace braze::capture
