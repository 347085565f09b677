#include "dispatch/dropout_mapping.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "base/log.h"
#include "base/philox.h"
#include "graph/devices.h"
#include "graph/op_kind.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/generator.h"
#include "runtime/cuda/stream.h"
#include "toolchain/nvrtc.h"

namespace braze::dispatch {
namespace {

using passes::DropoutMapping;

bool is_cuda(graph::Device device) { return device.type == graph::Device::Type::kCUDA; }

// What the default generator of a device is at; put back when this ends.
class GeneratorPlace {
 public:
  explicit GeneratorPlace(const at::Generator& generator) : generator_(generator) {
    std::lock_guard lock(generator_.mutex());
    seed_ = generator_.current_seed();
    offset_ = generator_.get_offset();
  }
  ~GeneratorPlace() {
    std::lock_guard lock(generator_.mutex());
    generator_.set_offset(offset_);
  }
  GeneratorPlace(const GeneratorPlace&) = delete;

  uint64_t seed() const { return seed_; }
  uint64_t offset() const { return offset_; }

 private:
  at::Generator generator_;
  uint64_t seed_ = 0, offset_ = 0;
};

// The pack by which PyTorch's kernel draws for a dtype; 0: it draws in another way. Tried with more
// elements than its threads take at a time, some thousand of which are looked at.
int pack_of(at::Device device, at::ScalarType dtype, int64_t threads) {
  constexpr int kMostElements = 8;
  constexpr int64_t kStep = 257;
  constexpr float kHalf = 0.5f;
  const at::Generator& generator = at::globalContext().defaultGenerator(device);
  const int64_t count = 2 * kMostElements * threads + 4 * kMostElements;
  uint64_t seed = 0, offset = 0, advanced = 0;
  at::Tensor kept;
  {
    const GeneratorPlace place(generator);
    seed = place.seed();
    offset = place.offset();
    const at::Tensor zeros = at::zeros({count}, at::TensorOptions(dtype).device(device));
    const at::Tensor mask = std::get<1>(at::native_dropout(zeros, kHalf, true));
    kept = mask.slice(0, 0, count, kStep).to(at::kCPU).contiguous();
    advanced = GeneratorPlace(generator).offset() - offset;
  }
  const int64_t increment = ((count - 1) / (4 * threads) + 1) * 4;
  if (static_cast<int64_t>(advanced) != increment) return 0;
  const bool* found = kept.const_data_ptr<bool>();
  for (const int pack : {kMostElements, 4}) {
    bool same = true;
    for (int64_t i = 0; i < kept.numel() && same; ++i) {
      const int64_t element = i * kStep, thread = element / pack % threads;
      const int64_t counter = static_cast<int64_t>(offset / 4) +
                              element / pack / threads * (pack / 4) + element % pack / 4;
      const uint32_t word =
          philox(seed, static_cast<uint64_t>(counter), static_cast<uint64_t>(thread))[element % 4];
      same = found[i] == (static_cast<float>(word) * 0x1p-32f + 0x1p-33f < kHalf);
    }
    if (same) return pack;
  }
  return 0;
}

// Packs of no element where PyTorch draws in another way.
DropoutMapping mapping_of(graph::Device device) {
  DropoutMapping mapping{.device = device};
  const target::Cuda gpu = runtime::cuda::describe(device.index);
  constexpr int kThreadsOfBlock = 256;
  mapping.most_threads =
      int64_t{gpu.processors} * (gpu.resident_threads / kThreadsOfBlock) * kThreadsOfBlock;
  const at::Device at_device(at::kCUDA, static_cast<at::DeviceIndex>(device.index));
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  mapping.half_pack = pack_of(at_device, at::kHalf, mapping.most_threads);
  mapping.single_pack = pack_of(at_device, at::kFloat, mapping.most_threads);
  if ((mapping.half_pack == 0 || mapping.single_pack == 0) &&
      log::enabled(log::Component::kSchedule))
    log::write(log::Component::kSchedule,
               "dropout is left to PyTorch's operator, which draws in a way that is not known\n");
  return mapping;
}

bool drops_out(const graph::Graph& graph, graph::Device device) {
  return std::ranges::any_of(graph.nodes(), [&](const auto& node) {
    return node->op().kind == graph::OpKind::knative_dropout &&
           graph::same_device(node->results()[0]->type().device, device);
  });
}

}  // namespace

std::optional<DropoutMapping> dropout_mapping_for(const Settings& settings,
                                                  const graph::Graph& graph) {
  if (settings.backend != compile::Backend::kKernels || settings.counter_random)
    return std::nullopt;
  const std::vector<graph::Device> gpus = graph::accelerators(graph);
  if (gpus.size() != 1 || !is_cuda(gpus[0]) || !drops_out(graph, gpus[0])) return std::nullopt;
  if (!runtime::cuda::why_no_driver().empty() || !toolchain::why_no_nvrtc().empty() ||
      !runtime::cuda::knows_generator())
    return std::nullopt;
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(gpus[0].index));
  static ForkMutex mutex;
  static auto* known = new std::map<int, std::optional<DropoutMapping>>;
  std::lock_guard lock(mutex);
  const auto found = known->find(device.index());
  if (found != known->end()) return found->second;
  // Not while a graph is recorded, which reading data would break.
  if (runtime::cuda::is_recording(runtime::cuda::current_stream(device))) return std::nullopt;
  std::optional<DropoutMapping> mapping;
  try {
    mapping = mapping_of(gpus[0]);
  } catch (const UserError&) {  // a GPU that no kernels are made for
  }
  return (*known)[device.index()] = mapping;
}

}  // namespace braze::dispatch
