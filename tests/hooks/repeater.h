// A recorder of "CUDA graphs" for machines without a GPU: where a graph would be launched, the
// steps run again, with the graph's own memory in use as it would be.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/cuda/recording.h"

namespace braze::runtime {

class Repetition : public cuda::Recording {
 public:
  explicit Repetition(std::function<void()> steps) : steps_(std::move(steps)) {}
  void finish(bool) override {}
  void abandon() noexcept override {}
  // What was recorded has run, on a CPU.
  void launch() override {
    if (!std::exchange(is_first_, false)) steps_();
  }
  void* executable() const override { return nullptr; }

 private:
  std::function<void()> steps_;
  bool is_first_ = true;
};

class Repeater : public cuda::Recorder {
 public:
  c10::DeviceType device_type() const override { return c10::kCPU; }
  std::unique_ptr<cuda::Recording> begin(c10::Device, std::function<void()> steps) override {
    return std::make_unique<Repetition>(std::move(steps));
  }
  bool is_recording(void*) const override { return false; }
  void copy(void* target, const void* source, int64_t bytes, void*) const override {
    if (bytes > 0) std::memmove(target, source, static_cast<size_t>(bytes));
  }
};

}  // namespace braze::runtime
