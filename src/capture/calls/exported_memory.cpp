#include "capture/calls/exported_memory.h"

namespace braze::capture {

namespace {

constexpr int kAnyDepth = 100;

struct Search {
  World& world;
  int depth;
  IdentityMap<bool> seen;
  PyObject* found = nullptr;
};

// Those that hand out what they hold, to which they refer: views of dicts, iterators.
bool hands_out(PyObject* object) {
  return PySlice_Check(object) || PyDictViewSet_Check(object) || PyDictValues_Check(object) ||
         (PyIter_Check(object) && !is_python_class(Py_TYPE(object)) && !PyGen_Check(object));
}

int visit(PyObject* object, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  object = search.world.effective(object);
  if (is_atom(object) || is_tensor(object)) return 0;
  if (exports_memory(object)) {
    if (!search.world.is_outside(object)) return 0;
    search.found = object;
    return 1;
  }
  const bool container = is_container(object);
  if (!container && !hands_out(object)) return 0;
  // Iterating over a dict gives its keys; a view and an iterator stand for what they refer to.
  if (container && (search.depth == 0 || search.seen.contains(object))) return 0;
  if (!Py_TYPE(object)->tp_traverse) return 0;
  if (!PyTuple_CheckExact(object) && !PySlice_Check(object)) search.seen[object] = true;
  search.depth -= container ? 1 : 0;
  const int stop = Py_TYPE(object)->tp_traverse(object, visit, argument);
  search.depth += container ? 1 : 0;
  return stop;
}

PyObject* first_memory(World& world, PyObject* object, int depth) {
  Search search{.world = world, .depth = depth, .seen = {}};
  visit(object, &search);
  return search.found;
}

}  // namespace

PyObject* memory_within(World& world, PyObject* object) {
  return first_memory(world, object, kAnyDepth);
}

PyObject* memory_among_items(World& world, PyObject* object) {
  return PyDict_Check(object) ? nullptr : first_memory(world, object, 1);
}

bool refuse_memory(Breaks& breaks, PyObject* memory, const std::string& what) {
  return breaks.refuse(
      Py_TYPE(memory) == known().ndarray ? BreakKind::kNumpy : BreakKind::kNativeCall,
      what + " is given a '" + Py_TYPE(memory)->tp_name + "' object from outside");
}

}  // namespace braze::capture
