#include <algorithm>
#include <cmath>
#include <random>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/infer/infer.h"
#include "graph/infer/strides.h"
#include "graph/interpreter/interpreter.h"
#include "graph/op_kind.h"
#include "passes/fuzz.h"
#include "passes/unsupported.h"

namespace braze::passes::fuzz {
namespace {

using graph::Argument;
using graph::DType;
using graph::Emitter;
using graph::Graph;
using graph::None;
using graph::OpKind;
using graph::Tensor;
using graph::TensorType;
using graph::Value;
using sym::Dims;
using sym::Int;

class Generator {
 public:
  Generator(unsigned seed, bool mutate) : random_(seed), mutate_(mutate), emit_(graph_, nullptr) {}

  Graph run(int nodes) {
    add_inputs();
    for (int i = 0; i < nodes; ++i) add_node();
    std::vector<Value*> outputs;
    for (int i = 0, count = 1 + pick(4); i < count; ++i) outputs.push_back(any());
    outputs.push_back(values_.back());
    graph_.set_outputs(std::move(outputs));
    return std::move(graph_);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % n); }
  bool chance(int percent) { return pick(100) < percent; }
  Value* any() { return values_[pick(static_cast<int>(values_.size()))]; }
  Value* real() {
    while (true) {
      Value* value = any();
      if (value->type().dtype == DType::kFloat32) return value;
    }
  }
  int64_t size(const Value* value, int64_t dim) { return value->type().sizes[dim].constant(); }

  void add_inputs() {
    const std::vector<Dims> shapes = {{2, 3}, {3}, {4, 3}, {2, 3, 4}, {6}, {1, 3}, {}};
    for (int i = 0, count = 2 + pick(3); i < count; ++i) {
      TensorType type =
          graph::make_type(DType::kFloat32, shapes[pick(static_cast<int>(shapes.size()))]);
      if (chance(20) && type.rank() == 2) type.strides = {1, type.sizes[0]};
      if (chance(10) && type.rank() == 1) type.strides = {2};
      if (chance(10)) type.offset = 3;
      const auto kind = chance(20) ? graph::InputKind::kParameter : graph::InputKind::kUser;
      values_.push_back(graph_.add_input(type, kind, "x" + std::to_string(i)));
    }
    if (chance(10)) {
      const Value* twin = values_[0];
      values_.push_back(
          graph_.add_input(twin->type(), graph::InputKind::kUser, "twin", twin->storage()));
    }
  }

  void add_node() {
    const int before = graph_.value_count();
    const int what = pick(mutate_ ? 12 : 9);
    if (what < 2)
      add_unary();
    else if (what < 4)
      add_binary();
    else if (what < 7)
      add_view();
    else if (what < 8)
      add_reduction();
    else if (what < 9)
      add_other();
    else
      add_in_place();
    if (graph_.value_count() == before || graph_.nodes().empty()) return;
    for (Value* result : graph_.nodes().back()->results()) values_.push_back(result);
  }

  void add_unary() {
    constexpr OpKind kinds[] = {OpKind::krelu,    OpKind::kneg,  OpKind::ktanh,
                                OpKind::ksigmoid, OpKind::ksilu, OpKind::khardswish,
                                OpKind::kabs,     OpKind::kmish, OpKind::khardsigmoid};
    switch (pick(6)) {
      case 0:
        emit_(OpKind::kclone, {any(), None{}});
        return;
      case 1:
        emit_(OpKind::kgelu, {real(), std::string(chance(50) ? "tanh" : "none")});
        return;
      case 2:
        emit_(OpKind::kleaky_relu, {real(), 0.1});
        return;
      case 3:
        emit_(OpKind::k_to_copy, {any(), chance(70) ? DType::kFloat32 : DType::kFloat64, None{},
                                  None{}, None{}, false, None{}});
        return;
      default:
        emit_(kinds[pick(std::size(kinds))], {real()});
        return;
    }
  }

  bool broadcasts(const Value* a, const Value* b) {
    const int64_t common = std::min(a->type().rank(), b->type().rank());
    for (int64_t i = 1; i <= common; ++i) {
      const int64_t x = size(a, a->type().rank() - i), y = size(b, b->type().rank() - i);
      if (x != y && x != 1 && y != 1) return false;
    }
    return true;
  }

