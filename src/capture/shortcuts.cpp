// torch.nn.Module.__getattr__ in C++: the same reads with the same guards as its Python code.
#include "capture/evaluator.h"
#include "capture/known.h"

namespace braze::capture {

bool Evaluator::module_getattr(const Slot& module, PyObject* name, Slot& result) {
  const Source* source = world_.source_of(module);
  if (!source) return false;
  PyObject* dict = instance_dict(module.get());
  if (!dict || world_.effective(dict) != dict) return false;
  const PyObject* const places[] = {names().parameters, names().buffers, names().modules};
  for (const PyObject* place : places) {
    auto* key = const_cast<PyObject*>(place);
    if (world_.written(module.get(), key)) return false;
    PyObject* entries = PyDict_GetItemWithError(dict, key);
    if (!entries || !PyDict_CheckExact(entries)) return false;
  }
  for (const PyObject* place : places) {
    auto* key = const_cast<PyObject*>(place);
    PyObject* entries = PyDict_GetItemWithError(dict, key);
    Slot read = world_.read(entries, world_.source(SourceKind::kAttribute, source, key));
    if (!read) return true;
    PyObject* used = world_.effective(entries);
    PyObject* value = PyDict_GetItemWithError(used, name);
    if (value) {
      result = used == entries
                   ? world_.read(value, world_.source(SourceKind::kItem, read.source, name))
                   : world_.wrap(value);
      return true;
    }
    if (used == entries)
      world_.guard(GuardKind::kAbsent, world_.source(SourceKind::kItem, read.source, name));
  }
  return false;  // the AttributeError is left to the Python code
}

}  // namespace braze::capture
