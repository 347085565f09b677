// flex_attention as CUDA C++: attention whose scores a function of the user's changes, and a mask
// of the user's hides, without the matrix of scores in memory; and its gradients.
//
// A block has rows of queries, halves, in shared memory and walks over tiles of keys and values,
// those that a BlockMask lists: scores are sums of products of halves in single precision, weights
// are exponentials of their distance to the largest one so far (Milakov and Gimelshein 2018; Dao
// 2023, FlashAttention-2), and the product of a tile's weights with its values is under way while
// the scores of the next one become weights (Shah et al. 2024, FlashAttention-3, section 3.2). The
// backward computes scores again, once by rows of queries and once by rows of keys, so that each
// sum has one order and needs no atomic operation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "loop/program.h"
#include "target/target.h"

namespace braze::codegen::cuda {

struct FlexAttention {
  graph::DType dtype = graph::DType::kFloat16;  // of all but sums: a half
  int64_t depth = 0, value_depth = 0;           // of a row of keys, of values
  int64_t queries = 0, keys = 0;
  std::array<int64_t, 2> block = {};  // queries and keys of a block of the mask; 0: there are none
  // Stores of `program`, by number; -1: none. They read the score as input 0, what comes for its
  // gradient as input 1, and tables behind these.
  int change = -1, gradient = -1, mask = -1;
};

// Why there is no code for it; empty: there is some.
std::string why_unsupported(const FlexAttention& attention, const target::Cuda& cuda);

struct FlexCode {
  std::string text;     // its first line names it
  int64_t rows = 0;     // of a block
  int64_t threads = 0;  // of a block
  int64_t shared_bytes = 0;
  std::vector<int> tables;  // inputs of the program that kernels take, in order
};

enum class FlexKernel : uint8_t { kForward, kQueryGradient, kKeyGradient };

// `program`: of loop::lower_elements over [batch, heads, queries, keys].
//   extern "C" __global__ void flex_forward(Forward, tables...)
//   extern "C" __global__ void flex_query_gradient(Backward, tables...), flex_key_gradient
// with the structs of runtime/cuda/flex_attention.h.
FlexCode generate_flex(FlexKernel kernel, const FlexAttention& attention, loop::Program& program,
                       const target::Cuda& cuda);

}  // namespace braze::codegen::cuda
