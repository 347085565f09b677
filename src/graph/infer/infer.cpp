#include "graph/infer/infer.h"

#include <array>
#include <unordered_map>

#include "graph/infer/call.h"
#include "graph/op_kind.h"

namespace braze::graph {
namespace {

const InferEntry* entry_of(OpKind kind) {
  static const auto entries = [] {
    std::array<const InferEntry*, static_cast<size_t>(OpKind::kCount)> by_kind = {};
    for (size_t i = 1; i < by_kind.size(); ++i)
      by_kind[i] = find_infer_entry(op_of(static_cast<OpKind>(i)).name);
    return by_kind;
  }();
  return entries[static_cast<size_t>(kind)];
}

}  // namespace

std::span<const std::span<const InferEntry>> infer_families() {
  static const std::array families = {infer_activations(), infer_attention(),     infer_assembly(),
                                      infer_factories(),   infer_indexing(),      infer_losses(),
                                      infer_matrix(),      infer_ordering(),      infer_pointwise(),
                                      infer_pooling(),     infer_normalisation(), infer_random(),
                                      infer_reductions(),  infer_scatter(),       infer_views()};
  return families;
}

const InferEntry* find_infer_entry(std::string_view name) {
  static const auto entries = [] {
    std::unordered_map<std::string_view, const InferEntry*> by_name;
    size_t count = 0;
    for (const auto family : infer_families()) count += family.size();
    by_name.reserve(count);
    for (const auto family : infer_families())
      for (const InferEntry& entry : family)
        BRAZE_CHECK(by_name.emplace(entry.name, &entry).second, "two rules for ", entry.name);
    return by_name;
  }();
  const auto found = entries.find(name);
  return found == entries.end() ? nullptr : found->second;
}

std::optional<std::vector<TensorType>> infer_types(const Op& op, std::span<const Argument> args) {
  const InferEntry* entry =
      op.kind == OpKind::kUnknown ? find_infer_entry(op.name) : entry_of(op.kind);
  std::vector<Inferred> results;
  if (!entry || !entry->rule(InferCall(args, results))) return std::nullopt;
  std::vector<TensorType> types;
  types.reserve(results.size());
  for (Inferred& result : results) {
    if (result.undefined) return std::nullopt;
    types.push_back(std::move(result.type));
  }
  return types;
}

}  // namespace braze::graph
