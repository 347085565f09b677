// Runs functions without PyTorch: kernels as machine code, extern calls by the graph interpreter.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "compile/compile.h"
#include "compile/slots.h"
#include "graph/infer/infer.h"
#include "graph/interpreter/interpreter.h"
#include "toolchain/toolchain.h"

namespace braze::compile {

class FunctionRunner {
 public:
  FunctionRunner(plan::Function function, const std::vector<plan::Code>& code)
      : function_(std::move(function)) {
    for (const plan::Code& object : code)
      libraries_.push_back(toolchain::build(object.text, object.flags));
  }

  // False when a kernel asks for eager.
  bool run(std::span<const graph::Tensor> inputs, std::vector<graph::Tensor>& outputs) {
    arena_ = std::make_shared<std::vector<std::byte>>(function_.arena_bytes, std::byte{0x7b});
    tensors_.clear();
    for (size_t i = 0; i < function_.slots.size(); ++i) {
      tensors_.push_back(make(function_.slots[i], i < inputs.size() ? &inputs[i] : nullptr));
    }
    for (const plan::Step& step : function_.steps) {
      if (const auto* kernel = std::get_if<plan::KernelStep>(&step)) {
        if (!run_kernel(*kernel)) return false;
      } else if (const auto* call = std::get_if<plan::ExternStep>(&step)) {
        run_call(*call);
      } else if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
        assign(tensor(copy->target), tensor(copy->source));
      } else {
        tensors_[std::get<plan::FreeStep>(step).slot].memory = nullptr;
      }
    }
    for (plan::SlotId slot : function_.outputs) outputs.push_back(tensor(slot));
    return true;
  }

 private:
  graph::Tensor make(const plan::Slot& slot, const graph::Tensor* input) const {
    if (slot.kind == plan::SlotKind::kInput) return *input;
    graph::TensorType type = slot.type;
    if (slot.kind == plan::SlotKind::kArena) {
      type.offset = slot.byte_offset / graph::size_of(type.dtype);
      return {type, arena_};
    }
    type.offset = 0;
    if (slot.kind == plan::SlotKind::kOutput) return graph::make_tensor(type);
    return {type, nullptr};  // views and extern results get their memory when they are met
  }

  graph::Tensor tensor(plan::SlotId id) const {
    const plan::Slot& slot = function_.slots[id];
    if (slot.kind != plan::SlotKind::kView) {
      BRAZE_CHECK(tensors_[id].memory != nullptr, "slot s", id, " holds no tensor");
      return tensors_[id];
    }
    graph::Tensor base = tensor(slot.base);
    graph::TensorType type = slot.type;
    int64_t bytes =
        base.type.offset.constant() * graph::size_of(base.type.dtype) + slot.byte_offset;
    type.offset = bytes / graph::size_of(type.dtype);
    return {type, base.memory};
  }

  static std::byte* address(const graph::Tensor& tensor) {
    return tensor.data() + tensor.type.offset.constant() * graph::size_of(tensor.type.dtype);
  }

  bool run_kernel(const plan::KernelStep& step) {
    using Function = int64_t (*)(void* const*, const int64_t*, int64_t, int64_t);
    const plan::KernelSignature& kernel = function_.kernels[step.kernel];
    auto function = reinterpret_cast<Function>(libraries_.at(kernel.code)->symbol(kernel.name));
    const auto& chunks = std::get<plan::Chunks>(step.launch);
    if (chunks.extent == 0) return true;
    std::vector<void*> args;
    for (plan::SlotId slot : step.args) args.push_back(address(tensor(slot)));
    // In two parts, as threads would.
    const int64_t extent = chunks.extent.constant(), middle = extent / 2;
    const std::vector<int64_t> sizes = sym::constants(function_.kernels[step.kernel].sizes);
    return function(args.data(), sizes.data(), 0, middle) == 0 &&
           function(args.data(), sizes.data(), middle, extent) == 0;
  }

  static void assign(const graph::Tensor& target, const graph::Tensor& source) {
    std::vector<graph::Number> numbers = source.numbers();
    size_t next = 0;
    graph::Tensor to = target;
    graph::for_each_index(target.type.sizes,
                          [&](std::span<const int64_t> index) { to.set(index, numbers[next++]); });
  }

  // The call as a graph of one node.
  void run_call(const plan::ExternStep& step) {
    graph::Graph graph;
    std::vector<graph::Tensor> inputs;
    std::vector<graph::Argument> args;
    for (const plan::Argument& argument : step.args) {
      args.push_back(map_argument<graph::Value*, plan::SlotId>(argument, [&](plan::SlotId slot) {
        inputs.push_back(tensor(slot));
        return graph.add_input(inputs.back().type, graph::InputKind::kUser, "x");
      }));
    }
    const graph::Op& op = graph::find_or_add_op(step.op);
    // The interpreter wants a place for unused results too.
    std::optional<std::vector<graph::TensorType>> inferred = graph::infer_types(op, args);
    std::vector<graph::TensorType> types;
    std::vector<int> storages;
    for (size_t i = 0; i < step.results.size(); ++i) {
      plan::SlotId slot = step.results[i];
      types.push_back(slot >= 0 ? function_.slots[slot].type : inferred.value().at(i));
      int aliased = op.effects.aliased_argument(static_cast<int>(i));
      const auto* value = aliased >= 0 ? std::get_if<graph::Value*>(&args.at(aliased)) : nullptr;
      storages.push_back(value != nullptr ? (*value)->storage() : -1);
    }
    graph::Node* node = graph.add_node(op, std::move(args), types, -1, nullptr, storages);
    std::vector<graph::Value*> values;
    for (size_t i = 0; i < step.results.size(); ++i) {
      if (step.results[i] >= 0) values.push_back(node->result(static_cast<int>(i)));
    }
    graph.set_outputs(values);
    std::vector<graph::Tensor> results = graph::interpret(graph, inputs);
    size_t next = 0;
    for (plan::SlotId slot : step.results) {
      if (slot < 0) continue;
      bool placed = function_.slots[slot].kind != plan::SlotKind::kExtern;
      if (placed) assign(tensors_[slot], results[next]);
      if (!placed) tensors_[slot] = results[next];
      ++next;
    }
  }

