#include "runtime/graphed_function.h"

#include <ATen/ops/copy_ops.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/stream.h"
#include "runtime/memory.h"
#include "runtime/recordable.h"

namespace braze::runtime {
namespace {

using plan::SlotId;
using plan::SlotKind;

constexpr size_t kMostGraphs = 32;
constexpr size_t kMostSeen = 8;
// Of one kind, while results of the others are in use.
constexpr int kMostTwins = 4;
// A function whose inputs come somewhere else each time is not recorded again and again.
constexpr int64_t kFreeRecordings = 16, kLaunchesForAnother = 8;

bool same_bits(std::span<const double> a, std::span<const double> b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
  });
}

class Busy {
 public:
  explicit Busy(std::atomic<bool>& flag) : flag_(flag), taken_(!flag.exchange(true)) {}
  ~Busy() {
    if (taken_) flag_ = false;
  }
  Busy(const Busy&) = delete;
  bool taken() const { return taken_; }

 private:
  std::atomic<bool>& flag_;
  const bool taken_;
};

}  // namespace

struct GraphedFunction::Seen {
  uint64_t serial;
  void* stream;
  std::vector<const void*> places;  // by read_
};

struct GraphedFunction::Graph {
  struct Fixed {
    SlotId input;
    const void* place;
  };
  struct Copied {
    SlotId input;
    at::Tensor tensor;  // of the graph's own
    int64_t bytes;
  };

  std::shared_ptr<BoundFunction> bound;
  void* stream = nullptr;
  std::vector<Fixed> fixed;
  std::vector<Copied> copied;
  std::vector<at::Tensor> roots;  // the memory of results, by roots_; of inputs: undefined
  std::unique_ptr<RunContext> context;
  std::vector<RecordedLaunch> launches;  // of kernels that take numbers
  std::vector<double> numbers;           // that they have
  std::unique_ptr<cuda::Recording> recording;
  std::atomic<int64_t> in_use = 0;  // storages of results that somebody has
};

GraphedFunction::GraphedFunction(const PreparedFunction& prepared, std::vector<InputPlace> inputs,
                                 Steps steps)
    : prepared_(prepared), steps_(std::move(steps)) {
  sort_inputs(std::move(inputs));
  if (std::string why = why_not_recordable(prepared); !why.empty()) refuse(std::move(why));
}

// Results that are in use keep their memory, but need no graph any more.
GraphedFunction::~GraphedFunction() {
  for (const auto& graph : graphs_) {
    graph->recording = nullptr;
    graph->context = nullptr;
  }
}

void GraphedFunction::refuse(std::string why) {
  if (log::enabled(log::Component::kGraphs)) log::write(log::Component::kGraphs, why);
  std::lock_guard lock(mutex_);
  why_not_ = std::move(why);
  refused_ = true;
}

void GraphedFunction::sort_inputs(std::vector<InputPlace> inputs) {
  const plan::Function& function = prepared_.function;
  places_ = std::move(inputs);
  moves_.assign(function.input_count, 0);
  for (SlotId slot = 0; slot < function.input_count; ++slot) {
    if (prepared_.survives[slot] || function.slots[slot].number >= 0) continue;
    read_.push_back(slot);
    // The bits that say that a complex tensor is conjugated are no part of its memory.
    if (prepared_.written[slot] || c10::isComplexType(prepared_.dtype[slot]))
      places_[slot] = InputPlace::kStays;
  }
  for (const PreparedFunction::Step& step : prepared_.steps)
    if (const auto* call = std::get_if<std::unique_ptr<ExternCall>>(&step))
      for (SlotId slot : (*call)->written())
        // What is written op by op may be read through another input that shares its memory.
        if (prepared_.root[slot] < function.input_count)
          std::ranges::fill(places_, InputPlace::kStays);
  for (SlotId slot : function.outputs) {
    if (std::ranges::find(roots_, prepared_.root[slot]) == roots_.end())
      roots_.push_back(prepared_.root[slot]);
    for (SlotId view = slot; view != prepared_.root[slot]; view = function.slots[view].base)
      if (!prepared_.survives[view]) result_views_.push_back(view);
  }
  std::ranges::sort(result_views_);
  const auto repeated = std::ranges::unique(result_views_);
  result_views_.erase(repeated.begin(), repeated.end());
}

