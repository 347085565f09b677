#include "base/options.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/fork_mutex.h"
#include "base/log.h"

namespace braze {
namespace {

void warn_bad_value(std::string_view variable, std::string_view text, std::string_view expected) {
  log::warning(std::string(variable) + "='" + std::string(text) + "' is not " +
               std::string(expected) + "; the default is used");
}

void parse(std::string_view, std::string_view text, std::string& member) { member = text; }

void parse(std::string_view variable, std::string_view text, bool& member) {
  for (std::string_view word : {"1", "true", "yes", "on"})
    if (text == word) return void(member = true);
  for (std::string_view word : {"0", "false", "no", "off"})
    if (text == word) return void(member = false);
  warn_bad_value(variable, text, "0 or 1");
}

void parse(std::string_view variable, std::string_view text, int64_t& member) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    return warn_bad_value(variable, text, "a whole number from 0 up");
  member = value;
}

void check_isa(std::string& isa) {
  for (std::string_view name : {"", "generic", "avx2", "avx512"})
    if (isa == name) return;
  warn_bad_value("BRAZE_ISA", isa, "generic, avx2 or avx512");
  isa.clear();
}

// An empty variable counts as not set.
Options read_environment() {
  Options result;
#define X(member, env, type, value, help) \
  if (const char* text = std::getenv(env); text && *text) parse(env, text, result.member);
  BRAZE_OPTIONS(X)
#undef X
  check_isa(result.isa);
  return result;
}

// Old snapshots are kept because references to them may be held; an equal one is used again.
struct Snapshots {
  ForkMutex mutex;
  std::deque<Options> all;
  std::atomic<const Options*> current = nullptr;
  std::atomic<uint64_t> generation = 0;

  const Options& add() {
    Options fresh = read_environment();
    const auto found = std::ranges::find(all, fresh);
    const Options* stored = found != all.end() ? &*found : &all.emplace_back(std::move(fresh));
    if (stored == current.load(std::memory_order_relaxed)) return *stored;
    generation.fetch_add(1, std::memory_order_release);
    current.store(stored, std::memory_order_release);
    return *stored;
  }
};

// Never destroyed: threads may still ask while the process ends.
Snapshots& snapshots() {
  static auto& instance = *std::make_unique<Snapshots>().release();
  return instance;
}

}  // namespace

const Options& options() {
  Snapshots& state = snapshots();
  if (const Options* current = state.current.load(std::memory_order_acquire)) return *current;
  std::lock_guard lock(state.mutex);
  if (const Options* current = state.current.load(std::memory_order_acquire)) return *current;
  return state.add();
}

void reload_options() {
  Snapshots& state = snapshots();
  std::lock_guard lock(state.mutex);
  state.add();
}

uint64_t options_generation() {
  options();
  return snapshots().generation.load(std::memory_order_acquire);
}

}  // namespace braze
