// Random symbolic graphs, compiled once, against the interpreter on several sizes.
#include <gtest/gtest.h>

#include "compile/function_runner.h"
#include "exhaustive.h"
#include "graph/emitter.h"
#include "graph/op_kind.h"
#include "graph/substitute.h"
#include "plan/binder.h"
#include "plan/round_trip.h"
#include "sym/facts.h"

namespace braze::compile {
namespace {

using graph::OpKind;
using graph::Value;
using sym::Int;

const std::vector<std::vector<int64_t>> kValues = {{2, 3},  {3, 2},  {7, 5},  {8, 16}, {17, 3},
                                                   {5, 33}, {16, 9}, {64, 2}, {2, 65}};
constexpr int64_t kMostElements = 20000;

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {
    auto arena = std::make_shared<sym::ExprArena>();
    const int64_t hints[][2] = {{7, 5}, {3, 64}, {48, 16}};
    const auto& hint = hints[seed % 3];
    a_ = Int(arena->symbol("s0", hint[0], {2, INT64_MAX}));
    b_ = Int(arena->symbol("s1", hint[1], {2, INT64_MAX}));
    Value* x = input({a_, b_});
    input({a_, b_, 4});
    input({b_});
    input({4, b_});
    input({a_, 1});
    graph_.set_symbols(arena, {{.input = x, .index = 0}, {.input = x, .index = 1}});
  }

  graph::Graph make(int nodes) {
    emit_.emplace(graph_, nullptr);
    for (int tries = 0; nodes > 0 && tries < 200; ++tries) {
      Value* made = step();
      if (made == nullptr) continue;
      if (graph::is_float(made->type().dtype) && is_small(made->type().sizes))
        values_.push_back(made);
      else
        others_.push_back(made);
      --nodes;
    }
    std::vector<Value*> outputs = {values_.back()};
    if (!others_.empty()) outputs.push_back(others_.back());
    for (int i = 0; i < 2; ++i) outputs.push_back(value());
    graph_.set_outputs(outputs);
    return std::move(graph_);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % n); }
  Value* value() { return values_[pick(static_cast<int>(values_.size()))]; }

  Value* input(sym::Dims sizes) {
    graph::TensorType type;
    type.strides = sym::contiguous_strides(sizes);
    type.sizes = std::move(sizes);
    values_.push_back(graph_.add_input(type, graph::InputKind::kUser, "x"));
    return values_.back();
  }

  static bool is_small(const sym::Dims& sizes) {
    return sizes.size() <= 4 &&
           std::all_of(kValues.begin(), kValues.end(), [&](const std::vector<int64_t>& values) {
             return sym::evaluate(sym::product(sizes), values) <= kMostElements;
           });
  }

  static bool broadcasts(const sym::Dims& x, const sym::Dims& y) {
    for (size_t i = 1; i <= std::min(x.size(), y.size()); ++i) {
      const Int a = x[x.size() - i], b = y[y.size() - i];
      if (a != b && a != Int(1) && b != Int(1)) return false;
    }
    return true;
  }

