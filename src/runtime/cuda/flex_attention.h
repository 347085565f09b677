// Launches the kernels of flex_attention (codegen/cuda/flex_attention.h) on a GPU.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "toolchain/nvrtc_library.h"

namespace braze::runtime::cuda {

// As in the kernels' source, field by field.
struct FlexRows {
  int64_t batch = 0, head = 0, row = 0;  // strides, in elements
};
struct FlexBlocks {
  const int32_t *partial_counts = nullptr, *partial = nullptr;
  const int32_t *whole_counts = nullptr, *whole = nullptr;
  int64_t batch_rows = 0, head_rows = 0, columns = 0;
};
struct FlexForward {
  const void *query, *key, *value;
  void* out;
  float* sums;
  FlexRows query_rows, key_rows, value_rows, out_rows;
  FlexBlocks blocks;
  int32_t heads, group, queries, keys;
  float scale;
};
struct FlexBackward {
  const void *query, *key, *value, *tangent;
  const float *sums, *offsets;
  void *query_gradient, *key_gradient, *value_gradient;
  FlexRows query_rows, key_rows, value_rows, tangent_rows;
  FlexRows query_out_rows, key_out_rows, value_out_rows;
  FlexBlocks blocks;
  int32_t heads, group, queries, keys;
  float scale;
};

// To machine code, of a device: each is a program of its own.
toolchain::CudaSource flex_program(std::string_view source, int device);

struct FlexLaunch {
  std::string_view source;  // its first line names it
  int device = 0;
  int64_t rows = 0, threads = 0, shared_bytes = 0;  // of a block
  int64_t batch = 0;
  std::vector<const void*> tables;
};

// Each puts its kernel on the stream, compiled at the first call of its source. InternalError with
// the compiler's or the driver's words.
void flex_forward(const FlexLaunch& launch, FlexForward arguments, void* stream);
void flex_query_gradient(const FlexLaunch& launch, FlexBackward arguments, void* stream);
void flex_key_gradient(const FlexLaunch& launch, FlexBackward arguments, void* stream);

}  // namespace braze::runtime::cuda