  Argument second_operand(const Value* first) {
    Value* other = any();
    if (chance(60) && broadcasts(first, other)) return other;
    const Argument numbers[] = {Int(1), Int(0), 0.5, 1.0, Int(2), -0.0};
    return numbers[pick(6)];
  }

  void add_binary() {
    Value* a = real();
    const Argument b = second_operand(a);
    switch (pick(6)) {
      case 0:
        emit_(OpKind::kadd_Tensor, {a, b, chance(20) ? Int(2) : Int(1)});
        return;
      case 1:
        emit_(OpKind::ksub_Tensor, {a, b, Int(1)});
        return;
      case 2:
        emit_(OpKind::krsub_Scalar, {a, 1.5, Int(1)});
        return;
      case 3:
        emit_(OpKind::kwhere_self, {emit_(OpKind::kgt_Scalar, {a, 0.25}), a, b});
        return;
      case 4:
        emit_(OpKind::klerp_Scalar, {a, a, 0.3});
        return;
      default:
        emit_.mul(a, b);
        return;
    }
  }

  void add_view() {
    Value* x = any();
    const int64_t rank = x->type().rank();
    const int64_t dim = rank ? pick(static_cast<int>(rank)) : 0;
    const bool has_dim = rank > 0 && size(x, dim) > 0;
    switch (pick(12)) {
      case 0:
        if (graph::view_strides(x->type(), Dims{x->type().numel()}))
          emit_(OpKind::kview, {x, Dims{Int(-1)}});
        return;
      case 1: {
        Dims sizes = x->type().sizes;
        sizes.push_back(1);
        emit_(OpKind::kview, {x, sizes});
        return;
      }
      case 2: {
        std::vector<int64_t> order(rank);
        for (int64_t i = 0; i < rank; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random_);
        emit_.permute(x, order);
        return;
      }
      case 3:
        if (rank > 0) emit_(OpKind::ktranspose_int, {x, Int(-1), Int(0)});
        return;
      case 4:
        if (has_dim)
          emit_(OpKind::kslice_Tensor,
                {x, Int(dim), Int(pick(2)),
                 chance(50) ? Argument(None{}) : Argument(Int(size(x, dim))), Int(1 + pick(2))});
        return;
      case 5:
        if (has_dim) emit_(OpKind::kselect_int, {x, Int(dim), Int(chance(50) ? -1 : 0)});
        return;
      case 6:
        emit_(OpKind::kunsqueeze, {x, Int(pick(static_cast<int>(rank) + 1))});
        return;
      case 7:
        emit_(OpKind::ksqueeze, {x});
        return;
      case 8:
        if (has_dim) emit_.node(OpKind::ksplit_Tensor, {x, Int(1 + pick(2)), Int(dim)});
        return;
      case 9:
        if (has_dim) emit_.node(OpKind::kunbind_int, {x, Int(dim)});
        return;
      case 10:
        if (rank >= 2) emit_(OpKind::kdiagonal, {x, Int(pick(2)), Int(0), Int(1)});
        return;
      case 11: {
        if (chance(50)) {
          emit_(OpKind::kdetach, {x});
          return;
        }
        Dims sizes = x->type().sizes;
        sizes.insert(sizes.begin(), 2);
        if (x->type().numel().constant() < 60) emit_(OpKind::kexpand, {x, sizes, false});
        return;
      }
    }
  }

  void add_reduction() {
    Value* x = real();
    const int64_t rank = x->type().rank();
    if (rank == 0 || x->type().numel() == Int(0)) return;
    const Dims dim = {Int(pick(static_cast<int>(rank)))};
    switch (pick(6)) {
      case 0:
        emit_(OpKind::ksum_dim_IntList, {x, dim, chance(50), None{}});
        return;
      case 1:
        emit_(OpKind::kmean_dim, {x, dim, chance(50), None{}});
        return;
      case 2:
        emit_(OpKind::kamax, {x, dim, chance(50)});
        return;
      case 3:
        emit_(OpKind::k_softmax, {x, dim[0], false});
        return;
      case 4:
        emit_(OpKind::kstd_correction, {x, dim, Int(0), chance(50)});
        return;
      case 5:
        emit_.node(OpKind::knative_layer_norm,
                   {x, Dims{x->type().sizes.back()}, None{}, None{}, 1e-2});
        return;
    }
  }

