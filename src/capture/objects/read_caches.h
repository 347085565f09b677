// What has been read within one trace, so that the same reads are not made again.
#pragma once

#include <cstdint>
#include <vector>

#include "base/identity_map.h"
#include "capture/world/tracked.h"

namespace braze::capture {

// A global as it was read.
struct KnownGlobal {
  PyObject* name = nullptr;
  uint64_t version = 0, builtins = 0;  // of the dicts
  Tracked value;
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

struct ReadCaches {
  static constexpr size_t kGlobals = 512;
  std::vector<KnownGlobal> globals = std::vector<KnownGlobal>(kGlobals);
  IdentityMap<AttributeTraits> traits;    // by type
  IdentityMap<ModuleParts> module_parts;  // by module from outside
  // Native iterators: the state of the world in which their contents were last read.
  IdentityMap<size_t> advanced;
};

}  // namespace braze::capture
