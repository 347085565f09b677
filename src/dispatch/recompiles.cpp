#include "dispatch/recompiles.h"

#include <algorithm>

namespace braze::dispatch {

std::string reason_of_miss(std::span<const std::shared_ptr<Entry>> entries, PyObject* const* bound,
                           PyObject* names) {
  constexpr size_t kShown = 3;
  std::vector<std::string> closest;
  for (size_t i = entries.size(); i-- > 0;) {
    std::vector<std::string> failures = entries[i]->guards->failures(bound, names);
    if (i + 1 == entries.size() || failures.size() < closest.size()) closest = std::move(failures);
  }
  if (closest.empty()) {
    const bool raised = std::any_of(entries.begin(), entries.end(),
                                    [](const auto& entry) { return entry->ended_in_exception(); });
    return raised ? "the code raised when it was captured, it is tried again"
                  : "it is under way already";
  }
  std::string text;
  for (size_t i = 0; i < closest.size() && i < kShown; ++i) text += (i ? "; " : "") + closest[i];
  if (closest.size() > kShown) text += "; and " + std::to_string(closest.size() - kShown) + " more";
  return text;
}

void learn_what_varies(capture::DynamicSizes& dynamic,
                       std::span<const std::shared_ptr<Entry>> entries, PyObject* const* bound,
                       PyObject* names) {
  if (dynamic.mode == capture::DynamicSizes::Mode::kNever) return;
  for (auto it = entries.rbegin(); it != entries.rend(); ++it) {
    if ((*it)->kind != EntryKind::kPlan) continue;
    const auto varying = (*it)->guards->variations(bound, names);
    if (!varying) continue;
    for (const guard::Variation& variation : *varying) {
      if (variation.is_float) {
        dynamic.floats.try_emplace(variation.source, true);
        continue;
      }
      if (variation.is_stride) {
        dynamic.strides[variation.source].insert(variation.dim);
        continue;
      }
      if (variation.dim < 0) {
        dynamic.integers.try_emplace(variation.source, variation.before);
        continue;
      }
      std::map<int, int64_t>& dims = dynamic.sizes[variation.source];
      if (variation.related)
        dims[variation.dim] = --dynamic.histories;
      else
        dims.try_emplace(variation.dim, variation.before);
    }
    return;
  }
}

}  // namespace braze::dispatch
