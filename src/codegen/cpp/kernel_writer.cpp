#include "codegen/cpp/kernel_writer.h"

#include <algorithm>

#include "codegen/cpp/loop_writer.h"
#include "codegen/kernel_text.h"

namespace braze::codegen::cpp {
namespace {

std::string function(const std::string& linkage, const std::string& name,
                     const std::vector<std::string>& lines) {
  std::string text =
      linkage + " i64 " + name + "(void* const* args, const i64* sizes, i64 begin, i64 end) {\n";
  for (const std::string& line : lines) text += "  " + line + "\n";
  return text + "}\n";
}

}  // namespace

KernelText write_kernel(const Nest& nest, const std::string& symbol, Prelude& prelude) {
  KernelText result{"\n" + description(loop::to_string(*nest.kernel), "//"), {}};
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
