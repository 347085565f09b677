// Scans and accumulating stores: text, checks, the interpreter's values, effects.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "loop/effects.h"
#include "loop/kernel_errors.h"
#include "loop/program.h"

namespace braze::loop {
namespace {

constexpr const char* kShare =
    R"(kernel share(b0: f32 in, b1: f32 out) outer(o0 < 2) inner(i0 < 3) {
  r0 = scan(0:f32, add(r0.before, load(b0, o0*3 + i0))) inner
  r1 = sum(load(b0, o0*3 + i0)) inner
  store(b1, o0*3 + i0, div(r0, r1)) inner
}
)";

constexpr const char* kTop =
    R"(kernel top(b0: f32 in, b1: f32 out, b2: i64 out) outer(o0 < 2) inner(i0 < 3) {
  r0 = scan_max(load(b0, o0*3 + i0)) inner
  r1 = scan_sum(r0) inner
  store(b1, o0*3 + i0, r1) inner
  store(b2, o0*3 + i0, r0.place) inner
}
)";

constexpr const char* kHistogram =
    R"(kernel histogram(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 2) inner(i0 < 4) {
  store_add(b2, o0*3 + check_index(load(b0, i0), 3), load(b1, o0*4 + i0)) inner
}
)";

TEST(Scan, RoundTrip) {
  for (std::string text : {kShare, kTop, kHistogram}) {
    ExprPool pool;
    const Kernel kernel = parse_kernel(text, pool);
    verify(kernel);
    EXPECT_EQ(to_string(kernel), text);
    for (const char* other : {"store_mul", "store_min", "store_max"}) {
      std::string changed = text;
      const size_t at = changed.find("store_add");
      if (at == std::string::npos) continue;
      changed.replace(at, 9, other);
      EXPECT_EQ(to_string(parse_kernel(changed, pool)), changed);
    }
  }
}

TEST(Scan, Errors) {
  expect_message("kernel k(b0: f32 in) inner(i0 < 4) { r0 = scan(0:f32, add(r0, 1:f32)) inner }",
                 "r0 is used before its definition");
  expect_message("kernel k(b0: f32 in) inner(i0 < 4) { r0 = scan(0:f64, 1:f32) inner }",
                 "r0 scans f32 in f64");
  expect_message("kernel k(b0: f16 in) inner(i0 < 4) { r0 = scan(0:f16, load(b0, i0)) inner }",
                 "r0 scans f16 in f16");
  expect_message(
      "kernel k(b0: f32 out) inner(i0 < 4) { r0 = scan(0:f32, 1:f32) inner store(b0, 0, r0) }",
      "the running r0 in an outer statement");
  expect_message(
      "kernel k(b0: f32 out) inner(i0 < 4) {\n store(b0, i0, 1:f32) inner\n"
      "r0 = scan(0:f32, load(b0, i0)) inner\n store(b0, i0, r0) inner }",
      "store to b0, which a scan has loaded");
}

TEST(Scan, ErrorsOfOperations) {
  const std::string begin = "kernel k(b0: f32 in, b1: f32 out) inner(i0 < 4) {\n";
  const std::string sum = "r0 = scan_sum(load(b0, i0)) inner ";
  expect_message(begin + sum + "store(b1, i0, r0.before) inner }", "no such part of r0");
  expect_message(begin + sum + "store(b1, i0, f32(r0.place)) inner }", "no such part of r0");
  expect_message(begin + "r0 = scan_logsumexp(i0) inner }", "scan_logsumexp of i64");
  expect_message(begin + "r0 = scan_max(true) inner }", "r0 scans bool in bool");
  expect_message(begin + sum + "store(b1, 0, r0) }", "the running r0 in an outer statement");
}

