// Ops as PyTorch ran them (make_eager_cases.py): metadata inference must give eager's types, and
// the pipeline must keep eager's numbers and types.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <sstream>

#include "graph/infer/infer.h"
#include "graph/interpreter/interpreter.h"
#include "passes/decompose.h"
#include "passes/pipeline.h"

namespace braze::passes {
namespace {

using graph::Graph;
using graph::Tensor;

struct Case {
  std::string text;
  std::vector<std::vector<double>> inputs, outputs;
};

std::vector<double> numbers(std::istringstream line) {
  std::vector<double> values;
  for (std::string word; line >> word;) values.push_back(std::stod(word));
  return values;
}

std::vector<Case> read_cases() {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "eager_cases.txt");
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("graph(")) cases.emplace_back();
    Case& current = cases.back();
    if (line.starts_with("in"))
      current.inputs.push_back(numbers(std::istringstream(line.substr(2))));
    else if (line.starts_with("out"))
      current.outputs.push_back(numbers(std::istringstream(line.substr(3))));
    else
      current.text += line + "\n";
  }
  return cases;
}

Tensor tensor_of(const graph::TensorType& type, const std::vector<double>& values) {
  Tensor tensor = graph::make_tensor(type);
  size_t next = 0;
  graph::for_each_index(type.sizes, [&](std::span<const int64_t> index) {
    tensor.set(index, graph::Number::of(values.at(next++)));
  });
  return tensor;
}

double tolerance(graph::DType dtype) {
  if (dtype == graph::DType::kBFloat16) return 1e-2;
  return dtype == graph::DType::kFloat16 ? 2e-3 : 3e-6;
}

void expect_numbers(const Tensor& tensor, const std::vector<double>& expected) {
  const std::vector<graph::Number> actual = tensor.numbers();
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const double a = actual[i].as_double(), b = expected[i];
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                      std::abs(a - b) <= tolerance(tensor.type.dtype) * std::max(1.0, std::abs(b));
    EXPECT_TRUE(same) << "element " << i << ": " << a << ", eager has " << b;
  }
}

TEST(EagerCases, InferenceGivesEagersTypes) {
  int inferred_cases = 0;
  for (const Case& one : read_cases()) {
    SCOPED_TRACE(one.text);
    const Graph graph = graph::parse(one.text);
    const graph::Node& node = *graph.nodes().back();
    const auto types = graph::infer_types(node.op(), node.args());
    if (!types) continue;
    ++inferred_cases;
    ASSERT_EQ(types->size(), node.results().size());
    for (size_t i = 0; i < types->size(); ++i)
      EXPECT_EQ(to_string(types->at(i)), to_string(node.results()[i]->type()));
  }
  EXPECT_GT(inferred_cases, 200);
}

// The same graph with all tensors on another device.
std::string moved(const std::string& text) {
  static const std::regex type(R"(: \w+\[[^\]]*\](\{[^}]*\})?(\+\d+)?)");
  return std::regex_replace(text, type, "$&@cuda:1");
}

TEST(EagerCases, NothingDropsTheDevice) {
  int inferred_cases = 0;
  for (const Case& one : read_cases()) {
    Graph graph = graph::parse(moved(one.text));
    SCOPED_TRACE(to_string(graph));
    const graph::Node& node = *graph.nodes().back();
    if (node.operands().empty()) continue;  // a factory, which was not asked for a device
    if (const auto types = graph::infer_types(node.op(), node.args())) {
      ++inferred_cases;
      for (size_t i = 0; i < types->size(); ++i)
        EXPECT_EQ(types->at(i).device, node.results()[i]->type().device);
    }
    run_inference_pipeline(graph, {});
    for (const auto& made : graph.nodes())
      for (const graph::Value* result : made->results())
        if (result)
          EXPECT_EQ(result->type().device, graph.inputs()[0].value->type().device)
              << to_string(*made);
  }
  EXPECT_GT(inferred_cases, 200);
}

// Whether the interpreter knows the graph, whose outputs have eager's numbers then.
bool gives_eagers_numbers(const Graph& graph, const Case& one) {
  std::vector<Tensor> inputs, outputs;
  for (size_t i = 0; i < one.inputs.size(); ++i)
    inputs.push_back(tensor_of(graph.inputs()[i].value->type(), one.inputs[i]));
  try {
    outputs = graph::interpret(graph, inputs);
  } catch (const InternalError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("the interpreter does not know"), std::string::npos) << what;
    return false;
  }
  for (size_t i = 0; i < outputs.size(); ++i) expect_numbers(outputs[i], one.outputs[i]);
  return true;
}

// Some operators are taken apart on GPUs alone, or otherwise there.
TEST(EagerCases, DecompositionsOnAGpuKeepEagersNumbers) {
  int known = 0;
  for (const Case& one : read_cases()) {
    Graph graph = graph::parse(moved(one.text));
    if (!decompose(graph)) continue;
    SCOPED_TRACE(to_string(graph));
    known += gives_eagers_numbers(graph, one);
  }
  EXPECT_GT(known, 80);
}

// The reference itself: the ops as they are.
TEST(EagerCases, InterpreterGivesEagersNumbers) {
  int known = 0;
  for (const Case& one : read_cases()) {
    SCOPED_TRACE(one.text);
    known += gives_eagers_numbers(graph::parse(one.text), one);
  }
  EXPECT_GT(known, 300);
}

TEST(EagerCases, PipelineKeepsEagersNumbers) {
  const std::vector<Case> cases = read_cases();
  ASSERT_GT(cases.size(), 250u);
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    Graph graph = graph::parse(one.text);
    const std::vector<graph::Value*> before = graph.outputs();
    std::vector<graph::TensorType> types;
    for (const graph::Value* output : before) types.push_back(output->type());
    run_inference_pipeline(graph, {});
    SCOPED_TRACE(to_string(graph));
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < one.inputs.size(); ++i)
      inputs.push_back(tensor_of(graph.inputs()[i].value->type(), one.inputs[i]));
    const std::vector<Tensor> outputs = graph::interpret(graph, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(to_string(outputs[i].type), to_string(types[i]));
      expect_numbers(outputs[i], one.outputs[i]);
    }
  }
}

}  // namespace
}  // namespace braze::passes
