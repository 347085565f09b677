#include <gtest/gtest.h>

#include <set>

#include "compile/compile.h"
#include "compile/version.h"

namespace braze::compile {
namespace {

std::string key(std::string_view text, const Options& options = {}) {
  return cache_key(graph::parse(text), options);
}

constexpr std::string_view kGraph =
    "graph(%0 x: f32[4, 8], %1 w: f32[8] parameter) {\n"
    "  %2: f32[4, 8] = aten.add.Tensor(%0, %1, 1)\n"
    "  %3: f32[4, 8] = aten.relu(%2)\n"
    "  return %3\n"
    "}\n";

TEST(CacheKey, SameForOtherNamesAndOrigins) {
  EXPECT_EQ(key(kGraph),
            key("graph(%7 input: f32[4, 8], %1 layers.0.weight: f32[8] parameter) {\n"
                "  %5: f32[4, 8] = aten.add.Tensor(%7, %1, 1)      // model.py:12 forward\n"
                "  %3: f32[4, 8] = aten.relu(%5)\n"
                "  return %3\n"
                "}\n"));
}

TEST(CacheKey, DifferentForEverySemanticChange) {
  std::set<std::string> keys{key(kGraph)};
  std::vector<std::pair<std::string, std::string>> changes = {
      {"relu", "exp"},
      {"%1, 1)", "%1, 2)"},
      {"%1, 1)", "%1, 1.0)"},
      {"return %3", "return %2"},
      {"add.Tensor(%0, %1", "add.Tensor(%1, %0"},
      {"w: f32[8] parameter", "w: f32[8]"},
      {"return %3", "return %3, %2"},
      {"return %3\n", "return %3\n  mutate %0 <- %3\n"}};
  for (const auto& [from, to] : changes) {
    std::string text(kGraph);
    text.replace(text.find(from), from.size(), to);
    EXPECT_TRUE(keys.insert(key(text)).second) << text;
  }
  std::string text(kGraph);
  for (size_t at; (at = text.find("f32[4, 8]")) != std::string::npos;)
    text.replace(at, 9, "f32[5, 8]");
  EXPECT_TRUE(keys.insert(key(text)).second);
}

// An op that is not on the list, as its author declares it from time to time.
TEST(CacheKey, DifferentForOtherEffectsOfAnOp) {
  std::set<std::string> keys;
  for (const char* effects :
       {"", "!opaque", "!random", "!mutates[0]", "!mutates[1]", "!mutates[0, 1]",
        "!mutates[0] !results_alias[0]", "!results_alias[0]", "!results_alias[1]",
        "!inplace_view !mutates[0] !results_alias[0]"}) {
    const std::string alias = std::string_view(effects).ends_with("alias[0]")   ? " #%0"
                              : std::string_view(effects).ends_with("alias[1]") ? " #%1"
                                                                                : "";
    const std::string text = "graph(%0: f32[4], %1: f32[4]) {\n  %2: f32[4]" + alias +
                             " = my.op(%0, %1) " + effects + "\n  return %2\n}\n";
    EXPECT_TRUE(keys.insert(key(text)).second) << text;
    EXPECT_FALSE(keys.insert(key(text)).second) << text;
  }
}

// What the module holds beside its code.
TEST(CacheKey, DifferentForOtherConstantsStatesAndConditions) {
  std::set<std::string> keys;
  const auto add = [&](const std::string& constant, const std::string& output,
                       const std::string& where) {
    const std::string text = "graph(s0 = size(%0, 0) hint 8, %0 x: f32[s0], %1 c: f32[] constant" +
                             constant + ") {\n  %2: f32[s0] = aten.add.Tensor(%0, %1, 1)\n" +
                             "  return %2" + output + "\n" + where + "}\n";
    EXPECT_TRUE(keys.insert(key(text)).second) << text;
    EXPECT_FALSE(keys.insert(key(text)).second) << text;
  };
  add("", "", "");
  add(" \"00000000\"", "", "");
  add(" \"00000080\"", "", "");  // -0.0
  add(" \"0000c07f\"", "", "");
  add(" \"0100c07f\"", "", "");  // another NaN
  add("", " view", "");
  add("", " view(no_grad)", "");
  add("", " inference", "");
  add("", "", "  where s0 % 8 == 0\n");
  add("", "", "  where s0 % 4 == 0\n");
  graph::Graph graph = graph::parse(kGraph);
  graph.set_outputs(graph.outputs(), {graph::OutputRole{}});  // as if it came from outside
  EXPECT_NE(cache_key(graph, {}), key(kGraph));
}

TEST(CacheKey, DifferentForOtherOptions) {
  Options options;
  std::set<std::string> keys{key(kGraph, options)};
  options.backend = Backend::kAten;
  EXPECT_TRUE(keys.insert(key(kGraph, options)).second);
  for (const target::Target& target : std::initializer_list<target::Target>{
           target::Cpu{target::Isa::kAvx2}, target::Cpu{target::Isa::kAvx2, 3},
           target::cuda(90, 132, 3350000)}) {
    options.target = target;
    EXPECT_TRUE(keys.insert(key(kGraph, options)).second);
  }
  for (const passes::ChannelsLast which :
       {passes::ChannelsLast::kHalves, passes::ChannelsLast::kAll}) {
    options.channels_last = which;
    EXPECT_TRUE(keys.insert(key(kGraph, options)).second);
  }
}

TEST(CacheKey, HoldsTheCompilersVersion) { EXPECT_EQ(compiler_version().size(), 64u); }

}  // namespace
}  // namespace braze::compile
