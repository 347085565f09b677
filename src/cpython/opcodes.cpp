#include "cpython/opcodes.h"

#include <cstddef>
#include <iterator>

namespace braze::cpython {

const char* to_string(Opcode opcode) {
  static constexpr const char* kNames[] = {
#define X(name) #name,
      BRAZE_OPCODES(X)
#undef X
  };
  const auto index = static_cast<size_t>(opcode);
  return index < std::size(kNames) ? kNames[index] : "?";
}

}  // namespace braze::cpython
