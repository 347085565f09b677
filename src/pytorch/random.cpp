#include "pytorch/random.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace braze::pytorch {
namespace {

at::CPUGeneratorImpl& generator() {
  return *at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
}

}  // namespace

struct GeneratorState::Impl {
  at::mt19937 engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
};

GeneratorState::GeneratorState() {
  at::CPUGeneratorImpl& now = generator();
  std::lock_guard lock(now.mutex_);
  impl_ = std::make_unique<Impl>(
      Impl{now.engine(), now.next_float_normal_sample(), now.next_double_normal_sample()});
}

GeneratorState::~GeneratorState() = default;

void GeneratorState::restore() const {
  at::CPUGeneratorImpl& now = generator();
  std::lock_guard lock(now.mutex_);
  now.set_engine(impl_->engine);
  now.set_next_float_normal_sample(impl_->next_float);
  now.set_next_double_normal_sample(impl_->next_double);
}

}  // namespace braze::pytorch
