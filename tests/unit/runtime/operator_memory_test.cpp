#include "runtime/operator_memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "runtime/memory.h"

namespace braze::runtime {
namespace {

constexpr int64_t kLargeBlock = 1 << 20;

// What a tensor of that size takes is the pool's exactly where an operator takes it.
bool is_pools(const at::Tensor& tensor) {
  return tensor.storage().data_ptr().get_deleter() != c10::GetDefaultCPUAllocator()->raw_deleter();
}

at::Tensor bytes(int64_t count) { return at::detail::empty_cpu({count}, at::kByte); }

TEST(OperatorMemory, LargeBlocksOfThisThreadAreThePools) {
  if (!is_pooled_size(kLargeBlock))
    GTEST_SKIP() << "a build without pools; one without sanitizers lifts it";
  EXPECT_FALSE(is_pools(bytes(kLargeBlock)));
  {
    OperatorMemory pooled;
    EXPECT_TRUE(is_pools(bytes(kLargeBlock)));
    EXPECT_FALSE(is_pools(bytes(100)));
    {
      OperatorMemory nested;
      EXPECT_TRUE(is_pools(bytes(kLargeBlock)));
    }
    EXPECT_TRUE(is_pools(bytes(kLargeBlock)));
    bool others = true;
    std::thread([&] { others = is_pools(bytes(kLargeBlock)); }).join();
    EXPECT_FALSE(others);
  }
  EXPECT_FALSE(is_pools(bytes(kLargeBlock)));
}

TEST(OperatorMemory, RawMemoryIsFreedByWhomItIsFrom) {
  c10::Allocator* allocator = nullptr;
  void *inside = nullptr, *outside = nullptr;
  {
    OperatorMemory pooled;
    allocator = c10::GetCPUAllocator();
    inside = allocator->raw_allocate(kLargeBlock);
  }
  outside = allocator->raw_allocate(kLargeBlock);
  std::memset(inside, 1, kLargeBlock);
  std::memset(outside, 1, kLargeBlock);
  {
    OperatorMemory pooled;
    allocator->raw_deallocate(outside);
  }
  allocator->raw_deallocate(inside);
  allocator->raw_deallocate(nullptr);
}

TEST(OperatorMemory, WhatATensorHoldsStaysWhenItGrows) {
  at::Tensor tensor;
  {
    OperatorMemory pooled;
    tensor = bytes(kLargeBlock);
  }
  std::memset(tensor.data_ptr(), 7, kLargeBlock);
  c10::Storage storage = tensor.storage();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0u);
  const c10::DataPtr copy = storage.allocator()->clone(tensor.data_ptr(), kLargeBlock);
  EXPECT_EQ(std::memcmp(copy.get(), tensor.data_ptr(), kLargeBlock), 0);
}

}  // namespace
}  // namespace braze::runtime