  plan::Function function_;
  std::vector<std::shared_ptr<toolchain::Library>> libraries_;
  std::shared_ptr<std::vector<std::byte>> arena_;
  std::vector<graph::Tensor> tensors_;
};

inline std::vector<graph::Tensor> random_inputs(const graph::Graph& graph, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<graph::Tensor> inputs;
  std::map<int, graph::Tensor> by_storage;  // inputs may share memory
  for (const graph::Input& input : graph.inputs()) {
    auto shared = by_storage.find(input.value->storage());
    if (shared != by_storage.end()) {
      inputs.push_back(graph::view_of(shared->second, input.value->type()));
      continue;
    }
    graph::Tensor tensor = graph::make_tensor(input.value->type());
    by_storage.emplace(input.value->storage(), tensor);
    graph::for_each_index(tensor.type.sizes, [&](std::span<const int64_t> index) {
      double uniform = static_cast<double>(random() % 4001) / 1000 - 2;
      bool real = graph::is_float(tensor.type.dtype);
      tensor.set(index, real ? graph::Number::of(uniform)
                             : graph::Number::of(static_cast<int64_t>(random() % 3)));
    });
    inputs.push_back(tensor);
  }
  return inputs;
}

inline std::vector<graph::Tensor> copies(const std::vector<graph::Tensor>& tensors) {
  std::map<const void*, std::shared_ptr<std::vector<std::byte>>> memories;
  std::vector<graph::Tensor> result;
  for (const graph::Tensor& tensor : tensors) {
    auto& memory = memories[tensor.memory.get()];
    if (!memory) memory = std::make_shared<std::vector<std::byte>>(*tensor.memory);
    result.push_back({tensor.type, memory});
  }
  return result;
}

inline void expect_close(const graph::Tensor& got, const graph::Tensor& expected,
                         const std::string& what) {
  std::vector<graph::Number> a = got.numbers(), b = expected.numbers();
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(got.type.sizes, expected.type.sizes) << what;
  EXPECT_EQ(got.type.strides, expected.type.strides) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    double x = a[i].as_double(), y = b[i].as_double();
    bool both_nan = std::isnan(x) && std::isnan(y);
    ASSERT_TRUE(both_nan || x == y || std::abs(x - y) <= 1e-4 * (1 + std::abs(y)))
        << what << ", element " << i << ": " << x << ", not " << y;
  }
}

// Which of the tensors share memory, as the number of the first one for each.
inline std::vector<size_t> sharing(const std::vector<graph::Tensor>& inputs,
                                   const std::vector<graph::Tensor>& outputs) {
  std::vector<const void*> memories;
  for (const auto* list : {&inputs, &outputs}) {
    for (const graph::Tensor& tensor : *list) memories.push_back(tensor.memory.get());
  }
  std::vector<size_t> first;
  for (const void* memory : memories) {
    first.push_back(std::find(memories.begin(), memories.end(), memory) - memories.begin());
  }
  return first;
}

// Compiles with the backend, runs, and compares with the interpreter: outputs, inputs (mutations),
// and what shares memory. Gives the function.
inline plan::Function compile_and_compare(const graph::Graph& graph, Options options = {},
                                          uint32_t seed = 1) {
  std::vector<graph::Tensor> inputs = random_inputs(graph, seed);
  std::vector<graph::Tensor> expected_inputs = copies(inputs);
  std::vector<graph::Tensor> expected = graph::interpret(graph, expected_inputs);
  std::string stages = "traced:\n" + graph::to_string(graph);
  options.dump = [&](const char* stage, const std::string& dump) {
    if (std::string_view(stage) != "code") stages += std::string(stage) + ":\n" + dump + "\n";
  };
  options.check_passes = true;
  plan::Module module = compile(graph.clone(), options);
  SCOPED_TRACE(stages + plan::to_string(module));
  std::vector<graph::Tensor> outputs;
  EXPECT_TRUE(FunctionRunner(module.functions[0], module.code).run(inputs, outputs));
  EXPECT_EQ(outputs.size(), expected.size());
  for (size_t i = 0; i < expected.size() && i < outputs.size(); ++i) {
    expect_close(outputs[i], expected[i], "output " + std::to_string(i));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect_close(inputs[i], expected_inputs[i], "input " + std::to_string(i));
  }
  EXPECT_EQ(sharing(inputs, outputs), sharing(expected_inputs, expected));
  return std::move(module.functions[0]);
}

inline plan::Function compile_and_compare(std::string_view text, Options options = {}) {
  return compile_and_compare(graph::parse(text), std::move(options));
}

template <class StepKind>
int count_steps(const plan::Function& function) {
  int count = 0;
  for (const plan::Step& step : function.steps) count += std::holds_alternative<StepKind>(step);
  return count;
}

}  // namespace braze::compile
