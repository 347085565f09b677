// Random numbers in generated kernels, against the interpreter.
#include "codegen/run_kernels.h"

namespace braze::codegen::cpp {
namespace {

// The word of an element, as loop/random.h writes it, of a key of many bits.
std::string word_of(const std::string& element, const std::string& offset = "3") {
  return "random(mul(load(b0, 0), 7046029254386353131), " + offset + ", or(and(shr(" + element +
         ", 2), -16), and(" + element + ", 15)), and(shr(" + element + ", 4), 3))";
}

std::string kernel(const std::string& axes, const std::string& index, const std::string& element) {
  return "kernel words(b0: i64 in, b1: i32 out) outer(" + axes + ") {\n store(b1, " + index + ", " +
         word_of(element) + ")\n}";
}

TEST(Random, NeighbouringElements) {
  std::vector<std::string> texts;
  for (const char* n :
       {"1", "2", "3", "5", "15", "16", "17", "63", "64", "65", "130", "1000", "4099"})
    texts.push_back(kernel("o0 < " + std::string(n), "o0", "o0"));
  for (const char* n : {"7", "16", "48", "64", "100"}) {
    const std::string index = "o0*" + std::string(n) + " + o1";
    texts.push_back(kernel("o0 < 9, o1 < " + std::string(n), index, index));
  }
  check_kernels(texts);
}

TEST(Random, ElementsInAnyOrder) {
  check_kernels({
      kernel("o0 < 33, o1 < 20", "o0*20 + o1", "o1*33 + o0"),     // transposed
      kernel("o0 < 100", "o0", "o0*3 + 1"),                       // strided
      kernel("o0 < 100", "o0", "o0*-1 + 99"),                     // backwards
      kernel("o0 < 9, o1 < 40", "o0*40 + o1", "o0"),              // repeated
      kernel("o0 < 9, o1 < 40", "o0*40 + o1", "o1 + 5"),          // repeated rows
      kernel("o0 < 200", "o0", "check_index(load(b0, o0), 10)"),  // from memory
      "kernel scalar(b0: i64 in, b1: i32 out) {\n store(b1, 0, " + word_of("7") + ")\n}",
      "kernel key_of_rows(b0: i64 in, b1: i32 out) outer(o0 < 5, o1 < 40) {\n"
      " store(b1, o0*40 + o1, random(load(b0, o0), load(b0, o1), o1, o0))\n}",
  });
}

TEST(Random, AmongOtherThings) {
  const auto uniform = [](const std::string& element, const std::string& offset) {
    return "mul(f32(and(shr(" + word_of(element, offset) +
           ", 8:i32), 16777215:i32)), 5.9604645e-08:f32)";
  };
  check_kernels({
      "kernel dropout(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 7, o1 < 100) {\n"
      " store(b2, o0*100 + o1, where(lt(" +
          uniform("o0*100 + o1", "0") + ", 0.9:f32), load(b1, o0*100 + o1), 0:f32))\n}",
      "kernel normal(b0: i64 in, b1: f32 out) outer(o0 < 1000) {\n"
      " store(b1, o0, mul(sqrt(mul(log(sub(1:f32, " +
          uniform("o0", "0") + ")), -2:f32)), cos(mul(" + uniform("o0", "1") +
          ", 6.2831855:f32))))\n}",
      "kernel masked(b0: i64 in, b1: f32 out) outer(o0 < 7, o1 < 100) {\n"
      " store(b1, o0*100 + o1, masked(lt(load(b0, o0*100 + o1), 5), " +
          uniform("o0*100 + o1", "2") + ", -1:f32))\n}",
      "kernel sum(b0: i64 in, b1: f32 out) outer(o0 < 5) inner(i0 < 100) {\n"
      " r0 = sum(" +
          uniform("o0*100 + i0", "0") + ") inner\n store(b1, o0, r0)\n}",
      "kernel columns(b0: i64 in, b1: f32 out) outer(o0 < 40) inner(i0 < 50) {\n"
      " r0 = sum(" +
          uniform("i0*40 + o0", "0") + ") inner\n store(b1, o0, r0)\n}",
      "kernel halves(b0: i64 in, b1: bf16 in, b2: bf16 out) outer(o0 < 300) {\n"
      " store(b2, o0, bf16(mul(f32(load(b1, o0)), " +
          uniform("o0", "0") + ")))\n}",
  });
}

}  // namespace
}  // namespace braze::codegen::cpp
