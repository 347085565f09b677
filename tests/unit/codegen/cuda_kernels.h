// Kernels that tests of CUDA C++ share.
#pragma once

#include <functional>
#include <string>

#include "codegen/cuda_emulator.h"

namespace braze::codegen::cuda {

inline std::string number(int64_t n) { return std::to_string(n); }

// One multiprocessor is busy with little: elements are taken in packs.
inline target::Cuda small_gpu() {
  target::Cuda gpu = tested_gpu();
  gpu.processors = 1;
  return gpu;
}

inline std::string relu(const std::string& type, const std::string& extent) {
  const bool half = type.ends_with("f16");
  const std::string x = half ? "f32(load(b0, o0))" : "load(b0, o0)";
  const std::string y = "mul(max(add(" + x + ", 1:f32), 0:f32), 2:f32)";
  return "kernel relu(b0: " + type + " in, b1: " + type + " out) outer(o0 < " + extent +
         ") {\n store(b1, o0, " + (half ? type + "(" + y + ")" : y) + ")\n}";
}

inline std::string softmax(int64_t rows, int64_t columns) {
  const std::string x = "load(b0, o0*" + number(columns) + " + i0)";
  return "kernel softmax(b0: f32 in, b1: f32 out) outer(o0 < " + number(rows) + ") inner(i0 < " +
         number(columns) + ") {\n r0 = max(" + x + ") inner\n t0 = exp(sub(" + x +
         ", r0))\n r1 = sum(t0) inner\n store(b1, o0*" + number(columns) +
         " + i0, div(t0, r1)) inner\n}";
}

inline std::string layer_norm(const std::string& type, int64_t rows, int64_t columns) {
  const bool half = type.ends_with("f16");
  const auto widened = [&](const std::string& load) { return half ? "f32(" + load + ")" : load; };
  const std::string c = number(columns);
  const std::string x = widened("load(b0, o0*" + c + " + i0)");
  const std::string y = "add(mul(mul(sub(" + x +
                        ", r0.0), rsqrt(add(div(r0.1, r0.2), 1e-05:f32)))"
                        ", " +
                        widened("load(b1, i0)") + "), " + widened("load(b2, i0)") + ")";
  return "kernel layer_norm(b0: " + type + " in, b1: " + type + " in, b2: " + type +
         " in, b3: " + type + " out) outer(o0 < " + number(rows) + ") inner(i0 < " + c +
         ") {\n r0 = welford(" + x + ") inner\n store(b3, o0*" + c + " + i0, " +
         (half ? type + "(" + y + ")" : y) + ") inner\n}";
}

inline std::string text_of(const std::string& kernel, const target::Cuda& gpu = tested_gpu()) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<KernelCode> code = generate(parse_kernels({kernel}, pool, arena), gpu);
  return code[0].text.substr(prelude().size());
}

// Runs the code of a launch, whose parameters are those of `all`, against `interpret(buffers)`;
// `settle` is done to the buffers of both before they are compared.
template <class Interpret>
void check_launch(const loop::Kernel& all, const KernelCode& code, Interpret interpret,
                  int64_t elements = RunOptions().elements,
                  const std::function<void(Buffers&)>& settle = {}) {
  const auto library =
      toolchain::build(kMachine + portable_prelude() + emulated_kernel(all, code, 0),
                       {"-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-w", "-mf16c"});
  const RunOptions options{.elements = elements, .tolerance = 1e-4, .magnitude = 1};
  Buffers got = cpp::random_buffers(all, options), want = got;
  interpret(want);
  uint32_t blocks[3], threads[3];
  for (int i = 0; i < 3; ++i) {
    blocks[i] = static_cast<uint32_t>(code.blocks[i].constant());
    threads[i] = static_cast<uint32_t>(code.threads[i].constant());
  }
  reinterpret_cast<Emulated>(library->symbol("run_kernel0"))(cpp::addresses(got).data(), nullptr,
                                                             blocks, threads);
  if (settle) settle(got), settle(want);
  for (size_t p = 0; p < all.params.size(); ++p) {
    const graph::DType dtype = all.params[p].dtype;
    for (int64_t i = 0; i < options.elements; ++i) {
      const loop::Scalar a = loop::load(dtype, got[p].data(), i);
      const loop::Scalar b = loop::load(dtype, want[p].data(), i);
      ASSERT_TRUE(cpp::close(dtype, a, b, options)) << "b" << p << "[" << i << "]";
    }
  }
}

}  // namespace braze::codegen::cuda