  // Null where the op does not go with the values that were drawn.
  Value* step() {
    graph::Emitter& emit = *emit_;
    Value* x = value();
    const sym::Dims sizes = x->type().sizes;
    const auto rank = static_cast<int64_t>(sizes.size());
    const int64_t dim = rank > 0 ? pick(static_cast<int>(rank)) : 0;
    switch (pick(16)) {
      case 0: {
        const OpKind kinds[] = {OpKind::krelu,    OpKind::ktanh, OpKind::kneg,
                                OpKind::ksigmoid, OpKind::kabs,  OpKind::ksin};
        return emit.unary(kinds[pick(6)], x);
      }
      case 1:
      case 2: {
        Value* y = value();
        if (!broadcasts(sizes, y->type().sizes)) return nullptr;
        Value* sum = pick(2) ? emit.add(x, y) : emit.mul(x, y);
        return is_small(sum->type().sizes) ? sum : nullptr;
      }
      case 3:
        return pick(2) ? emit.mul(x, 0.25) : emit.mul(x, pick(2) ? a_ : b_);
      case 4:
        if (rank < 2) return nullptr;
        return emit(OpKind::ktranspose_int, {x, Int(dim), Int((dim + 1) % rank)});
      case 5: {  // two dims as one
        if (rank < 2 || dim + 1 >= rank) return nullptr;
        sym::Dims merged = sizes;
        merged[dim] = sizes[dim] * sizes[dim + 1];
        merged.erase(merged.begin() + dim + 1);
        return emit.reshape(x, merged);
      }
      case 6: {  // one dim as two
        if (rank == 0) return nullptr;
        for (Int by : {a_, b_, Int(4), Int(2)}) {
          auto rest = sym::divide_exactly(sizes[dim], by);
          if (!rest || *rest == Int(1)) continue;
          sym::Dims split = sizes;
          split[dim] = *rest;
          split.insert(split.begin() + dim + 1, by);
          return emit.reshape(x, split);
        }
        return nullptr;
      }
      case 7:
        return emit(OpKind::kunsqueeze, {x, Int(dim)});
      case 8: {
        if (rank == 0) return nullptr;
        const OpKind kinds[] = {OpKind::ksum_dim_IntList, OpKind::kmean_dim};
        return emit(kinds[pick(2)], {x, sym::Dims{dim}, pick(2) == 0, graph::None{}});
      }
      case 9:
        if (rank == 0 || !sym::known_positive(sizes[dim])) return nullptr;
        if (pick(2)) return emit(OpKind::kargmax, {x, Int(dim), false});
        return emit(OpKind::kamax, {x, sym::Dims{dim}, pick(2) == 0});
      case 10:
        if (rank == 0) return nullptr;
        return emit(pick(2) ? OpKind::k_softmax : OpKind::k_log_softmax, {x, Int(dim), false});
      case 11:
        if (rank == 0) return nullptr;
        return emit(OpKind::knative_layer_norm,
                    {x, sym::Dims{sizes.back()}, graph::None{}, graph::None{}, 1e-5});
      case 12: {
        if (rank == 0 || !sym::known_at_least(sizes[dim], 2)) return nullptr;
        const int64_t start = pick(2), step = 1 + pick(2);
        return emit(OpKind::kslice_Tensor, {x, Int(dim), Int(start), Int(INT64_MAX), Int(step)});
      }
      case 13:
        if (rank == 0 || !sym::known_positive(sizes[dim])) return nullptr;
        return emit(OpKind::kselect_int, {x, Int(dim), Int(-pick(2))});
      case 14: {
        if (rank == 0) return nullptr;
        std::vector<Value*> parts = {x};
        for (Value* other : values_) {
          sym::Dims own = other->type().sizes;
          if (own.size() != sizes.size() || parts.size() == 3) continue;
          own[dim] = sizes[dim];
          if (own == sizes) parts.push_back(other);
        }
        Value* all = emit(OpKind::kcat, {parts, Int(dim)});
        return is_small(all->type().sizes) ? all : nullptr;
      }
      default:
        if (rank != 2) return emit.contiguous(x);
        return emit(OpKind::kmm, {x, emit(OpKind::kt, {x})});
    }
  }

  std::mt19937 random_;
  graph::Graph graph_;
  std::optional<graph::Emitter> emit_;
  std::vector<Value*> values_, others_;
  Int a_, b_;
};

void run(unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  graph::Graph graph = Generator(seed).make(4 + static_cast<int>(seed % 9));
  graph::verify(graph);
  Options options{.target = target::Cpu{target::host_isa()}, .check_passes = true};
  const plan::Module module = compile(graph.clone(), options);
  const plan::Module stored = plan::round_trip(module);
  SCOPED_TRACE(graph::to_string(graph) + plan::to_string(module) +
               (module.code.empty() ? "" : module.code[0].text));
  plan::Binder binder(stored.functions[0]);
  for (const std::vector<int64_t>& values : kValues) {
    SCOPED_TRACE("sizes " + testing::PrintToString(values));
    graph::Graph fixed = graph::substitute(graph, values);
    std::vector<graph::Tensor> inputs = random_inputs(fixed, seed);
    std::vector<graph::Tensor> expected;
    ASSERT_NO_THROW(expected = graph::interpret(fixed, copies(inputs)));  // with its traces
    plan::Function bound = binder.bind(values);
    std::vector<graph::Tensor> outputs;
    ASSERT_TRUE(FunctionRunner(bound, module.code).run(inputs, outputs));
    for (size_t i = 0; i < expected.size() && i < outputs.size(); ++i)
      expect_close(outputs[i], expected[i], "output " + std::to_string(i));
    if (testing::Test::HasFailure()) return;
  }
}

void fuzz(unsigned first, unsigned count) {
  for (unsigned seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed)
    run(seed);
}

TEST(SymbolicFuzz, RandomGraphs) { fuzz(0, exhaustive() ? 25 : 2); }
// Run by tests/fuzz.py.
TEST(SymbolicFuzz, DISABLED_ManyRandomGraphs) {
  fuzz(number_given("BRAZE_FUZZ_SEED", 1000), number_given("BRAZE_FUZZ_COUNT", 400));
}

}  // namespace
}  // namespace braze::compile
