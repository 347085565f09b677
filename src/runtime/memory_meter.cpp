#include "runtime/memory_meter.h"

#include <c10/core/Allocator.h>
#include <c10/util/Logging.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>
#include <optional>

namespace braze::runtime {
namespace {

namespace profiler = torch::profiler::impl;

// PyTorch's allocators tell the profiler of the thread of each block. Others ask it for its
// configuration (a torch.autograd.Function does), so it is one, of a kind that records nothing.
struct Counter final : profiler::ProfilerStateBase {
  Counter()
      : ProfilerStateBase(profiler::ProfilerConfig(profiler::ProfilerState::Disabled,
                                                   /*report_input_shapes=*/false,
                                                   /*profile_memory=*/true)) {}

  profiler::ActiveProfilerType profilerType() override {
    return profiler::ActiveProfilerType::NONE;
  }
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override { add(bytes); }
  bool memoryProfilingEnabled() const override { return true; }

  void add(int64_t bytes) {
    now += bytes;
    peak = std::max(peak, now);
  }

  int64_t now = 0, peak = 0;
};

// PyTorch's CPU allocator warns of the first block that it frees without having seen it come, and
// of each thousandth after that, which is in order here.
constexpr int kLogErrors = 2;  // glog's level, and that of what stands for it

class QuietLog {
 public:
  QuietLog() : before_(FLAGS_caffe2_log_level) {
    FLAGS_caffe2_log_level = std::max(before_, kLogErrors);
  }
  ~QuietLog() { FLAGS_caffe2_log_level = before_; }
  QuietLog(const QuietLog&) = delete;

 private:
  const int before_;
};

}  // namespace

constinit thread_local MemoryMeter* MemoryMeter::current = nullptr;

struct MemoryMeter::Impl {
  std::shared_ptr<Counter> counter = std::make_shared<Counter>();
  std::optional<c10::DebugInfoGuard> guard;
  QuietLog quiet;
  MemoryMeter* before = nullptr;
};

MemoryMeter::MemoryMeter() : impl_(std::make_unique<Impl>()) {
  // A profiler of the user's expects to find itself.
  const auto kind = c10::DebugInfoKind::PROFILER_STATE;
  const c10::DebugInfoBase* there = c10::ThreadLocalDebugInfo::get(kind);
  if (!there || (current && there == current->impl_->counter.get()))
    impl_->guard.emplace(kind, impl_->counter);
  impl_->before = current;
  current = this;
}

MemoryMeter::~MemoryMeter() { current = impl_->before; }

int64_t MemoryMeter::peak() const { return impl_->counter->peak; }
int64_t MemoryMeter::held() const { return impl_->counter->now; }

void MemoryMeter::note_in(MemoryMeter& meter, int64_t bytes) { meter.impl_->counter->add(bytes); }

}  // namespace braze::runtime
