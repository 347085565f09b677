#include <gtest/gtest.h>

#include <array>

#include "base/hash.h"
#include "plan/helpers.h"
#include "plan/round_trip.h"

namespace braze::plan {
namespace {

constexpr std::string_view kTarget = "cpu avx2 threads 2";  // of the modules of helpers.h

void expect_damaged(std::string_view bytes, const std::string& message) {
  try {
    deserialize(bytes, kTarget);
    ADD_FAILURE() << "accepted, but: " << message;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(ModuleBinary, RoundTrip) {
  const Module module = small_module();
  const std::string bytes = serialize(module);
  EXPECT_EQ(to_string(deserialize(bytes, kTarget)), to_string(module));
  EXPECT_EQ(deserialize(bytes, kTarget).code.at(0).text, "// kernels");
  EXPECT_EQ(deserialize(bytes, kTarget).code.at(0).flags, std::vector<std::string>{"-O2"});
  EXPECT_EQ(serialize(deserialize(bytes, kTarget)), bytes);
}

TEST(ModuleBinary, GridsRoundTrip) {
  const Module module = module_of({small_gpu_function()});
  const Module again = round_trip(module);
  const auto grid = [](const Module& of) {
    return std::get<Grid>(std::get<KernelStep>(of.functions.at(0).steps.at(2)).launch);
  };
  EXPECT_EQ(grid(again), grid(module));
  EXPECT_EQ(again.code.at(0).language, Language::kCuda);
  EXPECT_EQ(again.functions.at(0).device, module.functions.at(0).device);
  EXPECT_EQ(to_string(again), to_string(module));
}

TEST(ModuleBinary, WhatBelongsToTheModuleRoundTrips) {
  const Module module = module_with_constant();
  const Module again = round_trip(module);
  EXPECT_EQ(again.inputs.at(1).kind, graph::InputKind::kConstant);
  EXPECT_EQ(again.inputs.at(1).constant, 0);
  EXPECT_EQ(again.outputs, module.outputs);
  EXPECT_EQ(again.constants.at(0).type, module.constants[0].type);
  EXPECT_EQ(again.constants.at(0).bytes, module.constants[0].bytes);
  EXPECT_EQ(serialize(again), serialize(module));
}

TEST(ModuleBinary, ConditionsRoundTrip) {
  const Module module = module_with_condition();
  const Module again = round_trip(module);
  ASSERT_EQ(again.functions.at(0).conditions.size(), 1u);
  const sym::Condition& condition = again.functions[0].conditions[0];
  EXPECT_EQ(sym::to_string(condition), "s0 % 8 == 0");
  EXPECT_TRUE(sym::holds(condition, std::array<int64_t, 1>{24}));
  EXPECT_FALSE(sym::holds(condition, std::array<int64_t, 1>{25}));
  EXPECT_EQ(serialize(again), serialize(module));
}

// Each byte of a module with all of it, one after the other.
TEST(ModuleBinary, NoDamagedByteGoesUnnoticed) {
  for (const Module& module : {module_with_constant(), module_with_condition()}) {
    const std::string bytes = serialize(module);
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string other = bytes;
      other[i] ^= 0x11;
      EXPECT_THROW(deserialize(other, kTarget), UserError) << "byte " << i;
    }
  }
}

TEST(ModuleBinary, RandomModulesRoundTrip) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Module module = random_module(seed);
    ASSERT_NO_THROW(verify(module)) << "seed " << seed << "\n" << to_string(module);
    const std::string bytes = serialize(module);
    const Module again = deserialize(bytes, kTarget);
    ASSERT_EQ(serialize(again), bytes) << "seed " << seed;
    ASSERT_EQ(to_string(again), to_string(module)) << "seed " << seed;
  }
}

TEST(ModuleBinary, RefusesWhatIsDamaged) {
  std::string bytes = serialize(small_module());
  expect_damaged("", "it is too short");
  expect_damaged(std::string(100, 'x'), "it is no module");
  std::string other = bytes;
  other[8] ^= 1;
  expect_damaged(other, "it is of version ");
  other = bytes;
  other[60] ^= 1;
  expect_damaged(other, "its checksum does not match");
  expect_damaged(std::string_view(bytes).substr(0, bytes.size() - 1), "checksum");
}

std::string with_new_checksum(std::string bytes) {
  bytes.resize(bytes.size() - 32);
  return bytes + content_hash(bytes);
}

TEST(ModuleBinary, RandomDamageIsAnErrorEvenWithAGoodChecksum) {
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = serialize(random_module(round % 50));
    for (int flips = static_cast<int>(random() % 3) + 1; flips > 0; --flips) {
      bytes[16 + random() % (bytes.size() - 48)] = static_cast<char>(random());
    }
    if (round % 3 == 0) bytes.erase(16 + random() % (bytes.size() - 48), random() % 9);
    try {
      deserialize(with_new_checksum(bytes), kTarget);  // may be another valid module
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(ModuleBinary, AnotherTargetIsRefusedByName) {
  const std::string bytes = serialize(small_module());
  try {
    deserialize(bytes, "cuda sm_90");
    ADD_FAILURE() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("it was compiled for \"cpu avx2 threads 2\", and this is \"cuda sm_90\""),
              std::string::npos)
        << error.what();
  }
}

TEST(ModuleBinary, StaleBytesAtTheEnd) {
  std::string bytes = serialize(small_module());
  bytes.insert(bytes.size() - 32, "x");
  expect_damaged(with_new_checksum(bytes), "bytes are left over");
}

}  // namespace
}  // namespace braze::plan