std::string GraphedFunction::why_not() const {
  std::lock_guard lock(mutex_);
  return why_not_;
}

bool GraphedFunction::is_of(const Graph& graph, const Call& call) const {
  return graph.bound == call.bound && graph.stream == call.stream;
}

std::shared_ptr<GraphedFunction::Graph> GraphedFunction::find(const Call& call) {
  for (auto graph = graphs_.begin(); graph != graphs_.end(); ++graph) {
    if (!is_of(**graph, call) || (*graph)->in_use.load(std::memory_order_acquire) > 0) continue;
    const bool fits = std::ranges::all_of((*graph)->fixed, [&](const Graph::Fixed& fixed) {
      return call.inputs[fixed.input]->data() == fixed.place;
    });
    if (!fits) continue;
    graphs_.splice(graphs_.begin(), graphs_, graph);
    return *graph;
  }
  return nullptr;
}

// Whether a graph would fit but for the caller's tensors, or for its results being in use, so that
// another one is worth it, or whether there are enough of these. Tensors that have moved are copied
// from now on, and the graph that took them for fixed goes.
GraphedFunction::Fit GraphedFunction::note_moves(const Call& call) {
  int twins = 0;
  for (auto it = graphs_.begin(); it != graphs_.end();) {
    const std::shared_ptr<Graph>& graph = *it;
    std::vector<SlotId> moved;
    bool fits = is_of(*graph, call);
    for (const Graph::Fixed& fixed : graph->fixed) {
      if (!fits) break;
      if (call.inputs[fixed.input]->data() == fixed.place) continue;
      fits = may_copy(fixed.input);
      moved.push_back(fixed.input);
    }
    twins += fits;
    if (!fits || moved.empty()) {
      ++it;
      continue;
    }
    for (SlotId input : moved) moves_[input] = 1;
    it = graphs_.erase(it);  // its results live on
  }
  if (twins == 0) return Fit::kNone;
  return twins < kMostTwins ? Fit::kOther : Fit::kEnough;
}

bool GraphedFunction::may_copy(SlotId input) const {
  return places_[input] == InputPlace::kVaries || moves_[input];
}

bool GraphedFunction::repeats(const Seen& seen, const std::vector<const void*>& places) const {
  for (size_t i = 0; i < read_.size(); ++i)
    if (!may_copy(read_[i]) && seen.places[i] != places[i]) return false;
  return true;
}

// Whether a call that was run step by step had all at the same places that cannot be copied. Those
// of the others that lay elsewhere are copied from now on.
bool GraphedFunction::has_come_before(const Call& call) {
  std::vector<const void*> places;
  for (SlotId slot : read_)
    places.push_back(call.inputs[slot] ? call.inputs[slot]->data() : nullptr);
  for (const Seen& seen : seen_) {
    if (seen.serial != call.bound->serial() || seen.stream != call.stream) continue;
    if (!repeats(seen, places)) continue;
    for (size_t i = 0; i < read_.size(); ++i)
      if (seen.places[i] != places[i]) moves_[read_[i]] = 1;
    return true;
  }
  seen_.push_front({call.bound->serial(), call.stream, std::move(places)});
  if (seen_.size() > kMostSeen) seen_.pop_back();
  note_wanderers(call);
  return false;
}

// Of what is kept for a backward: inputs of the forward that come at another place each time. Where
// most of it does, the forward is not a graph, and nothing is gained by copying all that it makes.
void GraphedFunction::note_wanderers(const Call& call) {
  std::vector<const Seen*> like;
  for (const Seen& seen : seen_)
    if (seen.serial == call.bound->serial() && seen.stream == call.stream) like.push_back(&seen);
  if (like.size() < kMostSeen / 2) return;
  std::vector<SlotId> wanderers;
  size_t kept = 0;
  for (size_t i = 0; i < read_.size(); ++i) {
    if (places_[read_[i]] != InputPlace::kKept) continue;
    ++kept;
    const bool has_returned = std::any_of(like.begin() + 1, like.end(), [&](const Seen* seen) {
      return seen->places[i] == like[0]->places[i];
    });
    if (!has_returned) wanderers.push_back(read_[i]);
  }
  if (2 * wanderers.size() > kept) return;
  for (SlotId input : wanderers) moves_[input] = 1;
}