  void add_other() {
    Value* x = real();
    switch (pick(7)) {
      case 0:
        emit_(OpKind::kzeros_like, {x, None{}, None{}, None{}, None{}, None{}});
        return;
      case 1:
        emit_.full(graph::make_type(DType::kFloat32, x->type().sizes), Int(1));
        return;
      case 2:
        emit_(OpKind::kfull_like, {x, 0.5, None{}, None{}, None{}, None{}, None{}});
        return;
      case 3:
        if (x->type().rank() > 0) emit_(OpKind::kcat, {std::vector<Value*>{x, x}, Int(0)});
        return;
      case 4:
        if (x->type().rank() == 2) emit_(OpKind::kmm, {x, emit_.permute(x, {1, 0})});
        return;
      case 5:
        emit_(OpKind::kfull, {Dims{3}, Int(2), DType::kFloat32, None{}, None{}, None{}});
        return;
      case 6:
        if (x->type().rank() == 2) emit_(OpKind::klinear, {x, x, None{}});
        return;
    }
  }

  bool overlaps_itself(const Value* value) {
    for (int64_t i = 0; i < value->type().rank(); ++i) {
      if (size(value, i) > 1 && value->type().strides[i] == Int(0)) return true;
    }
    return false;
  }

  void in_place(const char* name, Value* self, std::vector<Argument> rest) {
    rest.insert(rest.begin(), self);
    graph_.add_node(graph::find_or_add_op(name), std::move(rest), {self->type()}, -1, nullptr,
                    {self->storage()});
  }

  void add_in_place() {
    Value* self = real();
    if (overlaps_itself(self)) return;
    Value* other = any();
    const bool fits = broadcasts(self, other) && [&] {
      const TensorType* both[] = {&self->type(), &other->type()};
      return graph::broadcast_sizes(both) == self->type().sizes;
    }();
    const Argument operand = fits ? Argument(other) : Argument(0.75);
    switch (pick(7)) {
      case 0:
        in_place("aten.add_.Tensor", self, {operand, Int(1)});
        return;
      case 1:
        in_place("aten.mul_.Tensor", self, {operand});
        return;
      case 2:
        in_place("aten.relu_", self, {});
        return;
      case 3:
        if (fits) in_place("aten.copy_", self, {other, false});
        return;
      case 4:
        in_place("aten.zero_", self, {});
        return;
      case 5:
        in_place("aten.fill_.Scalar", self, {0.25});
        return;
      case 6:
        in_place("aten.tanh_", self, {});
        return;
    }
  }

  std::mt19937 random_;
  bool mutate_;
  Graph graph_;
  Emitter emit_;
  std::vector<Value*> values_;
};

}  // namespace

