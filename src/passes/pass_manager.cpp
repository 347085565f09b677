#include "passes/pass_manager.h"

#include <algorithm>

namespace braze::passes {
namespace {

// `f()` with the pass's name in its errors.
template <class F>
auto named(std::string_view pass, F&& f) {
  try {
    return f();
  } catch (const InternalError& error) {
    throw InternalError(__FILE__, __LINE__, "pass '" + std::string(pass) + "': " + error.what());
  }
}

}  // namespace

void run_passes(graph::Graph& graph, const std::vector<Pass>& passes, const PassOptions& options) {
  const bool needs_text = options.check_each || options.dump;
  std::string text = needs_text ? to_string(graph, false) : "";
  if (options.dump) options.dump(0, "input", text);
  int number = 0;
  for (const Pass& pass : passes) {
    ++number;
    if (options.limit >= 0 && number > options.limit) break;
    if (std::find(options.skip.begin(), options.skip.end(), pass.name) != options.skip.end())
      continue;
    const bool changed = named(pass.name, [&] { return pass.run(graph); });
    if (!needs_text || (!changed && !options.check_each)) continue;
    std::string now = to_string(graph, false);
    named(pass.name, [&] {
      BRAZE_CHECK(changed || now == text, "says that it changed nothing, but it did");
      BRAZE_CHECK(!changed || now != text, "says that it changed the graph, but it did not");
      if (changed && options.check_each) pass.functional ? verify_functional(graph) : verify(graph);
    });
    text = std::move(now);
    if (changed && options.dump) options.dump(number, pass.name, text);
  }
  if (!options.check_each) verify(graph);
}

}  // namespace braze::passes
