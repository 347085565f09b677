#include "guard_module.h"

#include <exception>
#include <unordered_map>

#include "guard/guard.h"

namespace braze::guard::testing {

using cpython::Ref;

namespace {

// A GuardSet in the making, and then the set.
struct Builder {
  std::shared_ptr<SourceArena> arena = std::make_shared<SourceArena>();
  std::vector<const Source*> sources;
  Guards guards;
  std::vector<const Source*> inputs;
  std::unique_ptr<GuardSet> set;
  size_t input_count = 0;
};

constexpr const char* kSourceNames[] = {
#define X(id, text) #id,
    BRAZE_SOURCES(X)
#undef X
};
constexpr const char* kGuardNames[] = {
#define X(id, text) #id,
    BRAZE_GUARDS(X)
#undef X
};

template <size_t N>
int find(const char* const (&names)[N], const char* name) {
  for (size_t i = 0; i < N; ++i)
    if (std::string_view(names[i]) == name) return static_cast<int>(i);
  PyErr_Format(PyExc_KeyError, "%s", name);
  return -1;
}

Builder* builder_of(PyObject* capsule) {
  return static_cast<Builder*>(PyCapsule_GetPointer(capsule, "guards"));
}

void destroy(PyObject* capsule) { delete builder_of(capsule); }

PyObject* create(PyObject*, PyObject*) { return PyCapsule_New(new Builder, "guards", destroy); }

const Source* source_at(Builder* builder, int id) {
  return id < 0 ? nullptr : builder->sources.at(id);
}

// source(builder, kind, base id or -1, key or None) -> id
PyObject* source(PyObject*, PyObject* args) {
  PyObject *capsule, *key;
  const char* kind_name;
  int base;
  if (!PyArg_ParseTuple(args, "OsiO", &capsule, &kind_name, &base, &key)) return nullptr;
  Builder* builder = builder_of(capsule);
  const int kind = find(kSourceNames, kind_name);
  if (kind < 0) return nullptr;
  const Source* made = builder->arena->get(static_cast<SourceKind>(kind), source_at(builder, base),
                                           key == Py_None ? nullptr : key);
  if (made->id == static_cast<int>(builder->sources.size())) builder->sources.push_back(made);
  return PyLong_FromLong(made->id);
}

// guard(builder, kind, source, expected, other or -1)
PyObject* guard(PyObject*, PyObject* args) {
  PyObject *capsule, *expected;
  const char* kind_name;
  int source_id, other;
  if (!PyArg_ParseTuple(args, "OsiOi", &capsule, &kind_name, &source_id, &expected, &other))
    return nullptr;
  Builder* builder = builder_of(capsule);
  const int kind = find(kGuardNames, kind_name);
  if (kind < 0) return nullptr;
  builder->guards.push_back({static_cast<GuardKind>(kind), source_at(builder, source_id),
                             Ref::borrow(expected), source_at(builder, other), nullptr});
  Py_RETURN_NONE;
}

// guard_memories(builder, [source ids], [memory of each], number of written memories)
PyObject* guard_memories(PyObject*, PyObject* args) {
  PyObject *capsule, *ids, *memories;
  Py_ssize_t written;
  if (!PyArg_ParseTuple(args, "OO!O!n", &capsule, &PyList_Type, &ids, &PyList_Type, &memories,
                        &written))
    return nullptr;
  Builder* builder = builder_of(capsule);
  auto details = std::make_unique<GuardDetails>();
  details->written = static_cast<size_t>(written);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(ids); ++i) {
    details->group.push_back(
        source_at(builder, static_cast<int>(PyLong_AsLong(PyList_GET_ITEM(ids, i)))));
    details->memories.push_back(static_cast<int>(PyLong_AsLong(PyList_GET_ITEM(memories, i))));
  }
  const Source* first = details->group.front();
  builder->guards.push_back({.kind = GuardKind::kDisjointMemory,
                             .source = first,
                             .expected = Ref(),
                             .details = std::move(details)});
  Py_RETURN_NONE;
}

// build(builder, function, [source ids of the inputs])
PyObject* build(PyObject*, PyObject* args) {
  PyObject *capsule, *function, *inputs;
  if (!PyArg_ParseTuple(args, "OOO!", &capsule, &function, &PyList_Type, &inputs)) return nullptr;
  Builder* builder = builder_of(capsule);
  std::vector<const Source*> sources;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(inputs); ++i)
    sources.push_back(
        source_at(builder, static_cast<int>(PyLong_AsLong(PyList_GET_ITEM(inputs, i)))));
  builder->input_count = sources.size();
  try {
    builder->set = std::make_unique<GuardSet>(builder->arena, std::move(builder->guards),
                                              std::move(sources), function, GlobalState::current());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
  Py_RETURN_NONE;
}

// check(builder, args tuple) -> bool
PyObject* check(PyObject*, PyObject* args) {
  PyObject *capsule, *call;
  if (!PyArg_ParseTuple(args, "OO!", &capsule, &PyTuple_Type, &call)) return nullptr;
  Builder* builder = builder_of(capsule);
  std::vector<c10::TensorImpl*> inputs(builder->input_count);
  const bool holds = builder->set->check(&PyTuple_GET_ITEM(call, 0), inputs.data());
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (holds)
    for (c10::TensorImpl* input : inputs)
      if (input == nullptr) Py_RETURN_NONE;
  return PyBool_FromLong(holds);
}

// why_not(builder, args tuple, names)
PyObject* why_not(PyObject*, PyObject* args) {
  PyObject *capsule, *call, *names;
  if (!PyArg_ParseTuple(args, "OO!O", &capsule, &PyTuple_Type, &call, &names)) return nullptr;
  const std::string text = builder_of(capsule)->set->why_not(&PyTuple_GET_ITEM(call, 0), names);
  return PyErr_Occurred() != nullptr ? nullptr : PyUnicode_FromString(text.c_str());
}

PyObject* describe(PyObject*, PyObject* args) {
  PyObject *capsule, *names;
  if (!PyArg_ParseTuple(args, "OO", &capsule, &names)) return nullptr;
  PyObject* list = PyList_New(0);
  for (const std::string& line : builder_of(capsule)->set->describe(names)) {
    const Ref text = Ref::steal(PyUnicode_FromString(line.c_str()));
    PyList_Append(list, text.get());
  }
  return list;
}

PyMethodDef kMethods[] = {{"create", create, METH_NOARGS, nullptr},
                          {"source", source, METH_VARARGS, nullptr},
                          {"guard", guard, METH_VARARGS, nullptr},
                          {"guard_memories", guard_memories, METH_VARARGS, nullptr},
                          {"build", build, METH_VARARGS, nullptr},
                          {"check", check, METH_VARARGS, nullptr},
                          {"why_not", why_not, METH_VARARGS, nullptr},
                          {"describe", describe, METH_VARARGS, nullptr},
                          {nullptr, nullptr, 0, nullptr}};
PyModuleDef kModule = {
    PyModuleDef_HEAD_INIT, "guard_sets", nullptr, -1, kMethods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyObject* make_module() { return PyModule_Create(&kModule); }

// A capture by hand: reads are written as paths, each adds the guards that a real one would.
const char* const kPrelude = R"(
import collections, enum, gc, types, weakref
import guard_sets as gs, torch
from torch import nn

class Path:
    '''A source and what it resolved to.'''
    def __init__(self, capture, id, value):
        self.capture, self.id, self.value = capture, id, value
    def _child(self, kind, key, value):
        return Path(self.capture, gs.source(self.capture.raw, kind, self.id, key), value)
    def attr(self, name): return self._child('Attribute', name, getattr(self.value, name))
    def absent(self, name):
        self._child('Attribute', name, None).guard('Absent')
        return self
    def item(self, key): return self._child('Item', key, self.value[key])
    def lacks(self, key):
        self._child('Item', key, None).guard('Absent')
        return self
    def type(self): return self._child('Type', None, type(self.value))
    def dict(self): return self._child('InstanceDict', None, self.value.__dict__)
    def on_type(self, name):
        for cls in self.value.__mro__:
            if name in cls.__dict__: return self._child('TypeAttribute', name, cls.__dict__[name])
        return self._child('TypeAttribute', name, None)
    def glob(self, name): return self._child('Global', name, self.value.__globals__[name])
    def no_glob(self, name):
        self._child('Global', name, None).guard('Absent')
        return self
    def builtin(self, name): return self._child('Builtin', name, getattr(__builtins__, name, None) or __builtins__[name])
    def cell(self, i): return self._child('Cell', i, self.value.__closure__[i].cell_contents)
    def default(self, i): return self._child('Default', i, self.value.__defaults__[i])
    def kwdefault(self, name): return self._child('KwDefault', name, self.value.__kwdefaults__[name])
    def code(self): return self._child('Code', None, self.value.__code__)
    def guard(self, kind, expected=None, other=None):
        gs.guard(self.capture.raw, kind, self.id, expected, -1 if other is None else other.id)
        return self
    def same(self): return self.guard('Value', self.value)
    def is_(self): return self.guard('Identity', self.value)
    def of_type(self): return self.guard('Type', type(self.value))
    def length(self): return self.guard('Length', len(self.value))
    def tensor(self):
        self.capture.inputs.append(self.id)
        return self.guard('Tensor', self.value)

class Capture:
    def __init__(self, function, *args):
        self.raw, self.function, self.args, self.inputs = gs.create(), function, args, []
    def arg(self, i): return Path(self, gs.source(self.raw, 'Argument', -1, i), self.args[i])
    def fn(self): return Path(self, gs.source(self.raw, 'Function', -1, None), self.function)
    def pinned(self, o): return Path(self, gs.source(self.raw, 'Pinned', -1, o), o)
    def native(self, f): return Path(self, gs.source(self.raw, 'Native', -1, f), f())
    def memories(self, tensors, memories, written):
        gs.guard_memories(self.raw, [t.id for t in tensors], memories, written)
        return self
    def build(self):
        gs.build(self.raw, self.function, self.inputs)
        self.args = None
        return self
    def check(self, *args): return gs.check(self.raw, args)
    def why(self, *args):
        code = self.function.__code__
        return gs.why_not(self.raw, args, code.co_varnames[:code.co_argcount])
    def describe(self):
        code = self.function.__code__
        return gs.describe(self.raw, code.co_varnames[:code.co_argcount])
    def module(self, path):
        '''What the evaluation of a module's call reads.'''
        m = path.value
        path.of_type()
        for name in ('forward', '__call__', '__getattr__'):
            path.absent(name) if name != '__getattr__' else None
            found = path.type().on_type(name)
            found.is_()
            if isinstance(found.value, types.FunctionType): found.code().is_()
        path.attr('training').same()
        for hooks in ('_forward_hooks', '_forward_pre_hooks', '_backward_hooks', '_backward_pre_hooks'):
            path.attr(hooks).of_type().length()
        for name in ('_parameters', '_buffers', '_modules'):
            entries = path.attr(name).of_type()
            for key, value in entries.value.items():
                child = entries.item(key)
                if value is None: child.same()
                elif isinstance(value, torch.Tensor): child.tensor()
                else: self.module(child)
        return path
)";

}  // namespace braze::guard::testing
