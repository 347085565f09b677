// What a loss makes of those of its elements, by PyTorch's number.
#pragma once

#include <cstdint>

namespace braze::passes {

inline constexpr int64_t kEach = 0, kMean = 1, kSum = 2;

}  // namespace braze::passes
