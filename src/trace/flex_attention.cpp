#include "trace/flex_attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "trace/replay.h"

namespace braze::trace {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using TwoTensors = std::tuple<Tensor, Tensor>;
using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What the operator is given beside the three matrices, and with it what its gradient is.
struct Rest {
  Tensors tables, key_blocks, query_blocks;
  std::string program;
  double scale;
  std::vector<int64_t> block;
};

const c10::OperatorHandle& operator_named(const char* name) {
  static auto& handles = *new std::map<std::string, c10::OperatorHandle>;
  static auto& mutex = *new std::mutex;
  const std::scoped_lock lock(mutex);
  const auto found = handles.find(name);
  if (found != handles.end()) return found->second;
  return handles.emplace(name, c10::Dispatcher::singleton().findSchemaOrThrow(name, ""))
      .first->second;
}

// Heads of keys, or values, are shared by as many neighbouring heads of queries.
Tensor for_each_query(const Tensor& tensor, const Tensor& query) {
  const int64_t groups = query.size(1) / tensor.size(1);
  return groups == 1 ? tensor : tensor.repeat_interleave(groups, 1);
}

Tensor over_groups(const Tensor& gradient, const Tensor& shared) {
  const int64_t groups = gradient.size(1) / shared.size(1);
  if (groups == 1) return gradient;
  return gradient.unflatten(1, {shared.size(1), groups}).sum(2);
}

// The outputs of the program for scores, and for what comes for the gradient.
struct Outputs {
  Tensor changed, gradient, mask;  // no mask: undefined
};
Outputs run_program(const Rest& rest, const Tensor& scores, const Tensor& tangent) {
  const graph::Graph program = graph::parse(rest.program);
  Tensors inputs = {scores, tangent};
  inputs.insert(inputs.end(), rest.tables.begin(), rest.tables.end());
  Tensors made = replay(program, inputs, {}, /*check=*/false);
  return {made.at(0), made.at(1), made.size() > 2 ? made[2] : Tensor()};
}

Tensor scores_of(const Tensor& query, const Tensor& key, double scale) {
  const Tensor keys = for_each_query(key, query).to(at::kFloat);
  return at::matmul(query.to(at::kFloat), keys.transpose(-2, -1)).mul(scale);
}

Tensor hidden(const Outputs& outputs, at::IntArrayRef sizes) {
  const Tensor changed = outputs.changed.expand(sizes);
  if (!outputs.mask.defined()) return changed;
  return at::where(outputs.mask, changed, at::full({}, -kInfinity, changed.options()));
}

TwoTensors attend(const Tensor& query, const Tensor& key, const Tensor& value, const Rest& rest,
                  at::IntArrayRef strides) {
  const Tensor scores = scores_of(query, key, rest.scale);
  const Outputs outputs =
      run_program(rest, scores, at::zeros({}, scores.options()).expand(scores.sizes()));
  const Tensor counted = hidden(outputs, scores.sizes());
  const Tensor weights = at::_safe_softmax(counted, -1).to(query.scalar_type());
  const Tensor out = at::matmul(weights, for_each_query(value, query));
  return {at::empty_strided(out.sizes(), strides, out.options()).copy_(out),
          at::logsumexp(counted, -1)};
}

// Differentiable itself.
ThreeTensors gradients(const Tensor& tangent, const Tensor& offsets, const Tensor& query,
                       const Tensor& key, const Tensor& value, const Tensor& sums,
                       const Rest& rest) {
  const Tensor scores = scores_of(query, key, rest.scale);
  const Tensor incoming = tangent.to(at::kFloat);
  const Tensor values = for_each_query(value, query).to(at::kFloat);
  const Tensor none = at::full({}, kInfinity, sums.options());
  const Tensor total = at::where(sums.eq(-kInfinity), none, sums).unsqueeze(-1);
  const Outputs forward = run_program(rest, scores, scores.detach());
  const Tensor weights = hidden(forward, scores.sizes()).sub(total).exp();
  const Tensor of_scores =
      at::matmul(incoming, values.transpose(-2, -1)).sub(offsets.unsqueeze(-1)).mul(weights);
  const Tensor gradient =
      run_program(rest, scores, of_scores).gradient.expand(scores.sizes()).mul(rest.scale);
  const Tensor keys = for_each_query(key, query).to(at::kFloat);
  const Tensor of_keys = at::matmul(gradient.transpose(-2, -1), query.to(at::kFloat));
  const Tensor of_values = at::matmul(weights.transpose(-2, -1), incoming);
  return {at::matmul(gradient, keys).to(query.scalar_type()),
          over_groups(of_keys, key).to(key.scalar_type()),
          over_groups(of_values, value).to(value.scalar_type())};
}

std::vector<int64_t> numbers(c10::SymIntArrayRef list) {
  std::vector<int64_t> result;
  for (const c10::SymInt& number : list) result.push_back(number.guard_int(__FILE__, __LINE__));
  return result;
}

TwoTensors flex_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          at::TensorList tables, at::TensorList key_blocks,
                          at::TensorList query_blocks, c10::string_view program, double scale,
                          c10::SymIntArrayRef block, c10::SymIntArrayRef strides) {
  return attend(query, key, value,
                {tables.vec(), key_blocks.vec(), query_blocks.vec(), std::string(program), scale,
                 numbers(block)},
                numbers(strides));
}

