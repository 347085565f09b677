// Scans and accumulating stores against the interpreter.
#include "codegen/cpp/nest.h"
#include "codegen/run_kernels.h"

namespace braze::codegen::cpp {
namespace {

// `value` with the running value as R and the element as X.
std::string filled(std::string text, const std::string& element) {
  for (size_t at; (at = text.find('R')) != std::string::npos;) text.replace(at, 1, "r0.before");
  for (size_t at; (at = text.find('X')) != std::string::npos;) text.replace(at, 1, element);
  return text;
}

TEST(Scan, OverRowsAndColumns) {
  struct Op {
    std::string type, accumulate, initial, value, result;
  };
  const Op ops[] = {
      {"f32", "f32", "0:f32", "add(R, X)", "r0"},
      {"f32", "f64", "0:f64", "add(R, f64(X))", "f32(r0)"},
      {"f64", "f64", "1:f64", "mul(R, X)", "r0"},
      {"i64", "i64", "0", "add(R, X)", "r0"},
      {"bool", "i64", "0", "add(R, i64(X))", "r0.before"},
      {"bool", "bool", "true", "and(R, X)", "r0"},
      {"f16", "f32", "0:f32", "add(R, f32(X))", "f16(r0)"},
      {"i32", "i32", "0:i32", "where(lt(R, X), X, R)", "r0"},
  };
  for (bool special : {false, true}) {
    std::vector<std::string> texts;
    for (const Op& op : ops)
      for (int n : {1, 5, 70})
        for (bool rows : {true, false}) {
          const std::string at = rows ? "o0*" + number(n) + " + i0" : "i0*21 + o0";
          const std::string out = op.result[0] == 'r' ? op.accumulate : op.type;
          texts.push_back("kernel scan(b0: " + op.type + " in, b1: " + out +
                          " out) outer(o0 < 21) inner(i0 < " + number(n) + ") {\n r0 = scan(" +
                          op.initial + ", " + filled(op.value, "load(b0, " + at + ")") +
                          ") inner\n store(b1, " + at + ", " + op.result + ") inner\n}");
        }
    check_kernels(texts, {.tolerance = 1e-5, .magnitude = 1e-2, .special = special});
  }
}

TEST(Scan, WithReductionsInSeveralLevels) {
  std::vector<std::string> texts;
  for (const std::string at : {"o0*200 + i0*20 + i1", "i0*500 + i1*25 + o0", "o0*200 + i1*9 + i0"})
    texts.push_back(
        "kernel share(b0: f32 in, b1: f32 out, b2: i64 out, b3: f32 out) outer(o0 < 23) "
        "inner(i0 < 9, i1 < 20) {\n"
        " r0 = scan(0:f32, add(mul(r0.before, 0.5:f32), load(b0, " +
        at +
        "))) inner\n"
        " r1 = max(abs(r0)) inner\n"
        " r2 = scan(0, where(lt(r0.before, r0), i0*20 + i1, r2.before)) inner\n"
        " store(b1, " +
        at +
        ", div(r0, r1)) inner\n"
        " store(b2, " +
        at +
        ", r2) inner\n"
        " r3 = scan(0.25:f32, add(r3.before, sub(r0, r1))) inner\n"
        " store(b3, " +
        at + ", r3) inner\n}");
  check_kernels(texts, {.tolerance = 1e-4, .magnitude = 1});
}

TEST(Scan, ThatChooses) {
  // The running value is a new one or that before: rows are walked one by one.
  const std::string rows = "outer(o0 < 21) inner(i0 < 37) {\n";
  const std::string x = "load(b0, o0*37 + i0)";
  const std::string wins = "or(le(r0.before, " + x + "), isnan(" + x + "))";
  check_kernels({"kernel largest(b0: f32 in, b1: f32 out, b2: i64 out) " + rows +
                     " r0 = scan(-inf:f32, where(" + wins + ", " + x + ", r0.before)) inner\n" +
                     " r1 = scan(0, where(" + wins + ", i0, r1.before)) inner\n" +
                     " store(b1, o0*37 + i0, r0) inner\n store(b2, o0*37 + i0, r1) inner\n}",
                 "kernel latest(b0: i64 in, b1: i64 out) " + rows + " r0 = scan(7, where(lt(" + x +
                     ", 5), r0.before, " + x + ")) inner\n store(b1, o0*37 + i0, r0) inner\n}"},
                {.tolerance = 0, .special = true});
}

TEST(Scan, OfSymbolicSizes) {
  const std::vector<std::string> texts = {
      "kernel rows(b0: f32 in, b1: f32 out) outer(o0 < {s0}) inner(i0 < {s1}) {\n"
      " r0 = scan(0:f32, add(r0.before, load(b0, o0*{s1} + i0))) inner\n"
      " store(b1, o0*{s1} + i0, r0) inner\n}",
      "kernel columns(b0: f32 in, b1: f32 out) outer(o0 < {s0}) inner(i0 < {s1}) {\n"
      " r0 = scan(0:f32, add(r0.before, load(b0, i0*{s0} + o0))) inner\n"
      " store(b1, i0*{s0} + o0, r0) inner\n}"};
  check_kernels(texts, {.tolerance = 1e-4, .magnitude = 1}, {16, 7},
                {{2, 3}, {7, 16}, {16, 7}, {17, 8}, {3, 64}, {65, 2}, {130, 5}});
}

TEST(AccumulatingStore, AllOpsAndPlaces) {
  std::vector<std::string> texts;
  for (const std::string op : {"store_add", "store_mul", "store_min", "store_max", "store_last"})
    for (const std::string type : {"f32", "i64", "u8", "f64"})
      for (const std::string& body : {
               // One element for all inner points, the same for rows in lanes, and what is loaded.
               "outer(o0 < 21) inner(i0 < 37) { OP(b2, o0, load(b1, o0*37 + i0)) inner }",
               "outer(o0 < 21) inner(i0 < 37) { OP(b2, o0*37 + i0, load(b1, i0*21 + o0)) inner }",
               "outer(o0 < 40) inner(i0 < 19) {\n"
               " OP(b2, check_index(load(b0, i0), 10)*40 + o0, load(b1, i0*40 + o0)) inner }",
               "outer(o0 < 7) inner(i0 < 35) {\n"
               " OP(b2, o0*10 + check_index(load(b0, i0), 10), load(b1, o0*35 + i0)) inner }",
               "inner(i0 < 90) {\n"
               " OP(b2, check_index(load(b0, i0), 10), load(b1, i0)) inner }",
               "inner(i0 < 9, i1 < 33) { OP(b2, i1, load(b1, i0*33 + i1)) inner }",
               "inner(i0 < 9, i1 < 33) { OP(b2, 3, load(b1, i1)) inner }",
               "outer(o0 < 35) { OP(b2, o0*2, load(b1, o0)) }",
           }) {
        std::string text = body;
        text.replace(text.find("OP"), 2, op);
        texts.push_back("kernel accumulate(b0: i64 in, b1: " + type + " in, b2: " + type +
                        " out) " + text);
      }
  check_kernels(texts, {.tolerance = 1e-5, .magnitude = 1});
}

TEST(AccumulatingStore, SpecialValues) {
  std::vector<std::string> texts;
  for (const std::string op : {"store_min", "store_max"})
    texts.push_back("kernel k(b0: f32 in, b1: f32 out) outer(o0 < 50) inner(i0 < 3) {\n " + op +
                    "(b1, o0, load(b0, i0*50 + o0)) inner }");
  check_kernels(texts, {.special = true});
}

TEST(AccumulatingStore, OfSymbolicSizes) {
  check_kernels(
      {"kernel rows(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < {s0}) inner(i0 < {s1}) {\n"
       " store_add(b2, check_index(load(b0, i0), 10)*{s0} + o0, load(b1, i0*{s0} + o0)) inner\n}",
       "kernel last(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < {s0}) inner(i0 < {s1}) {\n"
       " store_add(b2, o0*10 + check_index(load(b0, i0), 10), load(b1, o0*{s1} + i0)) inner\n}"},
      {.tolerance = 1e-4, .magnitude = 1}, {16, 7},
      {{2, 3}, {7, 16}, {16, 7}, {17, 8}, {3, 64}, {65, 2}, {130, 5}});
}

TEST(AccumulatingStore, RowsLongEnoughForSeveralBlocks) {
  // Each call has some blocks of the rows, of one matrix or of several; lanes that are left over.
  check_kernels(
      {"kernel one(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 1003) inner(i0 < 40) {\n"
       " store_add(b2, check_index(load(b0, i0), 10)*1003 + o0, load(b1, i0*1003 + o0)) inner\n}",
       "kernel more(b0: i64 in, b1: f32 in, b2: f32 out)"
       " outer(o0 < 3, o1 < 520) inner(i0 < 40) {\n"
       " store_add(b2, o0*5200 + check_index(load(b0, i0), 10)*520 + o1,"
       " load(b1, o0*20800 + i0*520 + o1)) inner\n}",
       "kernel two(b0: i64 in, b1: f32 in, b2: f32 out)"
       " outer(o0 < 260) inner(i0 < 10, i1 < 6) {\n"
       " store_max(b2, check_index(load(b0, i1), 10)*260 + o0,"
       " load(b1, i0*1560 + i1*260 + o0)) inner\n}",
       "kernel places(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 257) inner(i0 < 60) {\n"
       " store_add(b2, check_index(load(b0, i0*257 + o0), 10)*257 + o0, load(b1, i0*257 + o0))"
       " inner\n}"},
      {.elements = 1 << 16, .tolerance = 0, .magnitude = 0});
}

TEST(AccumulatingStore, ThreadsShareOutPlacesOfRows) {
  const std::string head = "kernel k(b0: i64 in, b1: f32 in, b2: f32 out) ";
  const std::string place = "check_index(mul(load(b0, i0), 11), 100)";
  const std::string clamped = "min(max(mul(load(b0, i0), 11), 0), 80)";
  const std::vector<std::string> shared = {
      head + "outer(o0 < 50) inner(i0 < 90) {\n store_add(b2, " + place +
          "*50 + o0, load(b1, i0*50 + o0)) inner\n}",
      // Rows with room between them, an offset, two stores.
      "kernel k(b0: i64 in, b1: f32 in, b2: f32 out, b3: f32 out) "
      "outer(o0 < 37) inner(i0 < 90) {\n store_add(b2, " +
          place + "*40 + o0 + 3, load(b1, i0*37 + o0)) inner\n store_max(b3, " + place +
          "*64 + o0, load(b1, i0*37 + o0)) inner\n}",
      head + "outer(o0 < 300) inner(i0 < 40) {\n store_last(b2, " + clamped +
          "*300 + o0, load(b1, i0*300 + o0)) inner\n}",
      head + "outer(o0 < 32) inner(i0 < 9, i1 < 12) {\n store_mul(b2, " + place +
          "*32 + o0, load(b1, i0*384 + i1*32 + o0)) inner\n}"};
  const std::vector<std::string> own = {
      // Rows that lie on each other, few places, an index that may be below zero.
      head + "outer(o0 < 50) inner(i0 < 90) {\n store_add(b2, " + place +
          "*49 + o0, load(b1, i0*50 + o0)) inner\n}",
      head +
          "outer(o0 < 50) inner(i0 < 90) {\n store_add(b2, check_index(load(b0, i0), 10)*50 + "
          "o0, load(b1, i0*50 + o0)) inner\n}",
      head +
          "outer(o0 < 50) inner(i0 < 90) {\n store_add(b2, min(max(load(b0, i0), -5), 80)*50 + "
          "o0 + 250, load(b1, i0*50 + o0)) inner\n}",
      // Places of different rows differ, or a row is added to a part of its place.
      head + "outer(o0 < 50) inner(i0 < 90) {\n store_add(b2, " + place +
          "*50 + o0 + i0*50, load(b1, i0*50 + o0)) inner\n}"};
  const auto is_shared = [](const std::string& text) {
    loop::ExprPool pool;
    const loop::Kernel kernel = loop::parse_kernel(text, pool);
    const Nest nest = plan_nest(kernel, target::host_isa());
    return nest.place != nullptr;
  };
  for (const std::string& text : shared) EXPECT_TRUE(is_shared(text)) << text;
  for (const std::string& text : own) EXPECT_FALSE(is_shared(text)) << text;
  for (const int chunks : {1, 3, 100}) {
    check_kernels(shared, {.elements = 1 << 15, .tolerance = 0, .magnitude = 0, .chunks = chunks});
    check_kernels(own, {.elements = 1 << 15, .tolerance = 0, .magnitude = 0, .chunks = chunks});
  }
  check_kernels(
      {"kernel k(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < {s0}) inner(i0 < {s1}) {\n"
       " store_add(b2, check_index(mul(load(b0, i0), 11), {s2})*{s0} + o0, load(b1, i0*{s0} + o0)) "
       "inner\n}"},
      {.elements = 1 << 17, .tolerance = 0, .magnitude = 0}, {64, 90, 100},
      {{64, 90, 100}, {1000, 33, 110}, {3, 64, 128}, {17, 2, 400}});
}

TEST(AccumulatingStore, OrderIsThatOfThePoints) {
  // Sums of numbers of very different size, exactly as the interpreter has them.
  check_kernels({"kernel k(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 40) inner(i0 < 60) {\n"
                 " store_add(b2, check_index(load(b0, i0), 10)*40 + o0, mul(load(b1, i0*40 + o0), "
                 "mul(load(b1, i0), mul(load(b1, o0), 1000:f32)))) inner\n}"},
                {.tolerance = 0, .magnitude = 0});
}

}  // namespace
}  // namespace braze::codegen::cpp
