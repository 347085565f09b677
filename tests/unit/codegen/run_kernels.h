// Runs kernels through the generator, the host compiler and the interpreter, on equal random data.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "codegen/cpp/codegen.h"
#include "loop/program.h"
#include "loop/scalar.h"
#include "toolchain/toolchain.h"

namespace braze::codegen::cpp {

using KernelFunction = int64_t (*)(void* const*, const int64_t*, int64_t, int64_t);

inline std::vector<Isa> host_isas() {
  std::vector<Isa> result;
  for (Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512})
    if (isa <= host_isa()) result.push_back(isa);
  return result;
}

// Random bytes of a dtype's values: small numbers, so that casts between dtypes are defined.
inline std::vector<char> random_values(graph::DType dtype, int64_t count, std::mt19937& random,
                                       bool special) {
  std::vector<char> bytes(count * graph::size_of(dtype));
  for (int64_t i = 0; i < count; ++i) {
    loop::Scalar value;
    if (graph::is_float(dtype)) {
      value.f = std::uniform_real_distribution<double>(-3, 3)(random);
      if (special && random() % 24 == 0) {
        const double choice[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e-40, 3e4, -1.0};
        value.f = choice[random() % 8];
      }
      value.f = loop::round_to(dtype, value.f);
    } else if (dtype == graph::DType::kBool) {
      value.i = random() % 2;
    } else {
      value.i = random() % 9 + 1;
      if (special && dtype != graph::DType::kUInt8) value.i -= 5;
    }
    loop::store(dtype, bytes.data(), i, value);
  }
  return bytes;
}

struct RunOptions {
  int64_t elements = 1 << 14;  // of each parameter
  double tolerance = 2e-6;     // relative, of f32; f64 gets 1e-12, halves 1%
  double magnitude = 1e-3;     // below it the tolerance is absolute: sums cancel
  bool special = false;        // NaN, infinities, zeros of both signs in the inputs
  unsigned seed = 1;
  int chunks = 3;                     // calls that the work is split into
  std::vector<int64_t> symbols = {};  // their values
};

inline bool close(graph::DType dtype, loop::Scalar a, loop::Scalar b, const RunOptions& options) {
  if (!graph::is_float(dtype)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && std::isnan(b.f);
  if (a.f == b.f) return true;
  double t = dtype == graph::DType::kFloat64   ? 1e-12
             : dtype == graph::DType::kFloat32 ? options.tolerance
             : dtype == graph::DType::kFloat16 ? 2e-3
                                               : 1e-2;
  return std::fabs(a.f - b.f) <= t * std::max({std::fabs(a.f), std::fabs(b.f), options.magnitude});
}

// Compares every element of every parameter after the run.
inline void compare_with_interpreter(const loop::Kernel& kernel, const KernelCode& code,
                                     KernelFunction function, Isa isa, const RunOptions& options) {
  std::mt19937 random(options.seed);
  std::vector<std::vector<char>> got;
  for (const auto& param : kernel.params)
    got.push_back(random_values(param.dtype, options.elements, random, options.special));
  auto want = got;
  std::vector<void*> got_args, want_args;
  for (auto& bytes : got) got_args.push_back(bytes.data());
  for (auto& bytes : want) want_args.push_back(bytes.data());
  ASSERT_TRUE(loop::interpret(kernel, want_args, options.symbols)) << loop::to_string(kernel);
  std::vector<int64_t> sizes;
  for (sym::Int size : code.sizes) sizes.push_back(sym::evaluate(size, options.symbols));
  const int64_t extent = sym::evaluate(code.extent, options.symbols);
  EXPECT_GE(sym::evaluate(code.grain, options.symbols), 1);
  const int64_t step = std::max<int64_t>(1, (extent + options.chunks - 1) / options.chunks);
  for (int64_t begin = 0; begin < extent; begin += step)
    ASSERT_EQ(function(got_args.data(), sizes.data(), begin, std::min(begin + step, extent)), 0);
  for (size_t p = 0; p < kernel.params.size(); ++p) {
    const graph::DType dtype = kernel.params[p].dtype;
    for (int64_t i = 0; i < options.elements; ++i) {
      const loop::Scalar a = loop::load(dtype, got[p].data(), i);
      const loop::Scalar b = loop::load(dtype, want[p].data(), i);
      ASSERT_TRUE(close(dtype, a, b, options))
          << to_string(isa) << " b" << p << "[" << i
          << "]: " << (graph::is_float(dtype) ? a.f : a.i) << ", expected "
          << (graph::is_float(dtype) ? b.f : b.i) << "\n"
          << loop::to_string(kernel) << testing::PrintToString(options.symbols);
    }
  }
}

// All kernels in one translation unit for each instruction set of the host. Symbols are s0, s1, ...
// with these hints; each kernel runs with each of the lists of values.
inline void check_kernels(const std::vector<std::string>& texts, const RunOptions& options = {},
                          const std::vector<int64_t>& hints = {},
                          const std::vector<std::vector<int64_t>>& values = {{}}) {
  sym::ExprArena arena;
  for (size_t i = 0; i < hints.size(); ++i)
    arena.symbol("s" + std::to_string(i), hints[i], {2, INT64_MAX});
  loop::ExprPool pool;
  std::vector<loop::Kernel> kernels;
  for (const std::string& text : texts) {
    kernels.push_back(loop::parse_kernel(text, pool, &arena));
    loop::verify(kernels.back());
  }
  for (Isa isa : host_isas()) {
    const Source source = generate(kernels, isa);
    const auto library = toolchain::build(source.text, compiler_flags(isa));
    for (size_t i = 0; i < kernels.size(); ++i) {
      const auto function =
          reinterpret_cast<KernelFunction>(library->symbol(source.kernels[i].name));
      for (const std::vector<int64_t>& symbols : values) {
        RunOptions with_symbols = options;
        with_symbols.symbols = symbols;
        compare_with_interpreter(kernels[i], source.kernels[i], function, isa, with_symbols);
      }
      if (testing::Test::HasFatalFailure()) {
        ADD_FAILURE() << "seed " << options.seed;
        return;
      }
    }
  }
}

}  // namespace braze::codegen::cpp