bool GraphedFunction::may_record(const Call& call) const {
  // A seed of the CPU's would be the same one in all launches.
  for (SlotId slot : read_)
    if (call.inputs[slot] && call.inputs[slot]->device() != prepared_.device) return false;
  return recorded_ < kFreeRecordings || launched_ >= kLaunchesForAnother * recorded_;
}

std::shared_ptr<GraphedFunction::Graph> GraphedFunction::record(const Call& call) {
  auto graph = std::make_shared<Graph>();
  graph->bound = call.bound;
  graph->stream = call.stream;
  graph->numbers.assign(call.numbers.begin(), call.numbers.end());
  try {
    record_steps(graph, call);
  } catch (const std::exception& error) {
    if (graph->recording) graph->recording->abandon();
    refuse(error.what());
    return nullptr;
  }
  if (!graph->recording) return nullptr;
  ++recorded_;
  if (graphs_.size() >= kMostGraphs) graphs_.pop_back();  // the one that was not used for longest
  graphs_.push_front(graph);
  return graph;
}

void GraphedFunction::record_steps(const std::shared_ptr<Graph>& graph, const Call& call) {
  std::vector<c10::TensorImpl*> inputs(call.inputs.begin(), call.inputs.end());
  const Shapes shapes = call.bound->shapes();
  for (SlotId slot : read_) {
    if (!call.inputs[slot]) continue;
    if (!moves_[slot]) {
      graph->fixed.push_back({slot, call.inputs[slot]->data()});
      continue;
    }
    const int64_t bytes = call.bound->bytes(slot);
    graph->copied.push_back({slot,
                             allocate_tensor_on(prepared_.device, shapes.sizes(slot),
                                                shapes.strides(slot), prepared_.dtype[slot], bytes),
                             bytes});
    inputs[slot] = graph->copied.back().tensor.unsafeGetTensorImpl();
  }
  copy_inputs(*graph, call);  // for a recorder that does what it records
  graph->recording =
      cuda::recorder()->begin(prepared_.device, [this, target = graph.get()] { repeat(*target); });
  if (!graph->recording) return;
  std::vector<at::Tensor> outputs;
  graph->context = steps_(*call.bound, inputs, call.numbers, &graph->launches, outputs);
  outputs.clear();
  take_results(*graph);
  graph->recording->finish(!graph->launches.empty());
  if (!graph->launches.empty() && !graph->recording->executable())
    throw UserError("this PyTorch does not let the numbers of a recorded call change");
}

void GraphedFunction::copy_inputs(const Graph& graph, const Call& call) const {
  for (const Graph::Copied& copied : graph.copied)
    cuda::recorder()->copy(copied.tensor.unsafeGetTensorImpl()->mutable_data(),
                           call.inputs[copied.input]->data(), copied.bytes, call.stream);
}

// Step by step, from the places that the graph reads to those of its results.
void GraphedFunction::repeat(Graph& graph) const {
  const Shapes shapes = graph.bound->shapes();
  std::vector<at::Tensor> tensors(prepared_.function.input_count);
  for (const Graph::Fixed& fixed : graph.fixed)
    tensors[fixed.input] = borrow_tensor(
        const_cast<void*>(fixed.place), prepared_.device, shapes.sizes(fixed.input),
        shapes.strides(fixed.input), prepared_.dtype[fixed.input], graph.bound->bytes(fixed.input));
  for (const Graph::Copied& copied : graph.copied) tensors[copied.input] = copied.tensor;
  std::vector<c10::TensorImpl*> inputs;
  for (const at::Tensor& tensor : tensors)
    inputs.push_back(tensor.defined() ? tensor.unsafeGetTensorImpl() : nullptr);
  std::vector<at::Tensor> outputs;
  const std::unique_ptr<RunContext> context =
      steps_(*graph.bound, inputs, graph.numbers, nullptr, outputs);
  for (size_t i = 0; i < roots_.size(); ++i)
    if (graph.roots[i].defined())
      at::_ops::copy_::call(graph.roots[i], context->tensors[roots_[i]], false);
}

