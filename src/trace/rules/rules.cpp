// Operators that are not simply recorded. Those that read data or whose result's size depends on
// data are found by PyTorch's own tags; this table adds to them and corrects them.
#include <unordered_map>

#include "trace/operator.h"

namespace braze::trace {

const RuleEntry* find_rule(const std::string& name) {
  static const std::unordered_map<std::string, RuleEntry> table = {
      // Tagged as having a result of dynamic size because an index may be a mask; then the mask's
      // nonzero() breaks.
      {"aten::index.Tensor", {Rule::kRecord, nullptr}},
      {"aten::_unsafe_index.Tensor", {Rule::kRecord, nullptr}},
      {"aten::nonzero_static", {Rule::kRecord, nullptr}},
      // Resizes what it is called on where that is to be broadcast.
      {"aten::addbmm_", {Rule::kProbe, nullptr}},
      {"aten::replication_pad1d", {Rule::kProbe, nullptr}},
      {"aten::replication_pad2d", {Rule::kProbe, nullptr}},
      {"aten::replication_pad3d", {Rule::kProbe, nullptr}},
      {"aten::reflection_pad3d", {Rule::kProbe, nullptr}},
      // Only with symbolic sizes (recurrent.cpp).
      {"aten::lstm.input", {Rule::kRecord, nullptr}},
      {"aten::gru.input", {Rule::kRecord, nullptr}},
      {"aten::rnn_tanh.input", {Rule::kRecord, nullptr}},
      {"aten::rnn_relu.input", {Rule::kRecord, nullptr}},
      {"aten::lift_fresh", {Rule::kLiteral, nullptr}},
      {"aten::lift", {Rule::kLiteral, nullptr}},
      {"aten::native_batch_norm", {Rule::kBatchNorm, nullptr}},
      {"aten::resize_", {Rule::kResize, nullptr}},
      {"aten::_fused_sdp_choice", {Rule::kMetadata, nullptr}},
      {"aten::is_same_size", {Rule::kMetadata, nullptr}},
      {"aten::_has_same_storage_numel", {Rule::kMetadata, nullptr}},
      {"aten::_assert_tensor_metadata", {Rule::kMetadata, nullptr}},
      {"aten::_nnpack_available", {Rule::kMetadata, nullptr}},
      {"aten::_nested_tensor_from_mask_left_aligned", {Rule::kEvaluate, nullptr}},
      {"aten::is_pinned", {Rule::kBreak, "whether memory is pinned is not known while tracing"}},
      {"aten::_pin_memory", {Rule::kBreak, "pinned memory is not supported"}},
      {"aten::record_stream", {Rule::kBreak, "streams are not supported"}},
      {"aten::is_set_to", {Rule::kBreak, "it compares storages"}},
      {"aten::_conj", {Rule::kBreak, "lazy conjugation is not supported"}},
      {"aten::_neg_view", {Rule::kBreak, "lazy negation is not supported"}},
      {"aten::_efficientzerotensor",
       {Rule::kBreak, "zero tensors without memory are not supported"}},
      {"aten::set_data", {Rule::kBreak, "it replaces a tensor's memory"}},
  };
  auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace braze::trace
