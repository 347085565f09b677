// Scatters on GPUs, against sums by hand. The interpreter adds up in the order of the points, which
// is one of those that are allowed.
#include <cmath>

#include "loop/run_program.h"

namespace braze::loop {
namespace {

std::string on_gpu(std::string types) {
  for (size_t at = 0; (at = types.find(']', at)) != std::string::npos; at += 8)
    types.replace(at, 1, "]@cuda:0");
  return types;
}

Program lowered_for_gpu(const std::string& inputs, const std::string& result,
                        const std::string& call, bool deterministic = false) {
  return lower(graph::parse(one(on_gpu(inputs), on_gpu(result), call)),
               target::cuda(90, 132, 3350000), deterministic);
}

bool has_call(const Program& program) {
  return std::ranges::any_of(
      program.items, [](const Item& item) { return std::holds_alternative<ExternCall>(item); });
}

Numbers run_on_gpu(const std::string& inputs, const std::string& result, const std::string& call,
                   const std::vector<Numbers>& values) {
  const Program program = lowered_for_gpu(inputs, result, call);
  EXPECT_FALSE(has_call(program)) << to_string(program);
  const auto outputs = ProgramRunner(program).run(values);
  EXPECT_TRUE(outputs) << call;
  return outputs ? outputs->at(0) : Numbers();
}

const std::string kRows = "%0: TYPE[2, 2], %1: i64[3], %2: TYPE[3, 2]";
const std::string kPlaces = "%0: TYPE[2, 3], %1: i64[2, 2], %2: TYPE[2, 2]";

std::string of_type(std::string text, const std::string& type) {
  for (size_t at = 0; (at = text.find("TYPE", at)) != std::string::npos;) text.replace(at, 4, type);
  return text;
}

TEST(LowerScatterForGpu, RowsAreAdded) {
  for (const std::string type : {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "u8"}) {
    EXPECT_EQ(run_on_gpu(of_type(kRows, type), type + "[2, 2]", "aten.index_add(%0, 0, %1, %2, 1)",
                         {{1, 1, 2, 2}, {1, 0, 1}, {1, 2, 3, 4, 5, 6}}),
              (Numbers{4, 5, 8, 10}))
        << type;
    EXPECT_EQ(run_on_gpu(of_type("%0: TYPE[2, 2], %1: i32[3], %2: TYPE[2, 3]", type),
                         type + "[2, 2]", "aten.index_add(%0, 1, %1, %2, 1)",
                         {{1, 1, 2, 2}, {1, 0, 1}, {1, 2, 3, 4, 5, 6}}),
              (Numbers{3, 5, 7, 12}))
        << type;
  }
}

TEST(LowerScatterForGpu, EachToItsPlace) {
  const std::vector<Numbers> values = {{1, 1, 1, 2, 2, 2}, {2, 2, 0, 1}, {3, 4, 5, 6}};
  const std::pair<const char*, Numbers> calls[] = {
      {"aten.scatter_add(%0, 1, %1, %2)", {1, 1, 8, 7, 8, 2}},
      {"aten.scatter_reduce.two(%0, 1, %1, %2, \"amax\", true)", {1, 1, 4, 5, 6, 2}},
      {"aten.scatter_reduce.two(%0, 1, %1, %2, \"amin\", true)", {1, 1, 1, 2, 2, 2}},
      {"aten.scatter_reduce.two(%0, 1, %1, %2, \"amin\", false)", {1, 1, 3, 5, 6, 2}},
      {"aten.scatter_reduce.two(%0, 1, %1, %2, \"amax\", false)", {1, 1, 4, 5, 6, 2}},
      {"aten.scatter_reduce.two(%0, 1, %1, %2, \"sum\", false)", {1, 1, 7, 5, 6, 2}},
      {"aten.scatter_reduce.two(%0, 1, %1, %2, \"prod\", false)", {1, 1, 12, 5, 6, 2}},
      {"aten.scatter.reduce(%0, 1, %1, %2, \"multiply\")", {1, 1, 12, 10, 12, 2}},
      {"aten.scatter.value(%0, 1, %1, 9)", {1, 1, 9, 9, 9, 2}},
      {"aten.scatter.src(%0, 1, %1, %2)", {1, 1, 4, 5, 6, 2}},
  };
  for (const std::string type : {"f32", "f64", "f16", "bf16", "i64", "i32", "u8"})
    for (const auto& [call, want] : calls)
      EXPECT_EQ(run_on_gpu(of_type(kPlaces, type), type + "[2, 3]", call, values), want)
          << type << call;
}

TEST(LowerScatterForGpu, Means) {
  const std::vector<Numbers> values = {{1, 1, 1, 2, 2, 2}, {2, 2, 0, 1}, {3, 5, 5, 7}};
  const auto mean = [&](const std::string& type, const std::string& with_self) {
    return run_on_gpu(of_type(kPlaces, type), type + "[2, 3]",
                      "aten.scatter_reduce.two(%0, 1, %1, %2, \"mean\", " + with_self + ")",
                      values);
  };
  for (const std::string type : {"f32", "f64", "f16", "bf16"}) {
    EXPECT_EQ(mean(type, "true"), (Numbers{1, 1, 3, 3.5, 4.5, 2})) << type;
    EXPECT_EQ(mean(type, "false"), (Numbers{1, 1, 4, 5, 7, 2})) << type;
  }
  EXPECT_EQ(mean("i64", "true"), (Numbers{1, 1, 3, 3, 4, 2}));
}

TEST(LowerScatterForGpu, IndexPut) {
  const std::string inputs = "%0: TYPE[2, 3], %1: i64[4], %2: TYPE[3]";
  const std::vector<Numbers> values = {{0, 0, 0, 5, 5, 5}, {1, -1, 0, 1}, {1, 2, 3}};
  EXPECT_EQ(
      run_on_gpu(of_type(inputs, "i64"), "i64[2, 3]", "aten.index_put(%0, [%1], %2, true)", values),
      (Numbers{1, 2, 3, 8, 11, 14}));
  for (const std::string type : {"f16", "i16", "f64"})
    EXPECT_EQ(run_on_gpu(of_type(inputs, type), type + "[2, 3]",
                         "aten.index_put(%0, [%1], %2, false)", values),
              (Numbers{1, 2, 3, 1, 2, 3}));
  EXPECT_TRUE(has_call(
      lowered_for_gpu(of_type(inputs, "f32"), "f32[2, 3]", "aten.index_put(%0, [%1], %2, true)")));
}

TEST(LowerScatterForGpu, Histogram) {
  EXPECT_EQ(run_on_gpu("%0: f32[8]", "f32[4]", "aten.histc(%0, 4, 0.0, 2.0)",
                       {{-0.1, 0, 0.4, 0.5, 1.9, 2, 2.1, std::nan("")}}),
            (Numbers{2, 1, 0, 2}));
  EXPECT_EQ(
      run_on_gpu("%0: f64[2, 2]", "f64[2]", "aten.histc(%0, 2, -1.0, 1.0)", {{-kInf, kInf, -1, 0}}),
      (Numbers{1, 1}));
}

TEST(LowerScatterForGpu, WhatHasToBeDeterministicIsACall) {
  const std::string call = "aten.index_add(%0, 0, %1, %2, 1)", rows = of_type(kRows, "f32");
  EXPECT_FALSE(has_call(lowered_for_gpu(rows, "f32[2, 2]", call)));
  EXPECT_TRUE(has_call(lowered_for_gpu(rows, "f32[2, 2]", call, /*deterministic=*/true)));
}

TEST(LowerScatterForGpu, IndicesOutOfRange) {
  const Program program =
      lowered_for_gpu(of_type(kRows, "f32"), "f32[2, 2]", "aten.index_add(%0, 0, %1, %2, 1)");
  for (double bad : {2.0, -1.0})
    EXPECT_FALSE(ProgramRunner(program).run({{1, 1, 2, 2}, {1, 0, bad}, {1, 2, 3, 4, 5, 6}}));
}

}  // namespace
}  // namespace braze::loop
