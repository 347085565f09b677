#include "codegen/cpp/kernel_writer.h"

#include <algorithm>
#include <sstream>

#include "codegen/cpp/loop_writer.h"

namespace braze::codegen::cpp {
namespace {

// The kernel as text, as a comment; very long lines are cut.
std::string description(const loop::Kernel& kernel) {
  constexpr size_t kWidth = 160;
  constexpr int kLines = 16;
  std::istringstream text(loop::to_string(kernel));
  std::string result, line;
  for (int n = 0; std::getline(text, line); ++n) {
    if (n == kLines) return result + "// ...\n";
    if (line.size() > kWidth) line = line.substr(0, kWidth) + " ...";
    result += "// " + line + "\n";
  }
  return result;
}

std::string function(const std::string& linkage, const std::string& name,
                     const std::vector<std::string>& lines) {
  std::string text =
      linkage + " i64 " + name + "(void* const* args, const i64* sizes, i64 begin, i64 end) {\n";
  for (const std::string& line : lines) text += "  " + line + "\n";
  return text + "}\n";
}

}  // namespace

KernelText write_kernel(const Nest& nest, const std::string& symbol, Prelude& prelude) {
  KernelText result{"\n" + description(*nest.kernel), {}};
  std::vector<std::string> short_versions;
  for (const Nest& version : nest.short_versions) {
    const bool exact = version.extent[version.vector_axis].is_constant();
    short_versions.push_back(symbol + (exact ? "_of_" : "_up_to_") +
                             std::to_string(version.most_elements()));
    LoopWriter writer(version, prelude, result.sizes);
    // Called once each, they would all become parts of one function, whose loops are then left with
    // constants in memory: that took up to a fifth of the time of rows of 32.
    result.text +=
        function("static __attribute__((noinline))", short_versions.back(), writer.write({}));
    for (sym::Int limit : version.limits)
      if (std::find(nest.limits.begin(), nest.limits.end(), limit) == nest.limits.end())
        nest.limits.push_back(limit);
  }
  LoopWriter writer(nest, prelude, result.sizes);
  result.text += function("extern \"C\"", symbol, writer.write(short_versions));
  return result;
}

}  // namespace braze::codegen::cpp
