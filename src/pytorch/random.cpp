#include "pytorch/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>
#include <optional>

namespace braze::pytorch {
namespace {

at::CPUGeneratorImpl& generator() {
  return *at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
}

// A function of its seed and of how far it has got.
struct OnGpu {
  at::Generator generator;
  uint64_t seed, offset;
};

std::optional<OnGpu> on_gpu(int number) {
  if (number < 0) return std::nullopt;
  const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(number));
  at::Generator generator = at::globalContext().defaultGenerator(device);
  std::lock_guard lock(generator.mutex());
  try {
    return OnGpu{generator, generator.current_seed(), generator.get_offset()};
  } catch (const c10::Error&) {  // it refuses while a graph is recorded
    return std::nullopt;
  }
}

}  // namespace

struct GeneratorState::Impl {
  at::mt19937 engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
  std::optional<OnGpu> gpu;
};

GeneratorState::GeneratorState(int gpu) {
  std::optional<OnGpu> on_device = on_gpu(gpu);
  at::CPUGeneratorImpl& now = generator();
  std::lock_guard lock(now.mutex_);
  impl_ = std::make_unique<Impl>(Impl{now.engine(), now.next_float_normal_sample(),
                                      now.next_double_normal_sample(), std::move(on_device)});
}

GeneratorState::~GeneratorState() = default;

int GeneratorState::gpu() const { return impl_->gpu ? impl_->gpu->generator.device().index() : -1; }

void GeneratorState::restore() const {
  {
    at::CPUGeneratorImpl& now = generator();
    std::lock_guard lock(now.mutex_);
    now.set_engine(impl_->engine);
    now.set_next_float_normal_sample(impl_->next_float);
    now.set_next_double_normal_sample(impl_->next_double);
  }
  if (!impl_->gpu) return;
  at::Generator generator = impl_->gpu->generator;
  std::lock_guard lock(generator.mutex());
  if (generator.current_seed() != impl_->gpu->seed) generator.set_current_seed(impl_->gpu->seed);
  generator.set_offset(impl_->gpu->offset);
}

}  // namespace braze::pytorch
