#include <algorithm>

#include "codegen/cpp/nest.h"
#include "sym/facts.h"

namespace braze::codegen::cpp {
namespace {

constexpr int kMostVectors = 4;
constexpr int kFewestLanes = 4;
// Operations that all versions together may add to the code: what the host compiler's time allows.
constexpr int64_t kMostWeight = 800;
// Lengths that are frequent get versions of their own, without masks, where that is little code.
constexpr int64_t kFrequent[] = {8, 16, 32, 64};
constexpr int64_t kLightWeight = 24;
// An axis that was longer when traced is hardly ever short.
constexpr int64_t kLongestHint = 512;

bool has_inner_tasks(const Nest& nest) {
  return std::any_of(nest.sweeps.begin(), nest.sweeps.end(),
                     [](const Sweep& sweep) { return !sweep.inner.empty(); });
}

// Is the vector axis walked anew for each of many points?
bool walks_rows(const Nest& nest) {
  if (nest.parallel.empty()) return false;
  if (nest.vector_is_inner()) return true;
  const bool one_block = nest.block == 0 || nest.block >= kMostVectors * nest.lanes;
  return !has_inner_tasks(nest) && nest.tile_axis < 0 && nest.columns == 1 && one_block;
}

Nest version_of(const Nest& nest, int lanes, int vectors) {
  Nest version = nest;
  version.lanes = lanes;
  version.vectors = vectors;
  return version;
}

Nest version_for(const Nest& nest, int64_t length) {
  Nest version = nest;
  version.extent[nest.vector_axis] = length;
  version.lanes = static_cast<int>(std::min<int64_t>(nest.lanes, length));
  return version;
}

}  // namespace

std::vector<Nest> plan_short_versions(const Nest& nest, int64_t weight) {
  std::vector<Nest> versions;
  if (nest.vector_axis < 0 || !walks_rows(nest)) return versions;
  const sym::Int length = nest.extent[nest.vector_axis];
  if (length.is_constant() || length.hint() > kLongestHint) return versions;
  for (int64_t frequent : kFrequent)
    if (weight <= kLightWeight && frequent <= kMostVectors * nest.lanes)
      versions.push_back(version_for(nest, frequent));
  std::vector<std::pair<int, int>> shapes;  // lanes, vectors
  for (int lanes = kFewestLanes; lanes < nest.lanes; lanes *= 2) shapes.emplace_back(lanes, 1);
  for (int vectors = 1; vectors <= kMostVectors; ++vectors)
    shapes.emplace_back(nest.lanes, vectors);
  int64_t total = 0;
  for (auto [lanes, vectors] : shapes) {
    total += weight * vectors;
    if (total > kMostWeight) break;
    if (!sym::known_at_least(length, lanes * vectors + 1))
      versions.push_back(version_of(nest, lanes, vectors));
  }
  if (nest.vector_is_inner() && nest.inner.size() == 1) {
    versions.push_back(nest);
    versions.back().longest = kLongestRow;
  }
  return versions;
}

}  // namespace braze::codegen::cpp
