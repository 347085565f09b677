#include "dispatch/specializations.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>

#include "base/fork_mutex.h"
#include "base/log.h"
#include "base/options.h"
#include "dispatch/autotune.h"
#include "dispatch/dropout_mapping.h"
#include "dispatch/gil.h"
#include "dispatch/layouts.h"
#include "dispatch/report.h"
#include "graph/devices.h"
#include "graph/substitute.h"
#include "kernels/kernels.h"
#include "runtime/cuda/driver.h"
#include "runtime/dense_operators.h"
#include "target/target.h"
#include "toolchain/nvrtc.h"
#include "toolchain/toolchain.h"

namespace braze::dispatch {
namespace {

using Clock = std::chrono::steady_clock;

bool onednn_multiplies_faster() {
  return !runtime::mkl_knows_processor() && __builtin_cpu_supports("avx2") && at::hasMKLDNN() &&
         at::globalContext().userEnabledMkldnn();
}

// The GPU's description; nothing, said once, where no kernels can be made for it.
std::optional<target::Cuda> describe_gpu(graph::Device device) {
  std::string why = runtime::cuda::why_no_driver();
  if (why.empty()) why = toolchain::why_no_nvrtc();
  try {
    if (why.empty()) return runtime::cuda::describe(device.index);
  } catch (const UserError& error) {
    why = error.what();
  } catch (const InternalError& error) {
    why = error.what();
  }
  static std::once_flag told;
  std::call_once(told, [&] {
    std::fprintf(stderr, "braze: no kernels on GPUs: %s. Compiled functions run through ATen.\n",
                 why.c_str());
  });
  return std::nullopt;
}

void choose_cpu(compile::Options& out) {
  const target::Cpu cpu{.isa = target::chosen_isa(), .threads = at::get_num_threads()};
  out.target = cpu;
  // With AVX2 alone the kernel was not measured against MKL on the processors that MKL knows.
  using passes::PanelProducts;
  if (cpu.isa == target::Isa::kAvx512)
    out.panel_products =
        runtime::mkl_knows_processor() ? PanelProducts::kLarge : PanelProducts::kAll;
  else if (cpu.isa == target::Isa::kAvx2 && onednn_multiplies_faster())
    out.panel_products = PanelProducts::kLarge;
  using passes::FusedAttention;
  if (kernels::variant_for(cpu.isa))
    out.fused_attention = out.panel_products == PanelProducts::kAll
                              ? FusedAttention::kAll
                              : FusedAttention::kWithoutGradient;
  out.linear_pointwise = onednn_multiplies_faster();
  if (out.backend == compile::Backend::kKernels && !toolchain::host_compiler()) {
    static std::once_flag told;
    std::call_once(told, [] {
      std::fprintf(stderr,
                   "braze: no C++ compiler found ($CXX, g++, clang++, c++): compiled functions run "
                   "through ATen. Install g++ or clang++ for generated kernels.\n");
    });
    out.backend = compile::Backend::kAten;
  }
}

// The target is the one device beside the CPU that the graph has values on, else the CPU.
compile::Options compile_options(const Settings& settings, const graph::Graph& graph) {
  compile::Options out;
  out.backend = settings.backend;
  out.counter_random = settings.counter_random;
  out.activation_memory = settings.activation_memory;
  out.channels_last = channels_last_for(settings, graph);
  out.dropout_mapping = dropout_mapping_for(settings, graph);
  const std::vector<graph::Device> gpus = graph::accelerators(graph);
  out.deterministic = !gpus.empty() && at::globalContext().deterministicAlgorithms();
  if (gpus.empty() || out.backend != compile::Backend::kKernels) {
    choose_cpu(out);
  } else if (const std::optional<target::Cuda> gpu = describe_gpu(gpus[0])) {
    out.target = *gpu;
    if (settings.autotune) out.tuner = tuner(gpus[0]);
    out.gpu_codegen = settings.gpu_codegen;
  } else {
    out.backend = compile::Backend::kAten;
  }
  return out;
}

// What compiles for a GPU beside this process is there when the code is.
using Ahead = std::optional<toolchain::NvrtcAhead>;

void start_ahead(const graph::Graph& graph, const compile::Options& options, Ahead* ahead) {
  constexpr size_t kNodesOfKernel = 32;  // about so many become one, forward and backward
  if (ahead && options.backend == compile::Backend::kKernels &&
      std::holds_alternative<target::Cuda>(options.target))
    ahead->emplace(graph.nodes().size() / kNodesOfKernel);
}

plan::Module make_module(const graph::Graph& graph, const graph::DataSymbols& data,
                         compile::Options options, bool keep_report, Report& report,
                         Ahead* ahead = nullptr) {
  bool cacheable = options.backend == compile::Backend::kKernels && braze::options().cache;
  std::string key;
  if (cacheable && !keep_report && !log::enabled(log::Component::kSchedule)) {
    key = compile::cache_key(graph, options, data);
    if (auto bytes = toolchain::DiskCache::instance().get("plan", key)) {
      try {
        plan::Module module = plan::deserialize(*bytes, target::to_string(options.target));
        report.from_cache = true;
        return module;
      } catch (const UserError&) {
        // Damaged, from another version or for another target: made again below.
      }
    }
  }
  start_ahead(graph, options, ahead);
  options.dump = [&](const char* stage, const std::string& text) {
    std::string_view name = stage;
    if (name == "schedule") {
      if (keep_report) report.schedule += text;
      if (log::enabled(log::Component::kSchedule)) log::write(log::Component::kSchedule, text);
    } else if (name == "unsupported") {
      if (keep_report) report.schedule += "runs through ATen: " + text + "\n";
      if (log::enabled(log::Component::kSchedule)) log::write(log::Component::kSchedule, text);
    }
  };
  if (!keep_report && !log::enabled(log::Component::kSchedule)) options.dump = nullptr;
  compile::Timings timings;
  plan::Module module = compile::compile(graph.clone(), options, &timings, data);
  report.passes = timings.passes;
  report.lower = timings.lower;
  report.schedule_time = timings.schedule;
  report.codegen = timings.codegen;
  if (!key.empty()) toolchain::DiskCache::instance().put("plan", key, plan::serialize(module));
  return module;
}

// To be called in the handler of what was thrown when generated code was built: goes on with CUDA
// C++ in place of Triton, with ATen, or throws again.
void choose_other(compile::Options& options, const std::string& name, const char* why) {
  if (options.backend != compile::Backend::kKernels || braze::options().strict) throw;
  if (options.gpu_codegen == compile::GpuCodegen::kTriton) {
    std::fprintf(stderr, "braze: Triton kernels of %s could not be built, CUDA C++ instead: %s\n",
                 name.c_str(), why);
    options.gpu_codegen = compile::GpuCodegen::kCuda;
    return;
  }
  std::fprintf(stderr, "braze: generated code of %s could not be built, running through ATen: %s\n",
               name.c_str(), why);
  options.backend = compile::Backend::kAten;
}

// How many sets of sizes get kernels. More would not pay, as each needs the host compiler.
constexpr size_t kWithKernels = 4;
// How many sets of sizes are kept; beyond that all are dropped and made again.
constexpr size_t kMost = 256;

// Grains of work of the kernels, 2 for a step of any other kind, also for a launch on a GPU: that
// waits where the stream's queue is full, perhaps for a function of the user's that needs the GIL.
int64_t work_of(const plan::Module& module) {
  int64_t work = 0;
  for (const plan::Function& function : module.functions)
    for (const plan::Step& step : function.steps) {
      auto* kernel = std::get_if<plan::KernelStep>(&step);
      auto* chunks = kernel ? std::get_if<plan::Chunks>(&kernel->launch) : nullptr;
      if (chunks)
        work += chunks->extent.hint() / std::max<int64_t>(chunks->grain.hint(), 1);
      else
        work += 2;
    }
  return work;
}

// A loop without end can be interrupted. Now and then, as the GIL may be another thread's.
void check_signals() {
  constexpr auto kPause = std::chrono::milliseconds(20);
  thread_local Clock::time_point last;
  if (Clock::now() - last < kPause) return;
  last = Clock::now();
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool interrupted = PyErr_CheckSignals() < 0;
  PyGILState_Release(state);
  if (interrupted) throw Interrupted();
}

}  // namespace

Specializations::Specializations(graph::Graph graph, graph::DataSymbols data,
                                 const Settings& settings, std::vector<at::Tensor> constants,
                                 std::string name)
    : graph_(std::move(graph)),
      data_(std::move(data)),
      settings_(settings),
      constants_(std::move(constants)),
      name_(std::move(name)) {}

std::shared_ptr<Specialization> Specializations::find(std::span<const int64_t> symbols) const {
  if (only_ || symbols.empty()) return only_;
  auto found = by_symbols_.find({symbols.begin(), symbols.end()});
  return found == by_symbols_.end() ? nullptr : found->second;
}

// Null if the compiler cannot do it with symbols.
std::shared_ptr<Specialization> Specializations::build_symbolic(Report& report) {
  try {
    return build(graph_, true, report);
  } catch (const InternalError& error) {
    refused_ = true;
    if (only_symbolic() && braze::options().strict) throw;
    if (log::enabled(log::Component::kSchedule))
      log::write(log::Component::kSchedule, name_ + ": no symbolic module: " + error.what());
    return nullptr;
  }
}

std::shared_ptr<Specialization> Specializations::build(const graph::Graph& graph, bool kernels,
                                                       Report& report) const {
  compile::Options options = compile_options(settings_, graph);
  if (!kernels && options.backend == compile::Backend::kKernels)
    options.backend = compile::Backend::kAten;
  auto specialization = std::make_shared<Specialization>();
  auto start = Clock::now();
  plan::Module module;
  for (;;) {
    Ahead ahead;
    module = make_module(graph, data_, options, settings_.keep_report, report, &ahead);
    start = Clock::now();
    try {
      specialization->executable = std::make_unique<runtime::Executable>(
          module, constants_, check_signals, settings_.cuda_graphs);
      break;
    } catch (const InternalError& error) {
      choose_other(options, name_, error.what());
    } catch (const UserError& error) {  // no place for temporary files
      choose_other(options, name_, error.what());
    }
  }
  report.build = seconds_since(start);
  specialization->writes_inputs_early = specialization->executable->writes_inputs_early();
  specialization->releases_gil = work_of(module) > 1;
  if (settings_.keep_report) {
    report.plan = plan::to_string(module);
    note_steps(module, report);
    for (const plan::Code& code : module.code) report.code += code.text;
  }
  if (log::enabled(log::Component::kCode))
    for (const plan::Code& code : module.code) log::write(log::Component::kCode, code.text);
  return specialization;
}

std::string Specializations::cuda_graphs() const {
  std::string text;
  const auto add = [&](const std::shared_ptr<Specialization>& specialization) {
    const std::string graphs = specialization ? specialization->executable->graphs() : "";
    if (!graphs.empty()) text += (text.empty() ? "" : "; ") + graphs;
  };
  add(only_);
  for (const auto& [symbols, specialization] : by_symbols_) add(specialization);
  return text;
}

plan::Module Specializations::plan() const {
  Report unused;
  const GilRelease gil(true);
  return make_module(graph_, data_, compile_options(settings_, graph_), /*keep_report=*/false,
                     unused);
}

std::shared_ptr<Specialization> Specializations::add(std::span<const int64_t> symbols,
                                                     Report* report) {
  Report unused;
  Report& out = report ? *report : unused;
  std::shared_ptr<Specialization> specialization;
  const bool kernels = by_symbols_.size() < kWithKernels;
  const bool whole = !graph_.is_symbolic() || !refused_;
  bool numbers = false;
  {
    GilRelease gil(true);  // nothing here touches Python
    const Whole stretch;   // but PyTorch, whose static variables are initialised
    if (whole)
      specialization = graph_.is_symbolic() ? build_symbolic(out) : build(graph_, true, out);
    if (!specialization && only_symbolic()) specialization = build(graph_, /*kernels=*/false, out);
    numbers = !specialization;
    if (numbers) specialization = build(graph::substitute(graph_, symbols), kernels, out);
  }
  if (!numbers) return only_ = specialization;
  if (by_symbols_.size() >= kMost) by_symbols_.clear();
  return by_symbols_[{symbols.begin(), symbols.end()}] = specialization;
}

}  // namespace braze::dispatch
