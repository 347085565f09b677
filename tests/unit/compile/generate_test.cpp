// How kernels are divided into sources.
#include "compile/generate.h"

#include <set>

#include "compile/function_runner.h"

namespace braze::compile {
namespace {

// Softmax and what follows it, of `count` different sizes: as many kernels.
std::string text(int count) {
  std::string inputs, body, results;
  for (int i = 0; i < count; ++i) {
    const std::string type = "f32[3, " + std::to_string(33 + i) + "]";
    const auto value = [&](int n) { return "%" + std::to_string(count + 2 * i + n); };
    inputs += (i ? ", %" : "%") + std::to_string(i) + " x: " + type;
    body += "  " + value(0) + ": " + type + " = aten._softmax(%" + std::to_string(i) +
            ", 1, false)\n  " + value(1) + ": " + type + " = aten.exp(" + value(0) + ")\n";
    results += (i ? ", " : "") + value(1);
  }
  return "graph(" + inputs + ") {\n" + body + "  return " + results + "\n}\n";
}

plan::Module compiled(int count, const target::Target& target) {
  return compile(graph::parse(text(count)), {.target = target});
}

TEST(Generate, FewKernelsAreOneSource) {
  EXPECT_EQ(compiled(2, target::Cpu{.threads = 8}).code.size(), 1u);
}

TEST(Generate, OneThreadHasOneSource) {
  EXPECT_EQ(compiled(60, target::Cpu{.threads = 1}).code.size(), 1u);
}

TEST(Generate, ManyKernelsAreSeveralSourcesOfAboutOneSize) {
  const plan::Module module = compiled(60, target::Cpu{.threads = 2});
  ASSERT_GT(module.code.size(), 1u);
  EXPECT_LE(module.code.size(), 4u);
  size_t least = SIZE_MAX, most = 0;
  for (const plan::Code& code : module.code) {
    least = std::min(least, code.text.size());
    most = std::max(most, code.text.size());
  }
  EXPECT_LT(most, 2 * least);
  EXPECT_LE(compiled(60, target::Cpu{.threads = 64}).code.size(), 8u);
}

TEST(Generate, NamesAreOfOneKernelInTheModule) {
  const plan::Module module = compiled(60, target::Cpu{.threads = 2});
  std::set<std::string> names;
  for (const plan::KernelSignature& kernel : module.functions[0].kernels) {
    names.insert(kernel.name);
    EXPECT_NE(module.code.at(kernel.code).text.find(" " + kernel.name + "("), std::string::npos);
  }
  EXPECT_EQ(names.size(), module.functions[0].kernels.size());
}

TEST(Generate, KernelsOfSeveralSourcesRun) {
  const Options options{.target = target::Cpu{.threads = 2}};
  compile_and_compare(text(60), options);
}

}  // namespace
}  // namespace braze::compile
