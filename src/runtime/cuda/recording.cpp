#include "runtime/cuda/recording.h"

#include <atomic>

namespace braze::runtime::cuda {
namespace {

// Never destroyed: code may run while the process ends.
std::atomic<Recorder*> g_recorder = nullptr;

}  // namespace

Recorder* recorder() { return g_recorder.load(std::memory_order_acquire); }

void install(std::unique_ptr<Recorder> recorder) {
  g_recorder.store(recorder.release(), std::memory_order_release);
}

}  // namespace braze::runtime::cuda
