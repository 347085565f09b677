#include "passes/dropout_masks.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/arguments.h"
#include "graph/devices.h"
#include "graph/op_kind.h"
#include "passes/aliasing.h"
#include "passes/decompose_rules.h"

namespace braze::passes {
namespace {

using graph::DType;
using graph::Emitter;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

constexpr int64_t kBlock = 256;        // threads of a block
constexpr int64_t kWords = 4;          // of a counter
constexpr int64_t kAlignedBytes = 16;  // of an address, for any pack
constexpr int64_t kLast32Bit = (int64_t{1} << 31) - 1;

// PyTorch's uniform number of a word, in (0, 1].
float uniform(int64_t word) { return static_cast<float>(word) * 0x1p-32f + 0x1p-33f; }

// How many words, from 0 up, have a uniform number below `p`. PyTorch compares in the precision of
// the tensor, single for halves.
int64_t words_below(float p) {
  int64_t low = 0, high = int64_t{1} << 32;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (uniform(middle) < p)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// A dropout that can be written.
struct MaskDraw {
  Node* node;
  double kept;  // probability
  int64_t numel, threads;
  int pack;

  // By how much it advances the generator: PyTorch's kernels count in steps of 4 numbers a thread.
  int64_t increment() const { return ((numel - 1) / (kWords * threads) + 1) * kWords; }
};

class DropoutMasks {
 public:
  DropoutMasks(Graph& graph, const DropoutMapping& mapping) : graph_(graph), mapping_(mapping) {
    for (const graph::Input& input : graph.inputs())
      if (input.value->storage() >= 0) from_outside_.insert(input.value->storage());
  }

  bool run() {
    // Draws of one state, in order.
    std::vector<std::vector<MaskDraw>> groups(1);
    for (const auto& node : graph_.nodes()) {
      if (std::optional<MaskDraw> draw = draw_of(*node))
        groups.back().push_back(*draw);
      else if (draws_there(*node) && !groups.back().empty())
        groups.emplace_back();
    }
    if (groups.front().empty()) return false;
    refuse_unaligned();
    for (const std::vector<MaskDraw>& group : groups) write(group);
    recompute_storages(graph_);  // Views of what was drawn are views of what is computed.
    return true;
  }

 private:
  bool is_there(const Value* value) const {
    return value && graph::same_device(value->type().device, mapping_.device);
  }

  // Whether the device's generator may be asked by the node.
  bool draws_there(const Node& node) const {
    if (!node.op().effects.random && !node.op().effects.opaque) return false;
    const bool any = std::ranges::any_of(node.results(), [](const Value* v) { return v; });
    return !any || std::ranges::any_of(node.results(), [&](const Value* v) { return is_there(v); });
  }

  int pack_of(DType dtype, int64_t numel) const {
    int pack = dtype == DType::kFloat32                                ? mapping_.single_pack
               : dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? mapping_.half_pack
                                                                       : 0;
    while (pack > 1 && numel % pack != 0) pack /= 2;
    return pack;
  }

  // input, p, train
  std::optional<MaskDraw> draw_of(Node& node) {
    if (node.op().kind != OpKind::knative_dropout) return std::nullopt;
    Value* input = graph::tensor_arg(node, 0);
    const TensorType& type = input->type();
    const graph::ArgumentList args = node;
    if (!is_there(input) || !graph::is_scalar(args[1]) || !graph::bool_arg_or(node, 2, true))
      return std::nullopt;
    const double kept = 1 - graph::scalar_to_double(args[1]);
    const Int numel = type.numel();
    if (!(kept > 0 && kept < 1) || !numel.is_constant() || !type.is_contiguous())
      return std::nullopt;
    const int64_t count = numel.constant();
    if (count <= 0 || count > kLast32Bit) return std::nullopt;
    const int pack = pack_of(type.dtype, count);
    if (pack < kWords || !begins_at_a_pack(*input)) return std::nullopt;
    const int64_t threads = std::min(mapping_.most_threads, (count + kBlock - 1) / kBlock * kBlock);
    return MaskDraw{&node, kept, count, threads, pack};
  }

  // Where the memory is made by the graph, it begins at a multiple of 16 bytes in eager, too.
  bool begins_at_a_pack(const Value& input) {
    const TensorType& type = input.type();
    const int64_t elements = kAlignedBytes / graph::size_of(type.dtype);
    int memory = input.storage();
    sym::Int offset = type.offset;
    // What eager has written to an input in place lies there.
    for (const graph::Mutation& mutation : graph_.mutations()) {
      if (mutation.source->storage() != memory) continue;
      offset = offset - mutation.source->type().offset + mutation.target->type().offset;
      memory = mutation.target->storage();
    }
    if (!from_outside_.contains(memory))
      return offset.is_constant() && offset.constant() % elements == 0;
    const auto root = std::ranges::find_if(graph_.inputs(), [&](const graph::Input& given) {
      return given.value->storage() == memory && given.value->type().offset == offset;
    });
    if (root == graph_.inputs().end()) return false;
    aligned_.insert(root - graph_.inputs().begin());
    return true;
  }

  void refuse_unaligned() {
    if (aligned_.empty()) return;
    Node* first = graph_.nodes().front().get();
    std::vector<Value*> inputs;
    for (const std::ptrdiff_t place : aligned_) inputs.push_back(graph_.inputs()[place].value);
    graph_.add_node(graph::op_of(OpKind::kbraze_refuse_unaligned), {inputs}, {}, first->origin(),
                    first);
  }

  void write(const std::vector<MaskDraw>& group) {
    if (group.empty()) return;
    int64_t increment = 0;
    for (const MaskDraw& draw : group) increment += draw.increment();
    Emitter before_all(graph_, group.front().node);
    Value* state = before_all(OpKind::kbraze_philox_state, {Int(increment), mapping_.device});
    int64_t first = 0;
    for (const MaskDraw& draw : group) {
      write(draw, state, first);
      first += draw.increment() / kWords;
    }
  }

  void write(const MaskDraw& draw, Value* state, int64_t first) {
    Node* node = draw.node;
    Emitter emit(graph_, node);
    Value* input = graph::tensor_arg(*node, 0);
    const auto kept = static_cast<float>(draw.kept);
    Value* mask = emit(OpKind::kbraze_philox_mask,
                       {state, Int(first), input->type().sizes, Int(words_below(kept)),
                        Int(draw.threads), Int(int64_t{draw.pack})});
    // As PyTorch's kernel rounds.
    const auto scale = static_cast<float>(1.0 / static_cast<double>(kept));
    Value* left = emit.mul(in_compute_dtype(emit, input), emit.cast(mask, DType::kFloat32));
    replace(emit, *node, 0, emit.mul(left, static_cast<double>(scale)));
    replace(emit, *node, 1, mask);
    graph_.erase(node);
  }

  void replace(Emitter& emit, const Node& node, size_t i, Value* value) {
    Value* result = node.results()[i];
    if (!result || !graph_.has_uses(result)) return;
    Value* made = with_type(emit, value, result->type());
    BRAZE_CHECK(made, "no copy gives ", graph::to_string(result->type()));
    graph_.replace_all_uses(result, made);
  }

  Graph& graph_;
  const DropoutMapping mapping_;
  std::set<int> from_outside_;        // storages
  std::set<std::ptrdiff_t> aligned_;  // inputs that have to begin at a multiple of 16 bytes
};

}  // namespace

bool use_dropout_masks(Graph& graph, const DropoutMapping& mapping) {
  return DropoutMasks(graph, mapping).run();
}

}  // namespace braze::passes
