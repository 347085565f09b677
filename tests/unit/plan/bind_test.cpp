#include <gtest/gtest.h>

#include "plan/binder.h"
#include "plan/helpers.h"
#include "plan/round_trip.h"

namespace braze::plan {
namespace {

// s1 = relu(s0); s2 = relu(s1); s3 = relu(s2): s2 takes the place of s1.
struct Bind : testing::Test {
  Function function;
  sym::Int n;

  Bind() {
    function.arena = std::make_shared<sym::ExprArena>();
    n = sym::Int(function.arena->symbol("s0", 16, {2, 1000}));
    function.symbols = {{.name = "s0", .hint = 16, .low = 2, .high = 1000, .input = 0}};
    graph::TensorType type;
    type.sizes = {n, 4};
    type.strides = {4, 1};
    function.slots = {{.kind = SlotKind::kInput, .type = type},
                      {.kind = SlotKind::kArena, .type = type},
                      {.kind = SlotKind::kArena, .type = type, .place = 1},
                      {.kind = SlotKind::kOutput, .type = type}};
    function.input_count = 1;
    function.kernels = {
        {.name = "relu", .written = {false, true}, .sizes = {n * 4, n - sym::Int(1)}}};
    for (SlotId i = 0; i < 3; ++i)
      function.steps.emplace_back(
          KernelStep{.kernel = 0,
                     .args = {i, i + 1},
                     .launch = Chunks{.extent = sym::floordiv(n + sym::Int(7), 8)}});
    function.outputs = {3};
    function.limits = {n * n};
  }
};

TEST_F(Bind, NumbersAndPlaces) {
  verify(function);
  Function bound = plan::bind(function, std::vector<int64_t>{100});
  EXPECT_FALSE(bound.is_symbolic());
  EXPECT_EQ(bound.slots[1].type.sizes, (sym::Dims{100, 4}));
  EXPECT_EQ(bound.slots[1].bytes, 1600);
  EXPECT_EQ(bound.slots[2].byte_offset, bound.slots[1].byte_offset);
  EXPECT_EQ(bound.arena_bytes, 1600);
  EXPECT_EQ(bound.kernels[0].sizes, (std::vector<sym::Int>{400, 99}));
  EXPECT_EQ(std::get<Chunks>(std::get<KernelStep>(bound.steps[0]).launch).extent, sym::Int(13));
}

TEST_F(Bind, GridsFollowTheSizes) {
  function.device = {graph::Device::Type::kCUDA, 0};
  for (Slot& slot : function.slots) slot.type.device = function.device;
  for (Step& step : function.steps)
    std::get<KernelStep>(step).launch =
        Grid{.blocks = {sym::floordiv(n + sym::Int(7), 8), n, 1}, .threads = {n, 2, 1}};
  verify(function);
  const Binder binder(function);
  const Numbers numbers = binder.numbers(std::vector<int64_t>{100});
  ASSERT_EQ(numbers.launches.size(), 3u);
  EXPECT_EQ(numbers.launches[2].blocks, (std::array<uint32_t, 3>{13, 100, 1}));
  EXPECT_EQ(numbers.launches[2].threads, (std::array<uint32_t, 3>{100, 2, 1}));
  EXPECT_THROW(binder.numbers(std::vector<int64_t>{600}), Unbindable);  // 1200 threads
}

TEST_F(Bind, RangesAndLimits) {
  EXPECT_THROW(plan::bind(function, std::vector<int64_t>{1}), Unbindable);
  EXPECT_THROW(plan::bind(function, std::vector<int64_t>{1001}), Unbindable);
  function.limits = {n * 10000000};
  EXPECT_NO_THROW(plan::bind(function, std::vector<int64_t>{200}));
  EXPECT_THROW(plan::bind(function, std::vector<int64_t>{300}), Unbindable);
}

TEST_F(Bind, StoredAndReadBack) {
  const Module module = module_of({function});
  const Module again = round_trip(module);
  EXPECT_EQ(serialize(again), serialize(module));
  const Function& stored = again.functions.at(0);
  EXPECT_EQ(to_string(stored), to_string(function));
  EXPECT_EQ(to_string(plan::bind(stored, std::vector<int64_t>{33})),
            to_string(plan::bind(function, std::vector<int64_t>{33})));
}

TEST_F(Bind, DamageIsFound) {
  function.symbols[0].index = 2;
  EXPECT_THROW(verify(function), InternalError);
  function.symbols[0].index = 0;
  function.slots[2].place = 3;
  EXPECT_THROW(verify(function), InternalError);
}

}  // namespace
}  // namespace braze::plan
