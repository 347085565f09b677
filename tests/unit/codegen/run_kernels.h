// Runs kernels through the generator, the host compiler and the interpreter, on equal random data.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "codegen/cpp/codegen.h"
#include "exhaustive.h"
#include "loop/program.h"
#include "loop/scalar.h"
#include "toolchain/toolchain.h"

namespace braze::codegen::cpp {

inline std::string number(int64_t n) { return std::to_string(n); }

using KernelFunction = int64_t (*)(void* const*, const int64_t*, int64_t, int64_t);

// The host's own; all that it runs in the exhaustive tier.
inline std::vector<Isa> tested_isas() {
  if (!exhaustive()) return {target::host_isa()};
  std::vector<Isa> result;
  for (Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512})
    if (isa <= target::host_isa()) result.push_back(isa);
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

// A kernel's parameters, one buffer of bytes for each.
using Buffers = std::vector<std::vector<char>>;

inline Buffers random_buffers(const loop::Kernel& kernel, const RunOptions& options) {
  std::mt19937 random(options.seed);
  Buffers buffers;
  for (const loop::BufferParam& param : kernel.params)
    buffers.push_back(random_values(param.dtype, options.elements, random, options.special));
  return buffers;
}

inline std::vector<void*> addresses(Buffers& buffers) {
  std::vector<void*> result;
  for (std::vector<char>& bytes : buffers) result.push_back(bytes.data());
  return result;
}

// Runs the machine code on a copy of `before` and compares every element with `want`.
inline void expect_result(const loop::Kernel& kernel, const KernelCode& code,
                          KernelFunction function, Isa isa, const RunOptions& options,
                          const Buffers& before, const Buffers& want) {
  Buffers got = before;
  const std::vector<void*> args = addresses(got);
  std::vector<int64_t> sizes;
  for (sym::Int size : code.sizes) sizes.push_back(sym::evaluate(size, options.symbols));
  const int64_t extent = sym::evaluate(code.extent, options.symbols);
  EXPECT_GE(sym::evaluate(code.grain, options.symbols), 1);
  const int64_t step = std::max<int64_t>(1, (extent + options.chunks - 1) / options.chunks);
  for (int64_t begin = 0; begin < extent; begin += step)
    ASSERT_EQ(function(args.data(), sizes.data(), begin, std::min(begin + step, extent)), 0);
  for (size_t p = 0; p < kernel.params.size(); ++p) {
    if (got[p] == want[p]) continue;
    const graph::DType dtype = kernel.params[p].dtype;
    for (int64_t i = 0; i < options.elements; ++i) {
      const loop::Scalar a = loop::load(dtype, got[p].data(), i);
      const loop::Scalar b = loop::load(dtype, want[p].data(), i);
      ASSERT_TRUE(close(dtype, a, b, options))
          << target::to_string(isa) << " b" << p << "[" << i
          << "]: " << (graph::is_float(dtype) ? a.f : a.i) << ", expected "
          << (graph::is_float(dtype) ? b.f : b.i) << "\n"
          << loop::to_string(kernel) << testing::PrintToString(options.symbols);
    }
  }
}

// All kernels in one translation unit for each tested instruction set. Symbols are s0, s1, ... with
// these hints; each kernel runs with each of the lists of values.
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
  const std::vector<Isa> isas = tested_isas();
  std::vector<GeneratedCode> generated;
  std::vector<std::shared_ptr<toolchain::Library>> libraries;
  for (Isa isa : isas) {
    generated.push_back(generate(kernels, {.isa = isa}));
    libraries.push_back(toolchain::build(generated.back().text, compiler_flags(isa)));
  }
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Buffers before = random_buffers(kernels[k], options);
    for (const std::vector<int64_t>& symbols : values) {
      RunOptions with_symbols = options;
      with_symbols.symbols = symbols;
      Buffers want = before;
      ASSERT_TRUE(loop::interpret(kernels[k], addresses(want), symbols))
          << loop::to_string(kernels[k]);
      for (size_t i = 0; i < isas.size(); ++i) {
        const KernelCode& code = generated[i].kernels[k];
        expect_result(kernels[k], code,
                      reinterpret_cast<KernelFunction>(libraries[i]->symbol(code.name)), isas[i],
                      with_symbols, before, want);
        if (testing::Test::HasFatalFailure()) {
          ADD_FAILURE() << "seed " << options.seed;
          return;
        }
      }
    }
  }
}

}  // namespace braze::codegen::cpp
