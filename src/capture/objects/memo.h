// What the evaluator remembers within one trace.
#pragma once

#include "capture/frames/frame.h"

namespace braze::capture {

// A global as it was read.
struct KnownGlobal {
  PyObject* name = nullptr;
  uint64_t version = 0, builtins = 0;  // of the dicts
  Slot value;
};

// How attributes of the objects of a type are read.
struct AttributeTraits {
  unsigned version = 0;  // of the type
  bool heap = false, symbol = false, tensor = false, traceback = false, frame = false,
       exception = false, module = false, type = false, native = false;
  PyObject* getattribute = nullptr;  // a function
};

// Of a module: `_parameters`, `_buffers` and `_modules`, which its __getattr__ looks
// into, as they are while the instance dict and the log of writes stay the same.
struct ModuleParts {
  uint64_t version = 0;  // of the instance dict; none
  size_t write_count = 0;
  PyObject* dicts[3] = {};
  const Source* sources[3] = {};  // null: not read yet
};

// What the origin of a node is made of.
struct OriginKey {
  const CodeInfo* code;
  int at;  // the instruction
  const Source* module;
  const void* callee;
  friend bool operator==(const OriginKey&, const OriginKey&) = default;
};
struct OriginHash {
  size_t operator()(const OriginKey& key) const {
    size_t hash = reinterpret_cast<size_t>(key.code) >> 4;
    hash = hash * 1000003u ^ reinterpret_cast<size_t>(key.module) >> 4;
    hash = hash * 1000003u ^ reinterpret_cast<size_t>(key.callee) >> 4;
    return hash * 1000003u ^ static_cast<size_t>(key.at);
  }
};

}  // namespace braze::capture
