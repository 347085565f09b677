#include "dispatch/break_log.h"

#include <mutex>
#include <unordered_set>

#include "base/fork_mutex.h"
#include "base/log.h"

namespace braze::dispatch {
namespace {

// One break: its kind at its place. What it says may name values, and so differ from call to call.
std::string identity_of(const std::string& name, const capture::BreakReason& reason) {
  std::string text = name + "\n" + capture::number_of(reason.kind);
  if (reason.stack.empty()) return text + "\n" + reason.what;
  for (const capture::StackEntry& entry : reason.stack)
    text +=
        "\n" + entry.file + ":" + std::to_string(entry.line) + ":" + std::to_string(entry.column);
  return text;
}

bool is_new(const std::string& name, const capture::BreakReason& reason) {
  static auto& mutex = *new ForkMutex;
  static auto& seen = *new std::unordered_set<std::string>;
  std::lock_guard lock(mutex);
  return seen.insert(identity_of(name, reason)).second;
}

}  // namespace

void log_break(const std::string& name, const capture::BreakReason& reason) {
  if (!log::enabled(log::Component::kBreaks) || !is_new(name, reason)) return;
  log::write(log::Component::kBreaks, name + "\n" + capture::to_string(reason));
}

}  // namespace braze::dispatch
