// Random graphs, lowered twice: as they are, and with every value an output, so that nothing is
// inlined into anything. Both must give the same numbers, bit by bit.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/emitter.h"
#include "graph/op_kind.h"
#include "loop/run_program.h"

namespace braze::loop {
namespace {

using graph::Argument;
using graph::OpKind;
using graph::Value;

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed), emit_(graph_, nullptr) {
    for (int i = 0; i < 3; ++i) {
      sym::Dims sizes;
      for (int64_t d = pick(4); d > 0; --d) sizes.emplace_back(1 + pick(4));
      graph::TensorType type{.sizes = sizes, .strides = sym::contiguous_strides(sizes)};
      if (i == 2) type.dtype = DType::kInt64;
      values_.push_back(graph_.add_input(type, graph::InputKind::kUser, "x" + std::to_string(i)));
    }
    for (int64_t nodes = 3 + pick(12); nodes > 0; --nodes) step();
    graph_.set_outputs({values_.back()});
  }

  graph::Graph& graph() { return graph_; }
  // All values of the graph, inputs too.
  const std::vector<Value*>& values() const { return values_; }

  std::vector<Numbers> inputs() {
    std::vector<Numbers> all;
    for (const graph::Input& input : graph_.inputs()) {
      Numbers numbers(input.value->type().numel().constant());
      for (double& x : numbers) x = static_cast<double>(pick(9)) - 4;
      all.push_back(numbers);
    }
    return all;
  }

 private:
  int64_t pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Value* any() { return values_[pick(static_cast<int64_t>(values_.size()))]; }
  int64_t dim_of(const Value* v) { return pick(v->type().rank()); }
  void add(Value* value) { values_.push_back(value); }
  static sym::Int size(const Value* v, int64_t dim) { return v->type().sizes[dim]; }

  void step() {
    Value* x = any();
    const int64_t rank = x->type().rank();
    switch (rank == 0 ? pick(4) : pick(18)) {
      case 0:
        return add(emit_(OpKind::kneg, {x}));
      case 1:
        return add(emit_(OpKind::kmul_Tensor, {x, x}));
      case 2:
        return add(emit_(OpKind::kadd_Tensor, {x, sym::Int(1 + pick(3)), sym::Int(1)}));
      case 3:
        return add(emit_(OpKind::kunsqueeze, {x, sym::Int(pick(rank + 1))}));
      case 4: {
        std::vector<int64_t> order(rank);
        for (int64_t i = 0; i < rank; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random_);
        return add(emit_.permute(x, order));
      }
      case 5:
        return add(emit_.reshape(x, {x->type().numel()}));
      case 6: {
        const int64_t dim = dim_of(x), n = size(x, dim).constant();
        const int64_t start = pick(n);
        return add(emit_(OpKind::kslice_Tensor,
                         {x, sym::Int(dim), sym::Int(start), sym::Int(n), sym::Int(1 + pick(2))}));
      }
      case 7: {
        const int64_t dim = dim_of(x);
        return add(emit_(OpKind::kselect_int,
                         {x, sym::Int(dim), sym::Int(pick(size(x, dim).constant()))}));
      }
      case 8: {
        std::vector<Value*> parts(1 + pick(3), x);
        return add(emit_(OpKind::kcat, {parts, sym::Int(dim_of(x))}));
      }
      case 9:
        return add(emit_(OpKind::ksum_dim_IntList,
                         {x, sym::Dims{dim_of(x)}, pick(2) == 0, graph::None()}));
      case 10:
        return add(emit_(OpKind::kamax, {x, sym::Dims{dim_of(x)}, pick(2) == 0}));
      case 11: {
        sym::Dims sizes = x->type().sizes;
        sizes.insert(sizes.begin(), sym::Int(2));
        return add(emit_.expand(x, sizes));
      }
      case 12:
        return add(emit_.contiguous(x));
      case 13: {
        // [a, b, ...] seen as [a*b, ...] and back, through memory order.
        Value* flat = emit_.reshape(x, {x->type().numel()});
        add(emit_(OpKind::kabs, {flat}));
        return add(emit_.reshape(values_.back(), x->type().sizes));
      }
      case 14: {
        // Along one dim, of what is a sum of integers or of floats.
        graph::TensorType type = x->type();
        if (type.dtype != DType::kFloat32 && type.dtype != DType::kInt64) return;
        type.strides = sym::contiguous_strides(type.sizes);
        type.offset = 0;
        return add(emit_.raw(graph::op_of(OpKind::kcumsum), {x, sym::Int(dim_of(x)), graph::None()},
                             type));
      }
      case 15:
        return add_into_places(x);
      default: {
        Value* y = any();
        if (y->type().sizes != x->type().sizes) return add(emit_(OpKind::kabs, {x}));
        return add(emit_.sub(x, y));
      }
    }
  }

  // x, flat, with the integers of an input added to it in places that follow from them, or put
  // there.
  void add_into_places(Value* x) {
    if (x->type().dtype != DType::kFloat32) return;
    Value* target = emit_.reshape(x, {x->type().numel()});
    Value* integers = emit_.reshape(values_[2], {values_[2]->type().numel()});
    Value* places = emit_(OpKind::kremainder_Scalar, {integers, x->type().numel()});
    graph::TensorType type = target->type();
    type.offset = 0;
    Value* source = emit_.cast(integers, DType::kFloat32);
    if (random_() % 2)
      add(emit_.raw(graph::op_of(OpKind::kscatter_src), {target, sym::Int(0), places, source},
                    type));
    else
      add(emit_.raw(graph::op_of(OpKind::kindex_add),
                    {target, sym::Int(0), places, source, sym::Int(1)}, type));
  }

  std::mt19937 random_;
  graph::Graph graph_;
  graph::Emitter emit_;
  std::vector<Value*> values_;
};

TEST(LoweringFuzz, InliningChangesNothing) {
  int lowered_whole = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomGraph random(seed);
    if (random.values().back()->type().numel().constant() > 20000) continue;
    const std::vector<Numbers> inputs = random.inputs();
    const std::string text = graph::to_string(random.graph(), false);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);

    const Program fused = lower(random.graph(), {});
    for (const Item& item : fused.items)
      ASSERT_TRUE(std::holds_alternative<ScheduledKernel>(item)) << to_string(fused);
    const auto expected_of_one = ProgramRunner(fused).run(inputs);
    ASSERT_TRUE(expected_of_one);

    graph::Graph all = random.graph().clone();
    std::vector<Value*> outputs = all.outputs();
    for (const auto& node : all.nodes()) outputs.push_back(node->result());
    all.set_outputs(outputs);
    const Program separate = lower(all, {});
    const auto expected = ProgramRunner(separate).run(inputs);
    ASSERT_TRUE(expected);
    ASSERT_EQ((*expected_of_one)[0].size(), (*expected)[0].size());
    for (size_t i = 0; i < (*expected)[0].size(); ++i)
      ASSERT_EQ((*expected_of_one)[0][i], (*expected)[0][i]) << to_string(fused);
    ++lowered_whole;

    // Every kernel's text reads back as the same kernel in another pool.
    for (const Item& item : fused.items) {
      const std::string kernel = to_string(std::get<ScheduledKernel>(item).kernel);
      ExprPool pool;
      ASSERT_EQ(to_string(parse_kernel(kernel, pool)), kernel);
    }
  }
  EXPECT_GT(lowered_whole, 300);
}

}  // namespace
}  // namespace braze::loop
