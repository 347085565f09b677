// The identity of this compiler, part of every cache key.
#pragma once

#include <string_view>

namespace braze::compile {

// A hash of the contents of the compiler's sources, made when it was built.
std::string_view compiler_version();

}  // namespace braze::compile