TEST(AccumulatingStore, Errors) {
  expect_message("kernel k(b0: f32 out) outer(o0 < 4) { store_add(b0, 0, 1:f32) }",
                 "all o0 accumulate into the same elements of b0");
  expect_message("kernel k(b0: bool out) { store_add(b0, 0, 1:bool) }", "store_add in bool");
  expect_message("kernel k(b0: f32 out) { store(b0, 0, 1:f32) store_add(b0, 0, 1:f32) }",
                 "store to b0, which is accumulated into");
  expect_message("kernel k(b0: f32 out) { store_add(b0, 0, 1:f32) store(b0, 0, 1:f32) }",
                 "store to b0, which is accumulated into");
  expect_message("kernel k(b0: f32 out) { store_add(b0, 0, 1:f32) store_max(b0, 0, 1:f32) }",
                 "b0 is accumulated into in two ways");
  expect_message("kernel k(b0: f32 out) { store_add(b0, 0, load(b0, 0)) }",
                 "at an index that was not stored before");
}

TEST(Interpret, ScanIsSeenAtItsPoint) {
  ExprPool pool;
  const Kernel kernel = parse_kernel(kShare, pool);
  float in[6] = {1, 2, 5, 4, -2, 2}, out[6];
  void* params[] = {in, out};
  ASSERT_TRUE(interpret(kernel, params));
  const float expected[6] = {1.0f / 8, 3.0f / 8, 1, 1, 0.5f, 1};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

TEST(Interpret, ScansWithAnOperation) {
  ExprPool pool;
  const Kernel kernel = parse_kernel(kTop, pool);
  verify(kernel);
  float in[6] = {1, 2, 2, NAN, 3, NAN}, sums[6];
  int64_t places[6];
  void* params[] = {in, sums, places};
  ASSERT_TRUE(interpret(kernel, params));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sums[i], (std::array{1, 3, 5})[i]);
    EXPECT_TRUE(std::isnan(sums[3 + i]));
  }
  EXPECT_EQ(std::vector<int64_t>(places, places + 6), (std::vector<int64_t>{0, 1, 2, 0, 0, 2}));
  const Kernel logs = parse_kernel(
      "kernel k(b0: f32 in, b1: f32 out) inner(i0 < 6) {\n"
      "  r0 = scan_logsumexp(load(b0, i0)) inner\n  store(b1, i0, r0) inner\n}\n",
      pool);
  float numbers[6] = {-INFINITY, -INFINITY, 0, 0, INFINITY, INFINITY}, out[6];
  void* both[] = {numbers, out};
  ASSERT_TRUE(interpret(logs, both));
  EXPECT_EQ(std::vector<float>(out, out + 6),
            (std::vector<float>{-INFINITY, -INFINITY, 0, std::log(2.0f), INFINITY, INFINITY}));
}

TEST(Interpret, ScanRunsInRowMajorOrder) {
  ExprPool pool;
  const Kernel kernel = parse_kernel(
      "kernel k(b0: i64 out, b1: i64 out) inner(i0 < 2, i1 < 3) {\n"
      "  r0 = scan(100, r0.before + i0*3 + i1) inner\n"
      "  r1 = scan(0, max(r1.before, r0.before)) inner\n"
      "  store(b0, i0*3 + i1, r0) inner\n"
      "  store(b1, i0*3 + i1, r1) inner\n}\n",
      pool);
  verify(kernel);
  int64_t sums[6], before[6];
  void* params[] = {sums, before};
  ASSERT_TRUE(interpret(kernel, params));
  const int64_t expected[6] = {100, 101, 103, 106, 110, 115};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(sums[i], expected[i]) << i;
    EXPECT_EQ(before[i], i == 0 ? 100 : expected[i - 1]) << i;
  }
}

TEST(Interpret, ScanThatAReductionSees) {
  ExprPool pool;
  const Kernel kernel = parse_kernel(
      "kernel k(b0: f32 in, b1: f32 out) inner(i0 < 4) {\n"
      "  r0 = scan(0:f32, add(r0.before, load(b0, i0))) inner\n"
      "  r1 = max(r0) inner\n"
      "  store(b1, 0, r1)\n}\n",
      pool);
  verify(kernel);
  float in[4] = {1, 3, -2, 1}, out = 0;
  void* params[] = {in, &out};
  ASSERT_TRUE(interpret(kernel, params));
  EXPECT_EQ(out, 4);
}

