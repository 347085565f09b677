#include "compile/compile.h"

#include <chrono>

#include "compile/direct_plan.h"

namespace braze::compile {
namespace {

// Adds the time of a scope to `*seconds`.
class StageTimer {
 public:
  explicit StageTimer(double* seconds) : seconds_(seconds), start_(Clock::now()) {}
  ~StageTimer() { *seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  StageTimer(const StageTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double* seconds_;
  Clock::time_point start_;
};

}  // namespace

plan::Plan compile(graph::Graph graph, const Options& options, Timings* timings) {
  Timings unused;
  if (timings == nullptr) timings = &unused;
  if (options.dump) options.dump("graph", graph::to_string(graph));
  StageTimer timer(&timings->schedule);
  plan::Plan plan = direct_plan(graph);
  plan::verify(plan);
  return plan;
}

}  // namespace braze::compile
