#include "runtime/memory_meter.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/memory.h"

namespace braze::runtime {
namespace {

constexpr int64_t kLarge = 1 << 20;

at::Tensor pytorchs() { return at::empty({kLarge}, at::kByte); }
at::Tensor own() { return allocate_tensor({kLarge}, {1}, at::kByte, kLarge); }

TEST(MemoryMeter, CountsBothKindsOfTensors) {
  const MemoryMeter meter;
  EXPECT_EQ(meter.peak(), 0);
  const at::Tensor kept = own();
  { const at::Tensor also = pytorchs(); }
  const at::Tensor later = pytorchs();
  EXPECT_EQ(meter.peak(), 2 * kLarge);
  EXPECT_EQ(meter.held(), 2 * kLarge);
}

TEST(MemoryMeter, WhatGoesIsNoLongerHeld) {
  const MemoryMeter meter;
  { const at::Tensor one = own(), other = pytorchs(); }
  EXPECT_EQ(meter.peak(), 2 * kLarge);
  EXPECT_EQ(meter.held(), 0);
}

TEST(MemoryMeter, TheInnermostCountsAndOtherThreadsDoNot) {
  const MemoryMeter outer;
  {
    const MemoryMeter inner;
    { const at::Tensor one = own(); }
    EXPECT_EQ(inner.peak(), kLarge);
  }
  std::thread([] { own(); }).join();
  EXPECT_EQ(outer.peak(), 0);
  { const at::Tensor one = pytorchs(); }
  EXPECT_EQ(outer.peak(), kLarge);
}

}  // namespace
}  // namespace braze::runtime
