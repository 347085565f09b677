// The pipeline as straight-line code: graph in, module out. A pure function of its arguments: no
// torch, no Python, no globals.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "compile/candidates.h"
#include "graph/graph.h"
#include "graph/stages.h"
#include "passes/channels_last.h"
#include "passes/dropout_masks.h"
#include "passes/fused_attention.h"
#include "passes/linear_pointwise.h"
#include "plan/module.h"
#include "target/target.h"

namespace braze::compile {

enum class Backend : uint8_t {
  kKernels,  // the whole pipeline
  kAten,     // passes, then every op an extern call
  kEager,    // the graph as traced, every op an extern call, in-place ops as they are
};

// In which language kernels of GPUs are written. Those that Triton has no code for, or slower code,
// are CUDA C++ anyway (compile/generate.h).
enum class GpuCodegen : uint8_t { kCuda, kTriton };

struct Options {
  Backend backend = Backend::kKernels;
  target::Target target;
  GpuCodegen gpu_codegen = GpuCodegen::kCuda;
  passes::ChannelsLast channels_last = passes::ChannelsLast::kNone;
  bool counter_random = false;  // random numbers of a counter (passes/counter_random.h)
  bool deterministic = false;   // torch.use_deterministic_algorithms: see loop::lower
  std::optional<passes::DropoutMapping> dropout_mapping;  // none: masks are PyTorch's operator's
  std::optional<int64_t> activation_memory;               // bytes (passes/activation_budget.h)
  passes::PanelProducts panel_products = passes::PanelProducts::kNone;
  passes::FusedAttention fused_attention = passes::FusedAttention::kNone;
  bool linear_pointwise = false;  // large products through oneDNN (passes/linear_pointwise.h)
  // Chooses between ways to spread kernels over a GPU; none: the model of the device does.
  Tuner tuner;
  bool check_passes =
      false;  // verify the graph after each pass, and each pass's claim of "changed"
  // Called with ("graph", text) after the passes, ("loops", text), ("schedule", text), ("code",
  // text) when set; with ("unsupported", reason) when the graph cannot be made functional, or no
  // code can be generated for its kernels.
  std::function<void(const char* stage, const std::string& text)> dump;
};

struct Timings {  // seconds
  double passes = 0, lower = 0, schedule = 0, codegen = 0;
};

// Gives a module of one function, or of several where the graph reads numbers from data or has
// control flow (control_function.h). The module of a symbolic graph is symbolic: it holds for all
// values of the symbols within their ranges. A graph that the passes cannot make functional (random
// in-place ops, say) is compiled as with kEager, whatever the backend; a graph with values on
// several GPUs, or a part whose kernels there is no code for, as with kAten.
plan::Module compile(graph::Graph graph, const Options& options, Timings* timings = nullptr,
                     const graph::DataSymbols& data = {});

// The key under which a cache keeps the module of this graph: hash of the canonical form (which has
// contents of constants, states of outputs and conditions), the options and the compiler's version.
std::string cache_key(const graph::Graph& graph, const Options& options,
                      const graph::DataSymbols& data = {});

}  // namespace braze::compile
