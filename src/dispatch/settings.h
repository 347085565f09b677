// What `braze.compile` was asked for: a snapshot per compiled function, no globals.
#pragma once

#include <cstdint>
#include <optional>

#include "capture/dynamic.h"
#include "compile/compile.h"
#include "cpython/ref.h"

namespace braze::dispatch {

struct Settings {
  bool fullgraph = false;
  bool keep_report = false;  // keep texts of every stage, for explain
  compile::Backend backend = compile::Backend::kKernels;
  compile::GpuCodegen gpu_codegen = compile::GpuCodegen::kCuda;
  cpython::Ref custom_backend;  // callable (gm, example_inputs) -> callable
  int64_t recompile_limit = 8;
  bool capture_scalars = false;  // see capture::Options
  bool capture_sizes = false;
  bool counter_random = false;  // see compile::Options
  bool cuda_graphs = false;     // see runtime::Executable
  bool autotune = false;        // autotune.h
  std::optional<int64_t> activation_memory;
  int64_t stage_bytes = 25 << 20;     // of gradients (passes/stages.h); 0: one stage
  std::optional<bool> channels_last;  // layouts.h
  capture::DynamicSizes::Mode dynamic = capture::DynamicSizes::Mode::kAuto;
};

}  // namespace braze::dispatch