// Inputs that share storage in the graph share memory.
std::vector<Tensor> random_inputs(const Graph& graph, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value* value = graph.inputs()[i].value;
    Tensor tensor = graph::make_tensor(value->type());
    for (size_t j = 0; j < i; ++j) {
      if (graph.inputs()[j].value->storage() == value->storage())
        tensor = graph::view_of(inputs[j], value->type());
    }
    graph::for_each_index(value->type().sizes, [&](std::span<const int64_t> index) {
      tensor.set(index, graph::Number::of(static_cast<double>(random() % 1000) / 250.0 - 2.0));
    });
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

namespace {

bool close(graph::Number a, graph::Number b) {
  const double x = a.as_double(), y = b.as_double();
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (x == y) return true;
  return std::abs(x - y) <= 1e-4 * std::max({1.0, std::abs(x), std::abs(y)});
}

std::string compare(const Tensor& a, const Tensor& b, bool types) {
  if (a.type.sizes != b.type.sizes || a.type.dtype != b.type.dtype ||
      (types && a.type.strides != b.type.strides))
    return "type " + to_string(a.type) + " became " + to_string(b.type);
  const auto x = a.numbers(), y = b.numbers();
  for (size_t i = 0; i < x.size(); ++i) {
    if (!close(x[i], y[i]))
      return "element " + std::to_string(i) + " was " + std::to_string(x[i].as_double()) +
             " and became " + std::to_string(y[i].as_double());
  }
  return "";
}

std::string compare(const Graph& before, const Graph& after, unsigned seed) {
  std::vector<Tensor> old_tensors = random_inputs(before, seed),
                      new_tensors = random_inputs(after, seed);
  const size_t inputs = old_tensors.size();
  auto run = [](const Graph& graph, std::vector<Tensor>& tensors) {
    const std::vector<Tensor> outputs = interpret(graph, tensors);
    tensors.insert(tensors.end(), outputs.begin(), outputs.end());
  };
  run(before, old_tensors);
  try {
    run(after, new_tensors);
  } catch (const InternalError& error) {
    return error.what();
  }
  for (size_t i = 0; i < old_tensors.size(); ++i) {
    const std::string which =
        i < inputs ? "input " + std::to_string(i) : "output " + std::to_string(i - inputs);
    const std::string difference = compare(old_tensors[i], new_tensors[i], true);
    if (!difference.empty()) return which + ": " + difference;
    for (size_t j = 0; j < i; ++j) {
      const bool shared = old_tensors[i].memory == old_tensors[j].memory;
      if (shared != (new_tensors[i].memory == new_tensors[j].memory))
        return which + (shared ? " no longer shares" : " now shares") + " memory with tensor " +
               std::to_string(j);
    }
  }
  return "";
}

std::string check_once(const Graph& before, PassFunction pass, unsigned seed, bool idempotent) {
  Graph after = before.clone();
  try {
    const bool changed = pass(after);
    if (changed == (to_string(before, false) == to_string(after, false)))
      return "a false claim of 'changed'";
    graph::verify(after);
    if (idempotent && pass(after))
      return "a second run changes the graph again, to\n" + to_string(after);
  } catch (const Unsupported&) {
    return "";
  } catch (const InternalError& error) {
    return error.what();
  }
  return compare(before, after, seed);
}

// A smaller graph with the same defect: fewer outputs, fewer nodes.
Graph shrink(Graph graph, PassFunction pass, unsigned seed, bool idempotent) {
  auto fails = [&](const Graph& candidate) {
    try {
      return !check_once(candidate, pass, seed, idempotent).empty();
    } catch (const std::exception&) {
      return false;
    }
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = 0; i < graph.outputs().size() && graph.outputs().size() > 1; ++i) {
      Graph candidate = graph.clone();
      std::vector<Value*> outputs = candidate.outputs();
      outputs.erase(outputs.begin() + static_cast<int64_t>(i));
      candidate.set_outputs(std::move(outputs));
      if (!fails(candidate)) continue;
      graph = std::move(candidate);
      smaller = true;
    }
    for (int i = static_cast<int>(graph.nodes().size()) - 1; i >= 0; --i) {
      Graph candidate = graph.clone();
      graph::Node* node = std::next(candidate.nodes().begin(), i)->get();
      const bool used =
          std::any_of(node->results().begin(), node->results().end(),
                      [&](const Value* result) { return result && candidate.has_uses(result); });
      if (used) continue;
      candidate.erase(node);
      if (!fails(candidate)) continue;
      graph = std::move(candidate);
      smaller = true;
    }
  }
  return graph;
}

}  // namespace

Graph random_graph(unsigned seed, int nodes, bool mutate) {
  Graph graph = Generator(seed, mutate).run(nodes);
  graph::verify(graph);
  return graph;
}

std::string check_pass(Graph graph, PassFunction pass, unsigned seed, bool idempotent) {
  if (check_once(graph, pass, seed, idempotent).empty()) return "";
  const Graph small = shrink(std::move(graph), pass, seed, idempotent);
  Graph after = small.clone();
  std::string text;
  try {
    pass(after);
    text = to_string(after);
  } catch (const std::exception& error) {
    text = error.what();
  }
  return check_once(small, pass, seed, idempotent) + "\nseed " + std::to_string(seed) +
         "\nbefore\n" + to_string(small) + "after\n" + text;
}

}  // namespace braze::passes::fuzz
