#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "loop/run_program.h"

namespace braze::loop {
namespace {

Numbers numbers_of(const std::string& dtype, const std::string& sizes) {
  return run_one("%0: i64[]", dtype + sizes, "braze.random(%0, 3, " + sizes + ", " + dtype + ")",
                 {{123456789}});
}

uint64_t word_at(uint64_t offset, uint64_t element) {
  return philox(123456789, offset, element / 64 * 16 + element % 16)[element / 16 % 4];
}

TEST(LowerRandom, FloatsTakeTheHighBits) {
  for (const auto& [dtype, digits] :
       std::vector<std::pair<std::string, int>>{{"f16", 11}, {"bf16", 8}, {"f32", 24}}) {
    const Numbers numbers = numbers_of(dtype, "[3, 50]");
    ASSERT_EQ(numbers.size(), 150u);
    for (size_t i = 0; i < numbers.size(); ++i)
      EXPECT_EQ(numbers[i],
                std::ldexp(static_cast<double>(word_at(3, i) >> (32 - digits)), -digits))
          << dtype << " " << i;
  }
  const Numbers numbers = numbers_of("f64", "[3, 50]");
  for (size_t i = 0; i < numbers.size(); ++i)
    EXPECT_EQ(numbers[i],
              static_cast<double>(word_at(3, i) >> 5 << 26 | word_at(4, i) >> 6) * 0x1p-53)
        << i;
}

TEST(LowerRandom, IntegersTakeAllBits) {
  const Numbers numbers = numbers_of("i32", "[100]");
  for (size_t i = 0; i < numbers.size(); ++i)
    EXPECT_EQ(numbers[i], static_cast<int32_t>(word_at(3, i)));
}

TEST(LowerRandom, IsOneKernelWithWhatUsesIt) {
  const Program program = lower(graph::parse(R"(graph(%0 x: f32[8, 32], %1 seed: i64[]) {
    %2: f32[8, 32] = braze.random(%1, 0, [8, 32], f32)
    %3: bool[8, 32] = aten.lt.Scalar(%2, 0.9)
    %4: f32[8, 32] = aten._to_copy(%3, f32, None, None, None, false, None)
    %5: f32[8, 32] = aten.mul.Tensor(%0, %4)
    return %5
  })"),
                                target::Cpu{});
  EXPECT_EQ(program.items.size(), 1u) << to_string(program);
}

}  // namespace
}  // namespace braze::loop