TwoTensors flex_attention_meta(const Tensor& query, const Tensor& key, const Tensor& value,
                               at::TensorList, at::TensorList, at::TensorList, c10::string_view,
                               double, c10::SymIntArrayRef, c10::SymIntArrayRef strides) {
  (void)key;
  c10::SymDimVector sizes(query.sym_sizes());
  const Tensor sums =
      at::empty_symint({sizes[0], sizes[1], sizes[2]}, query.options().dtype(at::kFloat));
  sizes[3] = value.sym_size(3);
  return {at::empty_strided_symint(sizes, strides, query.options()), sums};
}

ThreeTensors flex_attention_backward(const Tensor& tangent, const Tensor& offsets,
                                     const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& sums, at::TensorList tables,
                                     at::TensorList key_blocks, at::TensorList query_blocks,
                                     c10::string_view program, double scale,
                                     c10::SymIntArrayRef block) {
  const auto [of_query, of_key, of_value] =
      gradients(tangent, offsets, query, key, value, sums,
                {tables.vec(), key_blocks.vec(), query_blocks.vec(), std::string(program), scale,
                 numbers(block)});
  return {at::empty_like(query).copy_(of_query), at::empty_like(key).copy_(of_key),
          at::empty_like(value).copy_(of_value)};
}

ThreeTensors flex_attention_backward_meta(const Tensor&, const Tensor&, const Tensor& query,
                                          const Tensor& key, const Tensor& value, const Tensor&,
                                          at::TensorList, at::TensorList, at::TensorList,
                                          c10::string_view, double, c10::SymIntArrayRef) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

using Forward = decltype(flex_attention);
using Backward = decltype(flex_attention_backward);

c10::SymDimVector symbols_of(const c10::IValue& list) {
  c10::SymDimVector result;
  for (int64_t number : list.toIntVector()) result.emplace_back(number);
  return result;
}

class FlexAttention : public torch::autograd::Function<FlexAttention> {
 public:
  static Tensors forward(torch::autograd::AutogradContext* context, const Tensor& query,
                         const Tensor& key, const Tensor& value, const Rest& rest,
                         const std::vector<int64_t>& strides) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto call = operator_named("braze::flex_attention").typed<Forward>();
    const c10::SymDimVector block(rest.block.begin(), rest.block.end()),
        laid_out(strides.begin(), strides.end());
    auto [out, sums] = call.call(query, key, value, rest.tables, rest.key_blocks, rest.query_blocks,
                                 rest.program, rest.scale, block, laid_out);
    Tensors saved = {query, key, value, out, sums};
    for (const Tensors* list : {&rest.tables, &rest.key_blocks, &rest.query_blocks})
      saved.insert(saved.end(), list->begin(), list->end());
    context->set_materialize_grads(false);
    context->save_for_backward(saved);
    context->saved_data["tables"] = static_cast<int64_t>(rest.tables.size());
    context->saved_data["key_blocks"] = static_cast<int64_t>(rest.key_blocks.size());
    context->saved_data["program"] = rest.program;
    context->saved_data["scale"] = rest.scale;
    context->saved_data["block"] = rest.block;
    return {out, sums};
  }

  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& tangents) {
    const Tensors saved = context->get_saved_variables();
    const Tensor &query = saved.at(0), &key = saved.at(1), &value = saved.at(2);
    const Tensor &out = saved.at(3), &sums = saved.at(4);
    auto at = saved.begin() + 5;
    const auto take = [&](int64_t count) {
      const Tensors list(at, at + count);
      at += count;
      return list;
    };
    const Tensors tables = take(context->saved_data["tables"].toInt());
    const Tensors key_blocks = take(context->saved_data["key_blocks"].toInt());
    const Tensors query_blocks(at, saved.end());
    const Tensor tangent =
        tangents.at(0).defined() ? tangents[0].to(query.scalar_type()) : at::zeros_like(out);
    Tensor offsets = tangent.to(at::kFloat).mul(out.to(at::kFloat)).sum(-1);
    if (tangents.at(1).defined()) offsets = offsets.sub(tangents[1]);
    static const auto call = operator_named("braze::flex_attention_backward").typed<Backward>();
    auto [of_query, of_key, of_value] = call.call(
        tangent, offsets, query, key, value, sums, tables, key_blocks, query_blocks,
        context->saved_data["program"].toStringRef(), context->saved_data["scale"].toDouble(),
        symbols_of(context->saved_data["block"]));
    return {of_query, of_key, of_value, Tensor(), Tensor()};
  }
};