void GraphedFunction::take_results(Graph& graph) const {
  for (SlotId root : roots_) {
    graph.roots.emplace_back();
    if (root < prepared_.function.input_count) continue;
    const at::Tensor& memory = graph.context->tensors[root];
    if (memory.defined() && std::ranges::any_of(graph.roots, [&](const at::Tensor& other) {
          return other.defined() && other.is_alias_of(memory);
        }))
      throw UserError("two results share memory that an operator gives");
    graph.roots.back() = memory;
  }
  graph.context->keep_addresses();
}

// Under a storage that tells when the last tensor over it has gone.
at::Tensor GraphedFunction::result(const std::shared_ptr<Graph>& graph, SlotId root) const {
  const at::Tensor& memory = graph->roots[std::ranges::find(roots_, root) - roots_.begin()];
  if (!memory.defined()) return memory;
  auto* lease = new std::shared_ptr<Graph>(graph);
  graph->in_use.fetch_add(1, std::memory_order_relaxed);
  c10::DataPtr data(
      memory.storage().mutable_data(), lease,
      [](void* given) {
        auto* held = static_cast<std::shared_ptr<Graph>*>(given);
        (*held)->in_use.fetch_sub(1, std::memory_order_release);
        delete held;
      },
      memory.device());
  return tensor_like(memory, std::move(data));
}

void GraphedFunction::launch(const std::shared_ptr<Graph>& graph, const Call& call,
                             std::vector<at::Tensor>& outputs) {
  copy_inputs(*graph, call);
  RunContext& context = *graph->context;
  if (!same_bits(graph->numbers, call.numbers)) {
    for (const RecordedLaunch& launch : graph->launches)
      graph->bound->set_numbers(graph->recording->executable(), launch, context, call.numbers);
    graph->numbers.assign(call.numbers.begin(), call.numbers.end());
  }
  graph->recording->launch();
  ++launched_;
  for (SlotId root : roots_) {
    if (prepared_.survives[root]) continue;
    using Pointer = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
    context.tensors[root] = root < prepared_.function.input_count
                                ? at::Tensor(Pointer::reclaim_copy(call.inputs[root]))
                                : result(graph, root);
  }
  for (SlotId view : result_views_) context.bind_view(view, *graph->bound);
  for (SlotId slot : prepared_.function.outputs)
    outputs.push_back(graph->bound->make_output(slot, context));
  for (SlotId root : roots_)
    if (!prepared_.survives[root]) context.tensors[root].reset();
  for (SlotId view : result_views_) context.tensors[view].reset();
}

bool GraphedFunction::run(const std::shared_ptr<BoundFunction>& bound,
                          std::span<c10::TensorImpl* const> inputs, std::span<const double> numbers,
                          std::span<at::Tensor> handed_over, std::vector<at::Tensor>& outputs) {
  cuda::Recorder* recorder = cuda::recorder();
  if (refused_ || !recorder || recorder->device_type() != prepared_.device.type()) return false;
  const Busy busy(busy_);
  if (!busy.taken()) return false;
  std::optional<cuda::CurrentContext> current;
  if (prepared_.on_gpu()) current.emplace(prepared_.context);
  const Call call{bound, inputs, numbers,
                  prepared_.on_gpu() ? cuda::current_stream(prepared_.device) : nullptr};
  if (recorder->is_recording(call.stream)) return false;
  std::shared_ptr<Graph> graph = find(call);
  if (!graph) {
    const Fit fit = note_moves(call);
    const bool known = fit == Fit::kOther || (fit == Fit::kNone && has_come_before(call));
    if (!known || !may_record(call)) return false;
    graph = record(call);
  }
  if (!graph) return false;
  launch(graph, call, outputs);
  for (at::Tensor& input : handed_over) input.reset();
  return true;
}

}  // namespace braze::runtime
