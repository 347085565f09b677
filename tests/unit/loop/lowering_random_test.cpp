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

// As PyTorch's kernel: a thread's packs one after the other.
std::vector<bool> drawn(int64_t numel, int64_t threads, int64_t pack, uint64_t offset,
                        uint64_t threshold) {
  std::vector<bool> mask(static_cast<size_t>(numel));
  for (int64_t thread = 0; thread < threads; ++thread) {
    uint64_t counter = offset / 4;
    for (int64_t begin = thread * pack; begin < numel; begin += threads * pack)
      for (int64_t four = begin; four < begin + pack; four += 4, ++counter) {
        const auto words = philox(987654321987, counter, static_cast<uint64_t>(thread));
        for (int i = 0; i < 4; ++i)
          mask[static_cast<size_t>(four + i)] = words[static_cast<size_t>(i)] < threshold;
      }
  }
  return mask;
}

TEST(LowerRandom, MasksAreThoseOfPyTorchsThreads) {
  struct Case {
    int64_t rows, threads, pack, threshold;
  };
  for (const auto& [rows, threads, pack, threshold] :
       {Case{1, 256, 8, 1 << 30}, Case{20, 256, 4, 3'000'000'000}, Case{41, 256, 8, 2'147'483'648},
        Case{128, 256, 4, 4'294'967'296}, Case{100, 512, 8, 0}}) {
    const std::string sizes = "[" + std::to_string(rows) + ", 72]";
    const Numbers numbers =
        run_one("%0: i64[2]", "bool" + sizes,
                "braze.philox_mask(%0, 5, " + sizes + ", " + std::to_string(threshold) + ", " +
                    std::to_string(threads) + ", " + std::to_string(pack) + ")",
                {{987654321987, 48}});
    const std::vector<bool> expected =
        drawn(rows * 72, threads, pack, 48 + 5 * 4, static_cast<uint64_t>(threshold));
    ASSERT_EQ(numbers.size(), expected.size());
    for (size_t i = 0; i < numbers.size(); ++i)
      ASSERT_EQ(numbers[i] != 0, expected[i]) << sizes << " at " << i;
  }
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
