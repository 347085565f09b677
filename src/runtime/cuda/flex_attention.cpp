#include "runtime/cuda/flex_attention.h"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "runtime/cuda/driver.h"
#include "toolchain/nvrtc.h"

namespace braze::runtime::cuda {
namespace {

std::string architecture(const target::Cuda& device) {
  constexpr int kWithWarpgroups = 90;  // whose instructions no later GPU has
  return std::to_string(device.sm) + (device.sm == kWithWarpgroups ? "a" : "");
}

std::string_view name_of(std::string_view source) { return source.substr(0, source.find('\n')); }

std::unique_ptr<LoadedCode> load(std::string_view text, int device) {
  const toolchain::CudaSource source = flex_program(text, device);
  return std::make_unique<LoadedCode>(device, toolchain::cubins(std::array{source}).code.at(0));
}

// Kept to the process's end: the driver may be gone before statics are.
const LoadedCode& code_of(std::string_view source, int device) {
  static ForkMutex mutex;
  static auto& codes = *new std::map<std::pair<std::string, int>, std::unique_ptr<LoadedCode>>;
  const std::pair key(std::string(name_of(source)), device);
  {
    const std::scoped_lock lock(mutex);
    if (const auto found = codes.find(key); found != codes.end()) return *found->second;
  }
  std::unique_ptr<LoadedCode> fresh =
      load(source, device);  // of two threads' the first one's stays
  const std::scoped_lock lock(mutex);
  return *codes.try_emplace(key, std::move(fresh)).first->second;
}

template <class Arguments>
void put(const FlexLaunch& given, const char* name, Arguments& arguments, int64_t rows,
         int64_t heads, void* stream) {
  const LoadedCode& code = code_of(given.source, given.device);
  const CurrentContext current(primary_context(given.device));
  void* kernel = code.kernel(name);
  const auto shared = static_cast<uint32_t>(given.shared_bytes);
  allow_shared(given.device, kernel, shared);
  std::vector<const void*> tables = given.tables;
  std::vector<void*> addresses = {&arguments};
  for (const void*& table : tables) addresses.push_back(static_cast<void*>(&table));
  launch({.kernel = kernel,
          .blocks = {static_cast<uint32_t>((rows + given.rows - 1) / given.rows),
                     static_cast<uint32_t>(heads), static_cast<uint32_t>(given.batch)},
          .threads = {static_cast<uint32_t>(given.threads), 1, 1},
          .shared_bytes = shared,
          .arguments = addresses.data()},
         stream);
}

}  // namespace

// Sources with the same flags would stand behind each other in one program.
toolchain::CudaSource flex_program(std::string_view source, int device) {
  const std::string_view name = name_of(source);
  return {.text = std::string(source),
          .flags = {"--gpu-architecture=sm_" + architecture(describe(device)), "--std=c++17",
                    "--device-as-default-execution-space",
                    "--define-macro=BRAZE_FLEX_" + std::string(name.substr(name.rfind(' ') + 1))}};
}

void flex_forward(const FlexLaunch& launch, FlexForward arguments, void* stream) {
  put(launch, "flex_forward", arguments, arguments.queries, arguments.heads, stream);
}

void flex_query_gradient(const FlexLaunch& launch, FlexBackward arguments, void* stream) {
  put(launch, "flex_query_gradient", arguments, arguments.queries, arguments.heads, stream);
}

void flex_key_gradient(const FlexLaunch& launch, FlexBackward arguments, void* stream) {
  put(launch, "flex_key_gradient", arguments, arguments.keys, arguments.heads / arguments.group,
      stream);
}

}  // namespace braze::runtime::cuda
