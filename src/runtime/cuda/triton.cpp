#include "runtime/cuda/triton.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/log.h"

namespace braze::runtime::cuda {
namespace {

constexpr std::string_view kKind = "triton";

// Never destroyed: code may run while the process ends.
std::atomic<TritonCompiler*> g_compiler = nullptr;

std::string cache_key(const std::string& version, const TritonSource& source) {
  std::string key = "triton " + version + "\n" + source.name + "\n";
  for (const std::string& flag : source.flags) key += flag + "\n";
  return key + "\n" + source.text;
}

// "shared pointers\n", and the machine code.
std::string to_bytes(const TritonBinary& binary) {
  return std::to_string(binary.shared_bytes) + " " + std::to_string(binary.more_pointers) + "\n" +
         binary.cubin;
}

std::optional<TritonBinary> from_bytes(const std::optional<std::string>& bytes) {
  if (!bytes) return std::nullopt;
  const size_t space = bytes->find(' '), line = bytes->find('\n');
  if (space == std::string::npos || line == std::string::npos || space > line) return std::nullopt;
  return TritonBinary{static_cast<uint32_t>(std::strtoul(bytes->c_str(), nullptr, 10)),
                      std::atoi(bytes->c_str() + space), bytes->substr(line + 1)};
}

}  // namespace

TritonCompiler* triton_compiler() { return g_compiler.load(std::memory_order_acquire); }

void install(std::unique_ptr<TritonCompiler> compiler) {
  g_compiler.store(compiler.release(), std::memory_order_release);
}

std::vector<TritonBinary> triton_binaries(std::span<const TritonSource> sources,
                                          TritonCompiler* compiler, toolchain::DiskCache& cache) {
  if (sources.empty()) return {};
  if (!compiler)
    throw UserError("kernels are in Triton, which there is none of: install the package triton");
  std::vector<TritonBinary> binaries(sources.size());
  std::vector<TritonSource> missing;
  std::vector<size_t> places;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (auto found = from_bytes(cache.get(kKind, cache_key(compiler->version(), sources[i])))) {
      binaries[i] = std::move(*found);
      continue;
    }
    missing.push_back(sources[i]);
    places.push_back(i);
  }
  if (missing.empty()) return binaries;
  const auto begin = std::chrono::steady_clock::now();
  const std::string folder = cache.folder().empty() ? "" : cache.folder() + "/triton";
  std::vector<TritonBinary> made = compiler->compile(missing, folder);
  BRAZE_CHECK(made.size() == missing.size(), "Triton compiled ", made.size(), " kernels of ",
              missing.size());
  if (log::enabled(log::Component::kTiming)) {
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    log::write(log::Component::kTiming,
               detail::concat("Triton ", spent.count(), " ms, ", missing.size(), " kernels"));
  }
  for (size_t i = 0; i < made.size(); ++i) {
    cache.put(kKind, cache_key(compiler->version(), missing[i]), to_bytes(made[i]));
    binaries[places[i]] = std::move(made[i]);
  }
  return binaries;
}

std::vector<TritonBinary> triton_binaries(std::span<const TritonSource> sources) {
  return triton_binaries(sources, triton_compiler(), toolchain::DiskCache::instance());
}

}  // namespace braze::runtime::cuda
