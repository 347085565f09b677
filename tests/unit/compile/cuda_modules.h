// Modules of graphs of values on a GPU.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "compile/compile.h"
#include "plan/round_trip.h"

namespace braze::compile {

struct Compiled {
  plan::Module module;
  std::string unsupported;
  const plan::Function& function() const { return module.functions.at(0); }
};

inline Compiled compile_for_gpu(std::string_view text,
                                passes::ChannelsLast channels_last = passes::ChannelsLast::kNone,
                                bool deterministic = false,
                                GpuCodegen gpu_codegen = GpuCodegen::kCuda) {
  Compiled result;
  Options options{.target = target::cuda(90, 132, 3350000),
                  .gpu_codegen = gpu_codegen,
                  .channels_last = channels_last,
                  .deterministic = deterministic,
                  .check_passes = true};
  options.dump = [&](const char* stage, const std::string& what) {
    if (std::string_view(stage) == "unsupported") result.unsupported = what;
  };
  result.module = compile(graph::parse(text), options);
  result.module = plan::round_trip(result.module);
  return result;
}

template <class Step>
std::vector<const Step*> steps(const plan::Function& function) {
  std::vector<const Step*> found;
  for (const plan::Step& step : function.steps)
    if (const auto* one = std::get_if<Step>(&step)) found.push_back(one);
  return found;
}

}  // namespace braze::compile
