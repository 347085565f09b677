#include "runtime/flex_attention_operator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "runtime/cuda/flex_attention.h"
#include "runtime/cuda/stream.h"

namespace braze::runtime {
namespace {

using at::Tensor;
using TwoTensors = std::tuple<Tensor, Tensor>;
using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;

constexpr uintptr_t kPackBytes = 16;

// With rows that can be copied in packs.
Tensor in_packs(const Tensor& tensor) {
  const auto pack = static_cast<int64_t>(kPackBytes) / tensor.element_size();
  bool fits = tensor.stride(3) == 1 &&
              reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kPackBytes == 0;
  for (int dim = 0; dim < 3; ++dim)
    fits = fits && (tensor.size(dim) == 1 || tensor.stride(dim) % pack == 0);
  return fits ? tensor : tensor.clone(at::MemoryFormat::Contiguous);
}

cuda::FlexRows rows_of(const Tensor& tensor) {
  return {tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

// Of [B or 1, H or 1, rows] and [B or 1, H or 1, rows, columns]. `kept` has what is made
// contiguous.
cuda::FlexBlocks blocks_of(at::TensorList lists, std::vector<Tensor>& kept) {
  cuda::FlexBlocks blocks;
  if (lists.empty()) return blocks;
  const auto memory = [&](size_t number) {
    const Tensor list = lists[number].to(at::kInt).contiguous();
    kept.push_back(list);
    return list.const_data_ptr<int32_t>();
  };
  blocks.partial_counts = memory(0);
  blocks.partial = memory(1);
  if (lists.size() > 2) {
    blocks.whole_counts = memory(2);
    blocks.whole = memory(3);
  }
  const Tensor& columns = kept.at(1);
  const int64_t rows = columns.size(2);
  blocks.columns = columns.size(3);
  blocks.head_rows = columns.size(1) == 1 ? 0 : rows;
  blocks.batch_rows = columns.size(0) == 1 ? 0 : rows * columns.size(1);
  return blocks;
}

cuda::FlexLaunch launch_of(const Tensor& query, at::TensorList tables, c10::string_view source,
                           at::IntArrayRef launch) {
  TORCH_CHECK(launch.size() == 3, "braze: flex_attention's launch has ", launch.size(), " numbers");
  cuda::FlexLaunch made{.source = {source.data(), source.size()},
                        .device = query.device().index(),
                        .rows = launch[0],
                        .threads = launch[1],
                        .shared_bytes = launch[2],
                        .batch = query.size(0)};
  for (const Tensor& table : tables) made.tables.push_back(table.const_data_ptr());
  return made;
}

TwoTensors flex_attention(const Tensor& given_query, const Tensor& given_key,
                          const Tensor& given_value, at::TensorList tables,
                          at::TensorList key_blocks, c10::string_view source, double scale,
                          at::IntArrayRef strides, at::IntArrayRef launch) {
  const Tensor query = in_packs(given_query), key = in_packs(given_key),
               value = in_packs(given_value);
  const std::vector<int64_t> sizes = {query.size(0), query.size(1), query.size(2), value.size(3)};
  // Kernels write rows.
  const bool has_rows = strides[3] == 1;
  const Tensor out = has_rows ? at::empty_strided(sizes, strides, query.options())
                              : at::empty(sizes, query.options());
  const Tensor sums =
      at::empty({query.size(0), query.size(1), query.size(2)}, query.options().dtype(at::kFloat));
  std::vector<Tensor> kept;
  cuda::flex_forward(launch_of(query, tables, source, launch),
                     {.query = query.const_data_ptr(),
                      .key = key.const_data_ptr(),
                      .value = value.const_data_ptr(),
                      .out = out.mutable_data_ptr(),
                      .sums = sums.mutable_data_ptr<float>(),
                      .query_rows = rows_of(query),
                      .key_rows = rows_of(key),
                      .value_rows = rows_of(value),
                      .out_rows = rows_of(out),
                      .blocks = blocks_of(key_blocks, kept),
                      .heads = static_cast<int32_t>(query.size(1)),
                      .group = static_cast<int32_t>(query.size(1) / key.size(1)),
                      .queries = static_cast<int32_t>(query.size(2)),
                      .keys = static_cast<int32_t>(key.size(2)),
                      .scale = static_cast<float>(scale)},
                     cuda::current_stream(query.device()));
  if (!has_rows) return {at::empty_strided(sizes, strides, query.options()).copy_(out), sums};
  return {out, sums};
}

// A gradient, laid out like what it is of, and where a kernel writes it.
Tensor room_for(const Tensor& of) {
  const Tensor like = at::empty_like(of);
  return like.stride(3) == 1 ? like : at::empty_like(of, at::MemoryFormat::Contiguous);
}
Tensor laid_out(const Tensor& gradient, const Tensor& of) {
  const Tensor like = at::empty_like(of);
  return like.strides() == gradient.strides() ? gradient : like.copy_(gradient);
}

ThreeTensors flex_attention_backward(const Tensor& given_tangent, const Tensor& given_offsets,
                                     const Tensor& given_query, const Tensor& given_key,
                                     const Tensor& given_value, const Tensor& given_sums,
                                     at::TensorList tables, at::TensorList key_blocks,
                                     at::TensorList query_blocks, c10::string_view query_source,
                                     c10::string_view key_source, double scale,
                                     at::IntArrayRef query_launch, at::IntArrayRef key_launch) {
  const Tensor query = in_packs(given_query), key = in_packs(given_key),
               value = in_packs(given_value), tangent = in_packs(given_tangent),
               offsets = given_offsets.contiguous(), sums = given_sums.contiguous();
  const Tensor of_query = room_for(given_query), of_key = room_for(given_key),
               of_value = room_for(given_value);
  std::vector<Tensor> kept, kept_too;
  cuda::FlexBackward arguments{.query = query.const_data_ptr(),
                               .key = key.const_data_ptr(),
                               .value = value.const_data_ptr(),
                               .tangent = tangent.const_data_ptr(),
                               .sums = sums.const_data_ptr<float>(),
                               .offsets = offsets.const_data_ptr<float>(),
                               .query_gradient = of_query.mutable_data_ptr(),
                               .key_gradient = of_key.mutable_data_ptr(),
                               .value_gradient = of_value.mutable_data_ptr(),
                               .query_rows = rows_of(query),
                               .key_rows = rows_of(key),
                               .value_rows = rows_of(value),
                               .tangent_rows = rows_of(tangent),
                               .query_out_rows = rows_of(of_query),
                               .key_out_rows = rows_of(of_key),
                               .value_out_rows = rows_of(of_value),
                               .blocks = blocks_of(key_blocks, kept),
                               .heads = static_cast<int32_t>(query.size(1)),
                               .group = static_cast<int32_t>(query.size(1) / key.size(1)),
                               .queries = static_cast<int32_t>(query.size(2)),
                               .keys = static_cast<int32_t>(key.size(2)),
                               .scale = static_cast<float>(scale)};
  void* const stream = cuda::current_stream(query.device());
  cuda::flex_query_gradient(launch_of(query, tables, query_source, query_launch), arguments,
                            stream);
  arguments.blocks = blocks_of(query_blocks, kept_too);
  cuda::flex_key_gradient(launch_of(query, tables, key_source, key_launch), arguments, stream);
  return {laid_out(of_query, given_query), laid_out(of_key, given_key),
          laid_out(of_value, given_value)};
}

}  // namespace

std::vector<std::string_view> flex_sources(const plan::ExternStep& step) {
  std::vector<std::string_view> sources;
  if (step.op != "braze.flex_attention_kernel" && step.op != "braze.flex_attention_backward_kernel")
    return sources;
  for (const plan::Argument& argument : step.args)
    if (const auto* text = std::get_if<std::string>(&argument)) sources.push_back(*text);
  return sources;
}

void register_flex_attention_kernels() {
  static const bool done = [] {
    static torch::Library library(torch::Library::FRAGMENT, "braze", std::nullopt, __FILE__,
                                  __LINE__);
    library.def(
        "flex_attention_kernel(Tensor query, Tensor key, Tensor value, Tensor[] tables, "
        "Tensor[] key_blocks, str source, float scale, int[] strides, int[] launch) "
        "-> (Tensor, Tensor)",
        torch::dispatch(c10::DispatchKey::CUDA, flex_attention));
    library.def(
        "flex_attention_backward_kernel(Tensor tangent, Tensor offsets, Tensor query, "
        "Tensor key, Tensor value, Tensor sums, Tensor[] tables, Tensor[] key_blocks, "
        "Tensor[] query_blocks, str query_source, str key_source, float scale, "
        "int[] query_launch, int[] key_launch) "
        "-> (Tensor, Tensor, Tensor)",
        torch::dispatch(c10::DispatchKey::CUDA, flex_attention_backward));
    return true;
  }();
  (void)done;
}

}  // namespace braze::runtime
