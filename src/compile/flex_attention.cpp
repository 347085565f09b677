#include "compile/flex_attention.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cuda/flex_attention.h"
#include "graph/arguments.h"
#include "graph/op_kind.h"
#include "loop/program.h"
#include "passes/pipeline.h"
#include "passes/unsupported.h"

namespace braze::compile {
namespace {

using codegen::cuda::FlexAttention;
using codegen::cuda::FlexCode;
using codegen::cuda::FlexKernel;
using graph::Argument;
using graph::Node;
using graph::OpKind;
using graph::Value;
using Values = std::vector<Value*>;

// Arguments by position. Keys and values stand behind the query.
struct Positions {
  int query, tables, key_blocks, query_blocks, program, scale, block;
};
constexpr Positions kForward{0, 3, 4, 5, 6, 7, 8}, kBackward{2, 6, 7, 8, 9, 10, 11};
constexpr int kStrides = 9;                           // of a forward
constexpr int kTangent = 0, kOffsets = 1, kSums = 5;  // of a backward

constexpr int kNumbers = 2;  // inputs of a program before its tables

const Values& list(const Node& node, int argument) {
  return std::get<Values>(node.args()[argument]);
}

std::optional<FlexAttention> sizes_of(const Node& node, const Positions& at) {
  const auto& query = graph::tensor_arg(node, at.query)->type();
  const auto& key = graph::tensor_arg(node, at.query + 1)->type();
  const auto& value = graph::tensor_arg(node, at.query + 2)->type();
  constexpr int64_t kMostBlocks = 65535;  // of a launch, along its second and third axis
  for (sym::Int size : {query.sizes[0], query.sizes[1], query.sizes[2], query.sizes[3],
                        key.sizes[2], value.sizes[3]})
    if (!size.is_constant()) return std::nullopt;
  if (std::max(query.sizes[0].constant(), query.sizes[1].constant()) > kMostBlocks)
    return std::nullopt;
  FlexAttention attention{.dtype = query.dtype,
                          .depth = query.sizes[3].constant(),
                          .value_depth = value.sizes[3].constant(),
                          .queries = query.sizes[2].constant(),
                          .keys = key.sizes[2].constant()};
  const auto& block = std::get<std::vector<sym::Int>>(node.args()[at.block]);
  for (size_t i = 0; i < attention.block.size(); ++i) {
    if (!block.at(i).is_constant()) return std::nullopt;
    attention.block[i] = block[i].constant();
  }
  return attention;
}

// Whether a BlockMask's lists are of this call, so that each block of queries, or of keys, has one.
bool has_lists(const Values& lists, const FlexAttention& attention, const graph::TensorType& query,
               bool by_keys) {
  const int64_t rows = by_keys ? attention.keys : attention.queries;
  const int64_t block = attention.block[by_keys ? 1 : 0];
  if (block == 0) return lists.empty();
  if (lists.size() != 2 && lists.size() != 4) return false;
  for (size_t i = 0; i < lists.size(); ++i) {
    const bool counts = i % 2 == 0;  // and behind them columns
    const sym::Dims &sizes = lists[i]->type().sizes, &first = lists[0]->type().sizes;
    if (sizes.size() != (counts ? 3 : 4) ||
        !std::ranges::all_of(sizes, [](sym::Int size) { return size.is_constant(); }))
      return false;
    for (int dim : {0, 1})
      if (sizes[dim] != sym::Int(1) && sizes[dim] != query.sizes[dim]) return false;
    if (!std::equal(first.begin(), first.end(), sizes.begin())) return false;
    if (!counts && sizes[3] != lists[1]->type().sizes[3]) return false;
  }
  return lists[0]->type().sizes[2].constant() * block >= rows;
}

// What a score becomes, for all kernels of a node.
struct Described {
  FlexAttention attention;
  loop::Program program;
};

// Nothing where there is no code.
std::optional<Described> described(const Node& node, const Positions& at, bool is_backward,
                                   const target::Cuda& cuda) {
  std::optional<FlexAttention> attention = sizes_of(node, at);
  if (!attention || !codegen::cuda::why_unsupported(*attention, cuda).empty()) return std::nullopt;
  const graph::TensorType& query = graph::tensor_arg(node, at.query)->type();
  if (!has_lists(list(node, at.key_blocks), *attention, query, /*by_keys=*/false) ||
      (is_backward && !has_lists(list(node, at.query_blocks), *attention, query, /*by_keys=*/true)))
    return std::nullopt;
  const graph::Device device = node.result()->type().device;
  for (const Value* table : list(node, at.tables))
    if (!graph::same_device(table->type().device, device)) return std::nullopt;
  graph::Graph program = graph::parse(std::get<std::string>(node.args()[at.program]));
  try {
    passes::run_inference_pipeline(program, {});
  } catch (const passes::Unsupported&) {
    return std::nullopt;
  }
  std::optional<loop::Program> lowered = loop::lower_elements(program, cuda);
  if (!lowered) return std::nullopt;
  const Values& outputs = program.outputs();
  // Weights are exponentials of scores times the scale, the largest of them that of the largest
  // score: not so of a scale that is negative or zero.
  const bool turns = !(std::get<double>(node.args()[at.scale]) > 0);
  if (turns || outputs[0] != program.inputs()[0].value) attention->change = 0;
  if (outputs[1] != program.inputs()[1].value) attention->gradient = 1;
  if (outputs.size() > 2) attention->mask = 2;
  return Described{*attention, std::move(*lowered)};
}

std::vector<sym::Int> launch_of(const FlexCode& code) {
  return {code.rows, code.threads, code.shared_bytes};
}

Values tables_of(const FlexCode& code, const Values& given) {
  Values tables;
  for (int input : code.tables) tables.push_back(given.at(input - kNumbers));
  return tables;
}

void replace(graph::Graph& graph, Node* node, OpKind kind, std::vector<Argument> arguments) {
  std::vector<graph::TensorType> types;
  for (const Value* result : node->results())
    types.push_back(result ? result->type() : graph::TensorType{});
  Node* made = graph.add_node(graph::op_of(kind), std::move(arguments), std::move(types),
                              node->origin(), node);
  for (size_t i = 0; i < node->results().size(); ++i) {
    if (node->results()[i])
      graph.replace_all_uses(node->results()[i], made->result(static_cast<int>(i)));
    else
      graph.set_result_undefined(made, static_cast<int>(i));
  }
  graph.erase(node);
}

}  // namespace

void use_flex_kernels(graph::Graph& graph, const target::Target& target) {
  const auto* cuda = std::get_if<target::Cuda>(&target);
  if (!cuda) return;
  for (auto it = graph.nodes().begin(); it != graph.nodes().end();) {
    Node* node = (it++)->get();
    const bool is_backward = node->op().kind == OpKind::kbraze_flex_attention_backward;
    if (!is_backward && node->op().kind != OpKind::kbraze_flex_attention) continue;
    const Positions& at = is_backward ? kBackward : kForward;
    std::optional<Described> made = described(*node, at, is_backward, *cuda);
    if (!made) continue;
    const auto generate = [&](FlexKernel kernel) {
      return codegen::cuda::generate_flex(kernel, made->attention, made->program, *cuda);
    };
    const std::vector<Argument>& args = node->args();
    const Values& tables = list(*node, at.tables);
    const Argument &query = args[at.query], &key = args[at.query + 1], &value = args[at.query + 2];
    const Argument &key_blocks = args[at.key_blocks], &scale = args[at.scale];
    if (is_backward) {
      const FlexCode of_query = generate(FlexKernel::kQueryGradient);
      const FlexCode of_key = generate(FlexKernel::kKeyGradient);
      replace(graph, node, OpKind::kbraze_flex_attention_backward_kernel,
              {args[kTangent], args[kOffsets], query, key, value, args[kSums],
               tables_of(of_query, tables), key_blocks, args[at.query_blocks], of_query.text,
               of_key.text, scale, launch_of(of_query), launch_of(of_key)});
    } else {
      const FlexCode code = generate(FlexKernel::kForward);
      replace(graph, node, OpKind::kbraze_flex_attention_kernel,
              {query, key, value, tables_of(code, tables), key_blocks, code.text, scale,
               args[kStrides], launch_of(code)});
    }
  }
}

}  // namespace braze::compile
