#include "dispatch/autotune.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/stream.h"
#include "toolchain/nvrtc.h"

namespace braze::dispatch {
namespace {

using compile::Candidate;
using compile::Candidates;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit(20);  // of one function
constexpr double kFaster = 0.97;            // of the first way's time, to be worth another one

// Machine code of all ways, side by side.
class Built {
 public:
  Built(std::span<const Candidates> all, int device) {
    std::vector<toolchain::CudaSource> sources;
    for (const Candidates& one : all)
      for (const Candidate& way : one.ways)
        sources.push_back({.text = renamed(way, sources.size()), .flags = way.flags});
    const toolchain::Cubins cubins = toolchain::cubins(sources);
    for (const std::string& code : cubins.code)
      codes_.push_back(std::make_unique<runtime::cuda::LoadedCode>(device, code));
    size_t number = 0;
    for (const Candidates& one : all)
      for (const Candidate& way : one.ways) {
        kernels_.push_back(codes_[cubins.of_source[number]]->kernel(name(way, number)));
        runtime::cuda::allow_shared(device, kernels_.back(),
                                    static_cast<uint32_t>(way.shared_bytes));
        ++number;
      }
  }

  void* kernel(size_t number) const { return kernels_[number]; }

 private:
  // Sources may stand behind each other in one program.
  static std::string name(const Candidate& way, size_t number) {
    return way.name + "_way_" + std::to_string(number);
  }
  static std::string renamed(const Candidate& way, size_t number) {
    std::string text = way.text;
    const size_t place = text.rfind(" " + way.name + "(");
    BRAZE_CHECK(place != std::string::npos, "no kernel ", way.name, " in its source");
    return text.replace(place + 1, way.name.size(), name(way, number));
  }

  std::vector<std::unique_ptr<runtime::cuda::LoadedCode>> codes_;
  std::vector<void*> kernels_;
};

// What all ways of a kernel are given.
class Arguments {
 public:
  Arguments(const Candidates& one, at::Device device) {
    const auto options = at::TensorOptions(at::kByte).device(device);
    for (const auto& [bytes, by_value] : one.parameters) {
      if (!by_value) memory_.push_back(at::zeros({std::max<int64_t>(bytes, 16)}, options));
      values_.push_back(by_value ? nullptr : memory_.back().mutable_data_ptr());
    }
    for (void*& value : values_) addresses_.push_back(&value);
  }
  Arguments(const Arguments&) = delete;

  void** addresses() { return addresses_.data(); }

 private:
  std::vector<at::Tensor> memory_;
  std::vector<void*> values_;  // addresses, or zeros of any dtype
  std::vector<void*> addresses_;
};

class Tuning {
 public:
  explicit Tuning(at::Device device)
      : device_(device),
        guard_(device.type()),
        stream_(guard_.getStream(device)),
        begin_(device.type(), c10::EventFlag::BACKEND_DEFAULT),
        end_(device.type(), c10::EventFlag::BACKEND_DEFAULT) {}

  // The number of the fastest way; `first`: that of its first one in `built`.
  size_t fastest(const Candidates& one, const Built& built, size_t first) {
    constexpr int kRepetitions = 5;
    Arguments arguments(one, device_);
    std::vector<double> best(one.ways.size(), std::numeric_limits<double>::infinity());
    std::vector<int> launches(one.ways.size(), 1);
    const auto launch = [&](size_t way) {
      const Candidate& taken = one.ways[way];
      runtime::cuda::Launch call{built.kernel(first + way),
                                 {},
                                 {},
                                 static_cast<uint32_t>(taken.shared_bytes),
                                 arguments.addresses()};
      for (int i = 0; i < 3; ++i) {
        call.blocks[i] = static_cast<uint32_t>(taken.blocks[i]);
        call.threads[i] = static_cast<uint32_t>(taken.threads[i]);
      }
      runtime::cuda::launch(call, runtime::cuda::current_stream(device_));
    };
    for (size_t way = 0; way < one.ways.size(); ++way) {
      milliseconds(way, 1, launch);   // the first launch loads it
      constexpr double kLeast = 0.3;  // milliseconds that events measure well
      const double once = milliseconds(way, 1, launch);
      launches[way] = std::clamp(static_cast<int>(kLeast / std::max(once, 1e-3)), 1, 50);
    }
    // By turns, as clocks change.
    for (int repetition = 0; repetition < kRepetitions; ++repetition)
      for (size_t way = 0; way < one.ways.size(); ++way)
        best[way] = std::min(best[way], milliseconds(way, launches[way], launch));
    const auto fastest = static_cast<size_t>(std::ranges::min_element(best) - best.begin());
    const size_t taken = best[fastest] < kFaster * best[0] ? fastest : 0;
    if (log::enabled(log::Component::kTiming)) tell(one, best, taken);
    return taken;
  }

 private:
  template <class Launch>
  double milliseconds(size_t way, int launches, const Launch& launch) {
    begin_.record(stream_);
    for (int i = 0; i < launches; ++i) launch(way);
    end_.record(stream_);
    end_.synchronize();
    return begin_.elapsedTime(end_) / launches;
  }

  static void tell(const Candidates& one, const std::vector<double>& best, size_t taken) {
    std::string text = "autotune " + one.ways[0].name + ":";
    for (size_t way = 0; way < best.size(); ++way)
      text += detail::concat(way == taken ? " *" : " ", 1e3 * best[way]);
    log::write(log::Component::kTiming, text + " us");
  }

  const at::Device device_;
  const c10::impl::VirtualGuardImpl guard_;
  const c10::Stream stream_;
  c10::Event begin_, end_;
};

std::vector<size_t> choose(std::span<const Candidates> all, graph::Device device) {
  const at::Device on(at::kCUDA, static_cast<at::DeviceIndex>(device.index));
  std::vector<size_t> chosen(all.size(), 0);
  if (runtime::cuda::is_recording(runtime::cuda::current_stream(on))) return chosen;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto until = Clock::now() + kLimit;
  try {
    const runtime::cuda::CurrentContext current(runtime::cuda::primary_context(device.index));
    const Built built(all, device.index);
    Tuning tuning(on);
    size_t first = 0;
    for (size_t kernel = 0; kernel < all.size() && Clock::now() < until; ++kernel) {
      if (all[kernel].ways.size() > 1) chosen[kernel] = tuning.fastest(all[kernel], built, first);
      first += all[kernel].ways.size();
    }
  } catch (const c10::Error&) {  // no memory
  } catch (const InternalError& error) {
    if (log::enabled(log::Component::kTiming))
      log::write(log::Component::kTiming, std::string("autotune: ") + error.what());
  }
  return chosen;
}

}  // namespace

compile::Tuner tuner(graph::Device device) {
  return [device](std::span<const Candidates> all) { return choose(all, device); };
}

}  // namespace braze::dispatch