TwoTensors flex_attention_with_gradient(const Tensor& query, const Tensor& key, const Tensor& value,
                                        at::TensorList tables, at::TensorList key_blocks,
                                        at::TensorList query_blocks, c10::string_view program,
                                        double scale, c10::SymIntArrayRef block,
                                        c10::SymIntArrayRef strides) {
  const Tensors made = FlexAttention::apply(query, key, value,
                                            Rest{tables.vec(), key_blocks.vec(), query_blocks.vec(),
                                                 std::string(program), scale, numbers(block)},
                                            numbers(strides));
  return {made.at(0), made.at(1)};
}

ThreeTensors flex_attention_backward_with_gradient(const Tensor& tangent, const Tensor& offsets,
                                                   const Tensor& query, const Tensor& key,
                                                   const Tensor& value, const Tensor& sums,
                                                   at::TensorList tables, at::TensorList key_blocks,
                                                   at::TensorList query_blocks,
                                                   c10::string_view program, double scale,
                                                   c10::SymIntArrayRef block) {
  const bool has_gradient = [&] {
    if (!c10::GradMode::is_enabled()) return false;
    for (const Tensor* tensor : {&tangent, &offsets, &query, &key, &value, &sums})
      if (tensor->requires_grad()) return true;
    return false;
  }();
  if (has_gradient)
    return gradients(tangent, offsets, query, key, value, sums,
                     {tables.vec(), key_blocks.vec(), query_blocks.vec(), std::string(program),
                      scale, numbers(block)});
  const at::AutoDispatchBelowADInplaceOrView below;
  static const auto call = operator_named("braze::flex_attention_backward").typed<Backward>();
  return call.call(tangent, offsets, query, key, value, sums, tables, key_blocks, query_blocks,
                   program, scale, block);
}

}  // namespace

void register_flex_attention_operators() {
  static const bool done = [] {
    static torch::Library library(torch::Library::FRAGMENT, "braze", std::nullopt, __FILE__,
                                  __LINE__);
    library.def(
        "flex_attention(Tensor query, Tensor key, Tensor value, Tensor[] tables, "
        "Tensor[] key_blocks, Tensor[] query_blocks, str program, float scale, SymInt[] block, "
        "SymInt[] strides) -> (Tensor, Tensor)");
    library.def(
        "flex_attention_backward(Tensor tangent, Tensor offsets, Tensor query, Tensor key, "
        "Tensor value, Tensor sums, Tensor[] tables, Tensor[] key_blocks, "
        "Tensor[] query_blocks, str program, float scale, SymInt[] block) "
        "-> (Tensor, Tensor, Tensor)");
    const auto add = [](const char* name, c10::DispatchKey key, auto* function) {
      library.impl(name, torch::dispatch(key, function));
    };
    using c10::DispatchKey;
    for (DispatchKey key : {DispatchKey::CPU, DispatchKey::CUDA}) {
      add("flex_attention", key, &flex_attention);
      add("flex_attention_backward", key, &flex_attention_backward);
    }
    add("flex_attention", DispatchKey::Meta, &flex_attention_meta);
    add("flex_attention_backward", DispatchKey::Meta, &flex_attention_backward_meta);
    add("flex_attention", DispatchKey::Autograd, &flex_attention_with_gradient);
    add("flex_attention_backward", DispatchKey::Autograd, &flex_attention_backward_with_gradient);
    return true;
  }();
  (void)done;
}

}  // namespace braze::trace
