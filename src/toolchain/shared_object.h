// Whether a shared library is whole, private to this folder.
#pragma once

#include <string>

namespace braze::toolchain {

// Why the file at `path` must not be opened by dlopen; empty: it is a library and all there. The
// loader maps what the headers promise: where the file ends earlier (a full disk, a compiler that
// was cut off), the process dies by SIGBUS at the first touch.
std::string damage_of(const std::string& path);

}  // namespace braze::toolchain