TEST(Interpret, AccumulatingStores) {
  struct Case {
    const char* store;
    float expected[3];
  };
  for (const Case& c :
       {Case{"store_add", {10 + 1 + 4, 10, 10 + 2 - 3}},
        Case{"store_mul", {10 * 1 * 4, 10, 10 * 2 * -3}}, Case{"store_min", {1, 10, -3}},
        Case{"store_max", {10, 10, 10}}, Case{"store_last", {4, 10, -3}}}) {
    ExprPool pool;
    std::string text = kHistogram;
    text.replace(text.find("store_add"), 9, c.store);
    const Kernel kernel = parse_kernel(text, pool);
    int64_t places[4] = {0, 2, 2, 0};
    float values[8] = {1, 2, -3, 4, 1, NAN, 1, 1}, out[6] = {10, 10, 10, 5, 5, 5};
    void* params[] = {places, values, out};
    ASSERT_TRUE(interpret(kernel, params));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(out[i], c.expected[i]) << c.store << " " << i;
    EXPECT_EQ(out[4], 5);
    if (std::string(c.store) == "store_last")
      EXPECT_EQ(out[5], 1);
    else
      EXPECT_TRUE(std::isnan(out[5])) << c.store;
    places[1] = 3;
    EXPECT_FALSE(interpret(kernel, params));
  }
}

TEST(Effects, OfEachKindOfStatement) {
  ExprPool pool;
  const Kernel share = parse_kernel(kShare, pool), histogram = parse_kernel(kHistogram, pool);
  const Effects scan = effects_of(share.body[0]);
  EXPECT_EQ(scan.loads, std::vector<int>{0});
  EXPECT_EQ(scan.results, std::vector<int>{0});
  EXPECT_EQ(scan.defines, 0);
  EXPECT_EQ(scan.writes(), -1);
  const Effects store = effects_of(share.body[2]);
  EXPECT_TRUE(store.loads.empty());
  EXPECT_EQ(store.results, (std::vector<int>{0, 1}));
  EXPECT_EQ(store.overwrites, 1);
  EXPECT_EQ(store.accumulates, -1);
  const Effects add = effects_of(histogram.body[0]);
  EXPECT_EQ(add.loads, (std::vector<int>{0, 1}));
  EXPECT_EQ(add.overwrites, -1);
  EXPECT_EQ(add.accumulates, 2);
  EXPECT_EQ(accumulated_params(histogram), (std::vector<bool>{false, false, true}));
  EXPECT_TRUE(keeps_inner_order(share) && keeps_inner_order(histogram));
}

TEST(Statement, EveryFieldCounts) {
  ExprPool pool;
  const ExprRef one = pool.constant(DType::kFloat32, 1), two = pool.constant(DType::kFloat32, 2);
  const Statement plain{.initial = one, .index = pool.integer(1), .value = one};
  std::vector<Statement> others(10, plain);
  others[0].kind = Statement::Kind::kScan;
  others[1].inner = true;
  others[2].op = ReduceOp::kProd;
  others[3].reduced = 1;
  others[4].accumulate = DType::kFloat64;
  others[5].initial = two;
  others[6].store = StoreOp::kAdd;
  others[7].buffer = 1;
  others[8].index = pool.integer(2);
  others[9].scan = ScanOp::kSum;
  others.push_back(plain);
  others.back().value = two;
  for (const Statement& other : others) {
    EXPECT_NE(hash_of(other), hash_of(plain));
    EXPECT_FALSE(other == plain);
  }
  EXPECT_EQ(hash_of(Statement(plain)), hash_of(plain));
}

}  // namespace
}  // namespace braze::loop
