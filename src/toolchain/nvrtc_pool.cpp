#include "toolchain/nvrtc_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "toolchain/nvrtc_search.h"

namespace braze::toolchain {
namespace {

using Processes = std::vector<std::unique_ptr<NvrtcProcess>>;

// Those that were started ahead and are not taken yet.
struct Ahead {
  ForkMutex mutex;
  Processes processes;

  static Ahead& instance() {
    static auto& instance = *std::make_unique<Ahead>().release();
    return instance;
  }
  Processes take(size_t most) {
    std::lock_guard lock(mutex);
    Processes taken;
    while (!processes.empty() && taken.size() < most) {
      // In a child of fork() they are the parent's.
      if (processes.back()->is_of_this_process()) taken.push_back(std::move(processes.back()));
      processes.pop_back();
    }
    return taken;
  }
  void add(Processes more) {
    std::lock_guard lock(mutex);
    std::ranges::move(more, std::back_inserter(processes));
  }
};

void end_all(Processes& processes) {
  for (const auto& process : processes) process->hang_up();  // so that they end at once
  processes.clear();
}

// Told once. Whoever has no processes is only slower.
void tell(const std::string& why) {
  static std::atomic<bool> told = false;
  if (!told.exchange(true))
    log::warning(
        "kernels for GPUs are compiled one after another: the program that compiles them " + why);
}

void start_more(const NvrtcSetup& setup, size_t count, Processes& processes) {
  while (processes.size() < count) {
    std::string why;
    auto process = NvrtcProcess::start(setup.program, setup.library.path(), why);
    if (!process) return tell("cannot be started (" + setup.program + ": " + why + ")");
    processes.push_back(std::move(process));
  }
}

}  // namespace

NvrtcPool::NvrtcPool(const NvrtcSetup& setup, size_t runs) : setup_(setup) {
  if (runs < 2 || setup.most_processes < 2 || setup.program.empty()) return;
  const size_t count = std::min(runs, setup.most_processes);
  free_ = Ahead::instance().take(count);
  start_more(setup, count, free_);
}

NvrtcPool::~NvrtcPool() { end_all(free_); }

std::unique_ptr<NvrtcProcess> NvrtcPool::take() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) return nullptr;
  auto process = std::move(free_.back());
  free_.pop_back();
  return process;
}

NvrtcResult NvrtcPool::compile(const CudaSource& source) {
  std::unique_ptr<NvrtcProcess> process = take();
  if (!process) return setup_.library.compile(source);
  NvrtcProcess::Answer answer = process->compile(source, setup_.limit);
  switch (answer.outcome) {
    case NvrtcProcess::Outcome::kCompiled:
    case NvrtcProcess::Outcome::kRefused: {
      std::lock_guard lock(mutex_);
      free_.push_back(std::move(process));
      return {.compiled = answer.outcome == NvrtcProcess::Outcome::kCompiled,
              .text = std::move(answer.text)};
    }
    case NvrtcProcess::Outcome::kLate:
      throw InternalError(__FILE__, __LINE__,
                          detail::concat("NVRTC did not come to an end in ", setup_.limit.count(),
                                         " ms (BRAZE_COMPILER_TIMEOUT)"));
    case NvrtcProcess::Outcome::kLost:
      break;
  }
  tell("was lost: " + answer.text);
  process.reset();
  return setup_.library.compile(source);
}

NvrtcAhead::NvrtcAhead(size_t sources) {
  if (!why_no_nvrtc().empty()) return;
  const NvrtcSetup setup = usual_setup();
  Processes processes;
  const size_t count = std::min(sources, setup.most_processes);
  if (count >= 2 && !setup.program.empty()) start_more(setup, count, processes);
  Ahead::instance().add(std::move(processes));
}

NvrtcAhead::~NvrtcAhead() {
  Processes left = Ahead::instance().take(SIZE_MAX);
  end_all(left);
}

}  // namespace braze::toolchain
