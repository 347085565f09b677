#include "plan/memory_use.h"

#include <gtest/gtest.h>

#include "plan/helpers.h"

namespace braze::plan {
namespace {

constexpr int64_t kTensor = 4 * 8 * 4;  // f32[4, 8]

TEST(MemoryUse, ArenaOutputsAndResultsOfOperators) {
  const MemoryUse use = memory_use(module_of({small_function()}));
  EXPECT_EQ(use.peak, 256 + kTensor + kTensor);
  EXPECT_EQ(use.held, kTensor);
}

TEST(MemoryUse, AnOutputCountsFromWhereItIsAllocated) {
  Function function = small_function();
  // The operator's result is gone by the time that the output comes.
  auto& steps = function.steps;
  steps = {steps[0], steps[1], FreeStep{.slot = 3}, AllocateStep{.slot = 4}, CopyStep{0, 4}};
  EXPECT_EQ(memory_use(module_of({function})).peak, 256 + kTensor);
}

TEST(MemoryUse, WhatIsHandedOverGoesWhereItIsFreed) {
  Function function = small_function();
  function.steps.insert(function.steps.begin() + 1, FreeStep{.slot = 0});
  function.steps.pop_back();
  const Module module = module_of({function});
  EXPECT_EQ(memory_use(module).peak, 256 + 2 * kTensor);
  const MemoryUse use = memory_use(module, {true, false});
  EXPECT_EQ(use.peak, 256 + 2 * kTensor);  // it makes room for the operator's result
  EXPECT_EQ(use.held, kTensor);
  EXPECT_EQ(memory_use(module, {false, true}).peak, 256 + 3 * kTensor);
}

TEST(MemoryUse, SymbolsHaveTheSizesOfTheTrace) {
  Function function;
  function.arena = std::make_shared<sym::ExprArena>();
  const sym::Int n(function.arena->symbol("s0", 16, {2, 1000}));
  function.symbols = {{.name = "s0", .hint = 16, .low = 2, .high = 1000, .input = 0}};
  function.slots = {{.kind = SlotKind::kInput, .type = tensor({n, 4})},
                    {.kind = SlotKind::kArena, .type = tensor({n, 4})},
                    {.kind = SlotKind::kOutput, .type = tensor({n, 4})}};
  function.input_count = 1;
  function.kernels = {{.name = "relu", .written = {false, true}, .sizes = {n * 4}}};
  for (SlotId i = 0; i < 2; ++i)
    function.steps.emplace_back(
        KernelStep{.kernel = 0, .args = {i, i + 1}, .launch = Chunks{.extent = n}});
  function.outputs = {2};
  const MemoryUse use = memory_use(module_of({function}));
  EXPECT_EQ(use.held, 16 * 4 * 4);
  EXPECT_EQ(use.peak, 2 * use.held);
}

}  // namespace
}  // namespace braze::plan
