// Work that is done side by side, private to this folder.
#pragma once

#include <cstddef>
#include <functional>

namespace braze::toolchain {

// work(0) ... work(count - 1), on as many threads as the machine has. All are tried; then the first
// failure in order is thrown.
void side_by_side(size_t count, const std::function<void(size_t)>& work);

}  // namespace braze::toolchain
