#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/fork_mutex.h"
#include "base/options.h"

namespace braze::log {
namespace {

constexpr std::string_view kNames[] = {
#define X(id, name) name,
    BRAZE_LOG_COMPONENTS(X)
#undef X
};
constexpr size_t kCount = std::size(kNames);
static_assert(kCount < 32, "the mask has 32 bits for components");

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string valid_names() {
  std::string list;
  for (std::string_view name : kNames) list.append(name).append(", ");
  return list + "all";
}

std::optional<uint32_t> mask_of(std::string_view name) {
  if (name.empty()) return 0;
  if (name == "all") return (uint32_t{1} << kCount) - 1;
  for (size_t i = 0; i < kCount; ++i)
    if (name == kNames[i]) return uint32_t{1} << i;
  return std::nullopt;
}

uint32_t parse_components(std::string_view text) {
  uint32_t mask = 0;
  std::string unknown;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view name = trim(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (const auto bits = mask_of(name)) {
      mask |= *bits;
    } else {
      unknown.append(unknown.empty() ? "" : ", ").append(name);
    }
  }
  if (!unknown.empty())
    warning("BRAZE_LOG: unknown component " + unknown + "; there are " + valid_names());
  return mask;
}

// Low half: components that are on. High half: generation of the options it was made from.
std::atomic<uint64_t> g_mask = 0;
ForkMutex& parse_mutex() {
  static auto& mutex = *std::make_unique<ForkMutex>().release();  // also while the process ends
  return mutex;
}

uint32_t current_mask() {
  const uint64_t generation = options_generation();
  uint64_t packed = g_mask.load(std::memory_order_acquire);
  if (packed >> 32 != generation) {
    std::lock_guard lock(parse_mutex());
    packed = g_mask.load(std::memory_order_acquire);
    if (packed >> 32 != generation) {
      packed = generation << 32 | parse_components(options().log);
      g_mask.store(packed, std::memory_order_release);
    }
  }
  return static_cast<uint32_t>(packed);
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // nowhere to complain
    text.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace

bool enabled(Component component) { return current_mask() >> static_cast<unsigned>(component) & 1; }

void write(Component component, std::string_view text) {
  std::string prefix = "[braze:";
  prefix.append(kNames[static_cast<size_t>(component)]).append("] ");
  std::string message;
  message.reserve(text.size() + 2 * prefix.size());
  if (text.ends_with('\n')) text.remove_suffix(1);
  for (bool more = true; more;) {
    const size_t end = text.find('\n');
    more = end != text.npos;
    message.append(prefix).append(text.substr(0, end)).push_back('\n');
    if (more) text.remove_prefix(end + 1);
  }
  write_all(message);
}

void warning(std::string_view text) {
  std::string message = "[braze] warning: ";
  message.append(text).push_back('\n');
  write_all(message);
}

}  // namespace braze::log
