#include "dispatch/recompiles.h"

namespace braze::dispatch {

std::string reason_of_miss(std::span<const std::shared_ptr<Entry>> entries, PyObject* const* bound,
                           PyObject* names) {
  constexpr size_t kShown = 3;
  std::vector<std::string> closest;
  for (size_t i = entries.size(); i-- > 0;) {
    std::vector<std::string> failures = entries[i]->guards->failures(bound, names);
    if (i + 1 == entries.size() || failures.size() < closest.size()) closest = std::move(failures);
  }
  if (closest.empty()) return "it is under way already";
  std::string text;
  for (size_t i = 0; i < closest.size() && i < kShown; ++i) text += (i ? "; " : "") + closest[i];
  if (closest.size() > kShown) text += "; and " + std::to_string(closest.size() - kShown) + " more";
  return text;
}

}  // namespace braze::dispatch
