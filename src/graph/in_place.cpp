#include "graph/in_place.h"

#include <cstdint>
#include <unordered_map>

#include "graph/op_name.h"

namespace braze::graph {
namespace {

enum class Twin : uint8_t { kNone, kOther, kDraws };

struct TwinLine {
  Twin twin;
  std::string_view name, functional;
};

constexpr TwinLine kTwinLines[] = {
#define NONE(name) {Twin::kNone, "aten." name, {}},
#define OTHER(name, functional) {Twin::kOther, name, functional},
#define DRAWS(name, functional) {Twin::kDraws, name, functional},
#include "graph/in_place.inc"
#undef NONE
#undef OTHER
#undef DRAWS
};

using Names = std::unordered_map<std::string_view, std::string_view>;

Names lines_of(Twin twin) {
  Names names;
  for (const TwinLine& line : kTwinLines)
    if (line.twin == twin) names.emplace(line.name, line.functional);
  return names;
}

}  // namespace

std::string functional_name(std::string_view name) {
  static const Names others = lines_of(Twin::kOther), without = lines_of(Twin::kNone);
  if (const auto other = others.find(name); other != others.end())
    return std::string(other->second);
  const OpName parts(name);
  if (!parts.in_place() || !name.starts_with("aten.") || without.contains(parts.base)) return {};
  std::string functional(parts.functional_base());
  if (!parts.overload.empty()) functional.append(".").append(parts.overload);
  return functional;
}

std::string_view drawing_name(std::string_view name) {
  static const Names draws = lines_of(Twin::kDraws);
  const auto found = draws.find(name);
  return found == draws.end() ? std::string_view() : found->second;
}

const Value* aliased_by(const Value* value) {
  const Node* node = value->producer();
  const int position = node ? node->op().effects.aliased_argument(value->result_index()) : -1;
  auto* base = position < 0 ? nullptr : std::get_if<Value*>(&node->args()[position]);
  return base ? *base : nullptr;
}

const Value* counted_with(const Graph& graph, const Value* value) {
  while (const Value* base = aliased_by(value)) {
    const OriginId origin = value->producer()->origin();
    if (origin >= 0 && graph.origins()[static_cast<size_t>(origin)].is_data) break;
    value = base;
  }
  return value;
}

}  // namespace braze::graph
