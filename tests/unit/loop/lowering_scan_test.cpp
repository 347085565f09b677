// Lowerings that scan or accumulate, by the interpreter's values.
#include <gtest/gtest.h>

#include <cmath>

#include "loop/run_program.h"

namespace braze::loop {
namespace {

constexpr double kNan = NAN;

bool refuses(const std::string& text, const std::vector<Numbers>& values) {
  const graph::Graph graph = graph::parse(text);
  const Program program = lower(graph, {});
  return !ProgramRunner(program).run(values);
}

void expect_same(const Numbers& actual, const Numbers& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_TRUE(actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i])))
        << "element " << i << ": " << actual[i] << ", not " << expected[i];
}

TEST(LowerScan, RunningSumsAndProducts) {
  EXPECT_EQ(run_one("%0: f32[2, 3]", "f32[2, 3]", "aten.cumsum(%0, 1, None)", {{1, 2, 3, 4, 5, 6}}),
            (Numbers{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(
      run_one("%0: f32[2, 3]", "f32[2, 3]", "aten.cumprod(%0, -2, None)", {{1, 2, 3, 4, 5, 6}}),
      (Numbers{1, 2, 3, 4, 10, 18}));
  EXPECT_EQ(run_one("%0: bool[4]", "i64[4]", "aten.cumsum(%0, 0, None)", {{1, 0, 1, 1}}),
            (Numbers{1, 1, 2, 3}));
  EXPECT_EQ(run_one("%0: u8[3]", "u8[3]", "aten.cumsum(%0, 0, u8)", {{200, 100, 1}}),
            (Numbers{200, 44, 45}));
  EXPECT_EQ(run_one("%0: f32[]", "f32[]", "aten.cumsum(%0, -1, None)", {{5}}), (Numbers{5}));
  EXPECT_EQ(run_one("%0: f32[0, 3]", "f32[0, 3]", "aten.cumsum(%0, 0, None)", {{}}), Numbers{});
  EXPECT_TRUE(is_extern("%0: bool[4]", "bool[4]", "aten.cumsum(%0, 0, bool)"));
}

TEST(LowerScan, SumsAreKeptInDouble) {
  const double small = std::ldexp(1.0, -24);
  EXPECT_EQ(run_one("%0: f32[4]", "f32[4]", "aten.cumsum(%0, 0, None)", {{1, small, small, small}}),
            (Numbers{1, 1, static_cast<float>(1 + 2 * small), static_cast<float>(1 + 3 * small)}));
}

TEST(LowerScan, ExtremaWithTheirPlaces) {
  const std::string head = "graph(%0: f32[6]) { %1: f32[6], %2: i64[6] = ";
  auto outputs = run(head + "aten.cummax(%0, 0) return %1, %2 }", {{1, 3, 3, 2, kNan, 9}});
  expect_same(outputs.at(0), {1, 3, 3, 3, kNan, kNan});
  expect_same(outputs.at(1), {0, 1, 2, 2, 4, 4});
  outputs = run(head + "aten.cummin(%0, 0) return %1, %2 }", {{kInf, kInf, kNan, 1, kNan, -kInf}});
  expect_same(outputs.at(0), {kInf, kInf, kNan, kNan, kNan, kNan});
  expect_same(outputs.at(1), {0, 1, 2, 2, 4, 4});
  outputs = run("graph(%0: i64[3]) { %1: i64[3], %2: i64[3] = aten.cummax(%0, 0) return %2 }",
                {{-5, -5, -7}});
  expect_same(outputs.at(0), {0, 1, 1});
}

TEST(LowerScan, LogarithmOfSums) {
  const Numbers got =
      run_one("%0: f32[4]", "f32[4]", "aten.logcumsumexp(%0, 0)", {{-kInf, 0, 100, 100}});
  expect_same({got[0], got[1], got[2]}, {-kInf, 0, 100});
  EXPECT_NEAR(got[3], 100 + std::log(2.0), 1e-5);
  expect_same(run_one("%0: f32[3]", "f32[3]", "aten.logcumsumexp(%0, 0)", {{1, kInf, -kInf}}),
              {1, kInf, kInf});
  expect_same(run_one("%0: f32[2]", "f32[2]", "aten.logcumsumexp(%0, 0)", {{kNan, 1}}),
              {kNan, kNan});
}

TEST(LowerScatter, RowsAreAdded) {
  const std::string inputs = "%0: f32[2, 2], %1: i64[3], %2: f32[3, 2]";
  const std::string call = "aten.index_add(%0, 0, %1, %2, 1)";
  EXPECT_EQ(run_one(inputs, "f32[2, 2]", call, {{1, 1, 2, 2}, {1, 0, 1}, {1, 2, 3, 4, 5, 6}}),
            (Numbers{4, 5, 8, 10}));
  EXPECT_TRUE(is_extern(inputs, "f32[2, 2]", "aten.index_add(%0, 0, %1, %2, 2)"));
  // Out of range.
  const auto graph = one(inputs, "f32[2, 2]", call);
  for (double bad : {2.0, -1.0})
    EXPECT_TRUE(refuses(graph, {{1, 1, 2, 2}, {1, 0, bad}, {1, 2, 3, 4, 5, 6}}));
}

TEST(LowerScatter, EachToItsPlace) {
  const std::string inputs = "%0: f32[2, 3], %1: i64[2, 2], %2: f32[2, 2]";
  const std::vector<Numbers> values = {{1, 1, 1, 2, 2, 2}, {2, 2, 0, 1}, {3, 4, 5, 6}};
  EXPECT_EQ(run_one(inputs, "f32[2, 3]", "aten.scatter_add(%0, 1, %1, %2)", values),
            (Numbers{1, 1, 8, 7, 8, 2}));
  EXPECT_EQ(run_one(inputs, "f32[2, 3]", "aten.scatter_reduce.two(%0, 1, %1, %2, \"amax\", true)",
                    values),
            (Numbers{1, 1, 4, 5, 6, 2}));
  EXPECT_EQ(
      run_one(inputs, "f32[2, 3]", "aten.scatter.reduce(%0, 1, %1, %2, \"multiply\")", values),
      (Numbers{1, 1, 12, 10, 12, 2}));
  EXPECT_EQ(run_one(inputs, "f32[2, 3]", "aten.scatter.src(%0, 1, %1, %2)", values),
            (Numbers{1, 1, 4, 5, 6, 2}));
  EXPECT_EQ(run_one(inputs, "f32[2, 3]", "aten.scatter.value(%0, 1, %1, 9)", values),
            (Numbers{1, 1, 9, 9, 9, 2}));
  EXPECT_EQ(run_one("%0: bool[3], %1: i64[3], %2: bool[3]", "bool[3]",
                    "aten.scatter.src(%0, 0, %1, %2)", {{1, 0, 0}, {0, 2, 0}, {1, 1, 0}}),
            (Numbers{0, 0, 1}));
  for (const char* refused : {"aten.scatter_reduce.two(%0, 1, %1, %2, \"mean\", true)",
                              "aten.scatter_reduce.two(%0, 1, %1, %2, \"sum\", false)"})
    EXPECT_TRUE(is_extern(inputs, "f32[2, 3]", refused)) << refused;
}

TEST(LowerScatter, IndexPut) {
  const std::string inputs = "%0: f32[2, 3], %1: i64[4], %2: f32[3]";
  const std::string call = "aten.index_put(%0, [%1], %2, true)";
  EXPECT_EQ(run_one(inputs, "f32[2, 3]", call, {{0, 0, 0, 5, 5, 5}, {1, -1, 0, 1}, {1, 2, 3}}),
            (Numbers{1, 2, 3, 8, 11, 14}));
  EXPECT_TRUE(
      refuses(one(inputs, "f32[2, 3]", call), {{0, 0, 0, 5, 5, 5}, {1, -3, 0, 1}, {1, 2, 3}}));
  EXPECT_EQ(run_one("%0: i64[2, 2], %1: i64[3], %2: i64[3], %3: i64[3]", "i64[2, 2]",
                    "aten.index_put(%0, [%1, %2], %3, true)",
                    {{0, 0, 0, 0}, {1, 1, 0}, {0, 0, 1}, {1, 2, 3}}),
            (Numbers{0, 3, 3, 0}));
  EXPECT_EQ(run_one(inputs, "f32[2, 3]", "aten.index_put(%0, [%1], %2, false)",
                    {{9, 9, 9, 5, 5, 5}, {0, -2, 0, 0}, {1, 2, 3}}),
            (Numbers{1, 2, 3, 5, 5, 5}));
}

TEST(LowerScatter, AlongColumns) {
  EXPECT_EQ(
      run_one("%0: f32[3, 2], %1: i64[2, 2], %2: f32[2, 2]", "f32[3, 2]",
              "aten.scatter_add(%0, 0, %1, %2)", {{0, 0, 0, 0, 0, 0}, {2, 0, 2, 1}, {1, 2, 3, 4}}),
      (Numbers{0, 2, 0, 4, 4, 0}));
  EXPECT_EQ(
      run_one("%0: f32[2, 2], %1: i64[3], %2: f32[2, 3]", "f32[2, 2]",
              "aten.index_add(%0, 1, %1, %2, 1)", {{0, 0, 10, 10}, {1, 0, 1}, {1, 2, 3, 4, 5, 6}}),
      (Numbers{2, 4, 15, 20}));
}

// 2048 and 2050 are neighbours: each sum of 1 is a tie, which goes to the even one.
TEST(LowerScatter, HalvesAreRoundedAtEachStep) {
  EXPECT_EQ(run_one("%0: f16[1], %1: i64[3], %2: f16[3]", "f16[1]",
                    "aten.index_add(%0, 0, %1, %2, 1)", {{2048}, {0, 0, 0}, {1, 1, 1}}),
            (Numbers{2048}));
}

// Not where eager adds up in f32: 2048 + 3 is rounded once.
TEST(LowerScatter, HalvesAreRoundedWhenTheSumIsComplete) {
  const std::string inputs = "%0: f16[1, 2], %1: i64[3], %2: f16[3, 2]";
  const std::vector<Numbers> values = {{2048, 1}, {0, 0, 0}, {1, 1, 1, 1, 1, 1}};
  EXPECT_EQ(run_one(inputs, "f16[1, 2]", "aten.index_add(%0, 0, %1, %2, 1)", values),
            (Numbers{2052, 4}));
  EXPECT_TRUE(is_extern(inputs, "f16[1, 2]", "aten.index_add(%0, 0, %1, %2, 2)"));
  EXPECT_TRUE(is_extern("%0: f16[2, 1], %1: i64[2], %2: f16[2, 2]", "f16[2, 1]",
                        "aten.index_add(%0, 1, %1, %2, 1)"));
  const std::string single = "%0: bf16[2], %1: i64[3], %2: bf16[3]";
  const std::vector<Numbers> parts = {{256, 3}, {0, 0, 1}, {1, 1, 2}};
  EXPECT_EQ(run_one(single, "bf16[2]", "aten.scatter_add(%0, 0, %1, %2)", parts),
            (Numbers{258, 5}));
  EXPECT_EQ(run_one(single, "bf16[2]", "aten.scatter.reduce(%0, 0, %1, %2, \"multiply\")", parts),
            (Numbers{256, 6}));
  EXPECT_EQ(
      run_one(single, "bf16[2]", "aten.scatter_reduce.two(%0, 0, %1, %2, \"amax\", true)", parts),
      (Numbers{256, 3}));
}

TEST(LowerScatter, GradientOfAnEmbedding) {
  const std::string inputs = "%0: f32[5, 2], %1: i64[5]";
  const std::vector<Numbers> values = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {2, 0, 2, 1, 9}};
  EXPECT_EQ(
      run_one(inputs, "f32[3, 2]", "aten.embedding_dense_backward(%0, %1, 3, -1, false)", values),
      (Numbers{3, 4, 7, 8, 6, 8}));
  EXPECT_EQ(
      run_one(inputs, "f32[3, 2]", "aten.embedding_dense_backward(%0, %1, 3, 2, false)", values),
      (Numbers{3, 4, 7, 8, 0, 0}));
  EXPECT_TRUE(is_extern(inputs, "f32[3, 2]", "aten.embedding_dense_backward(%0, %1, 3, -1, true)"));
}

TEST(LowerLosses, GradientOfNllLoss) {
  const std::string inputs = "%0: f32[], %1: f32[3, 2], %2: i64[3], %3: f32[2], %4: f32[]";
  const std::string call = "aten.nll_loss_backward(%0, %1, %2, %3, 1, -100, %4)";
  const Numbers x(6), weight = {2, 3};
  EXPECT_EQ(run_one(inputs, "f32[3, 2]", call, {{4}, x, {1, -100, 0}, weight, {2}}),
            (Numbers{0, -6, 0, 0, -4, 0}));
  EXPECT_TRUE(refuses(one(inputs, "f32[3, 2]", call), {{4}, x, {1, 2, 0}, weight, {2}}));
}

}  // namespace
}  // namespace braze::loop
