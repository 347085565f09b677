// Runs generated Triton in its interpreter (triton_interpreter.py), a process of Python for all
// kernels of a check, so that it can be compared with the interpreter of loops without a GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "codegen/run_kernels.h"
#include "codegen/triton/codegen.h"
#include "codegen/triton/operators.h"
#include "toolchain/scratch.h"

namespace braze::codegen::triton {

using cpp::Buffers;
using cpp::RunOptions;

// The Python that the build was made with, for a shell; Triton is in $BRAZE_TRITON, else where
// `make triton` puts it, apart from the environment, as PyTorch asks whether it is there.
inline std::string python() {
  const char* named = std::getenv("BRAZE_TRITON");
  const std::string folder = named ? named : BRAZE_TEST_SOURCES "/../../.venv/triton";
  return "PYTHONPATH=\"" + folder +
         ":" BRAZE_TEST_SOURCES "/../../python/braze:$PYTHONPATH\" '" BRAZE_PYTHON "'";
}
inline bool has_triton() {
  static const bool has =
      std::system((python() + " -c 'import triton, numpy' > /dev/null 2>&1").c_str()) == 0;
  return has;
}
constexpr const char* kLiftsSkips = "there is no Triton; `make triton` lifts it";

// Kernels are added one by one, with what is expected of them, and run together.
class Interpreter {
 public:
  void add(const loop::Kernel& kernel, const KernelCode& code, const RunOptions& options,
           const Buffers& before, Buffers want) {
    const std::string stem = folder_ / std::to_string(runs_.size());
    test::spill(stem + ".py", code.text);
    list_ += "kernel " + stem + ".py " + code.name + " " +
             std::to_string(sym::evaluate(code.blocks[0], options.symbols)) + "\n";
    for (size_t p = 0; p < kernel.params.size(); ++p) {
      const std::string file = stem + "." + std::to_string(p);
      test::spill(file, {before[p].begin(), before[p].end()});
      list_ += (kernel.params[p].by_value ? "number " : "buffer ") +
               parameter_type(kernel.params[p].dtype) + " " + file + "\n";
    }
    for (sym::Int size : code.sizes)
      list_ += "size " + std::to_string(sym::evaluate(size, options.symbols)) + "\n";
    list_ += "run\n";
    runs_.push_back({&kernel, code.text, options, std::move(want), stem});
  }

  // Whether Python ran through; what it said is in `said`.
  bool run() {
    test::spill(folder_ / "list", list_);
    const std::string command = python() +
                                " '" BRAZE_TEST_SOURCES "/codegen/triton_interpreter.py' '" +
                                folder_.path() + "/list' > '" + folder_.path() + "/said' 2>&1";
    const bool good = std::system(command.c_str()) == 0;
    said = test::slurp(folder_ / "said");
    return good;
  }

  void expect_results() {
    if (runs_.empty()) return;
    ASSERT_TRUE(run()) << said;
    for (const Run& one : runs_) {
      for (size_t p = 0; p < one.kernel->params.size(); ++p) {
        const std::string got = test::slurp(one.stem + "." + std::to_string(p));
        ASSERT_EQ(got.size(), one.want[p].size());
        const graph::DType dtype = one.kernel->params[p].dtype;
        for (int64_t i = 0; i < one.options.elements; ++i) {
          const loop::Scalar a = loop::load(dtype, got.data(), i);
          const loop::Scalar b = loop::load(dtype, one.want[p].data(), i);
          ASSERT_TRUE(cpp::close(dtype, a, b, one.options))
              << "Triton: b" << p << "[" << i << "]: " << (graph::is_float(dtype) ? a.f : a.i)
              << ", expected " << (graph::is_float(dtype) ? b.f : b.i) << "\n"
              << one.text << testing::PrintToString(one.options.symbols);
        }
      }
    }
  }

  std::string said;

 private:
  struct Run {
    const loop::Kernel* kernel;
    std::string text;
    RunOptions options;
    Buffers want;
    std::string stem;
  };

  test::Scratch folder_;
  std::string list_;
  std::vector<Run> runs_;
};

}  // namespace braze::codegen::triton
