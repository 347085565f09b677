#include "base/options.h"

#include <gtest/gtest.h>

#include "base/environment.h"

namespace braze {
namespace {

using test::ScopedEnvironment;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

TEST(Options, DefaultsWithoutEnvironment) {
  ScopedEnvironment environment{{"BRAZE_CACHE", std::nullopt},
                                {"BRAZE_CACHE_LIMIT_MB", std::nullopt},
                                {"BRAZE_ISA", std::nullopt}};
  EXPECT_TRUE(options().cache);
  EXPECT_EQ(options().cache_limit_mb, 2048);
  EXPECT_EQ(options().isa, "");
}

TEST(Options, ReadsEachType) {
  ScopedEnvironment environment{{"BRAZE_CACHE", "off"},
                                {"BRAZE_STRICT", "1"},
                                {"BRAZE_RECOMPILE_LIMIT", "3"},
                                {"BRAZE_CACHE_DIR", "/some/where"}};
  EXPECT_FALSE(options().cache);
  EXPECT_TRUE(options().strict);
  EXPECT_EQ(options().recompile_limit, 3);
  EXPECT_EQ(options().cache_dir, "/some/where");
}

TEST(Options, EmptyCountsAsNotSet) {
  ScopedEnvironment environment{{"BRAZE_CACHE", ""}, {"BRAZE_CACHE_LIMIT_MB", ""}};
  EXPECT_TRUE(options().cache);
  EXPECT_EQ(options().cache_limit_mb, 2048);
}

std::string warning_for(const char* variable, const char* value) {
  CaptureStderr();
  ScopedEnvironment environment{{variable, value}};
  return GetCapturedStderr();
}

TEST(Options, BadValuesAreNamedAndTheDefaultTaken) {
  EXPECT_EQ(warning_for("BRAZE_CACHE", "maybe"),
            "[braze] warning: BRAZE_CACHE='maybe' is not 0 or 1; the default is used\n");
  for (const char* bad : {"many", "12x", "-1", "1.5", "99999999999999999999"})
    EXPECT_EQ(warning_for("BRAZE_CACHE_LIMIT_MB", bad),
              "[braze] warning: BRAZE_CACHE_LIMIT_MB='" + std::string(bad) +
                  "' is not a whole number from 0 up; the default is used\n");
  EXPECT_EQ(
      warning_for("BRAZE_ISA", "neon"),
      "[braze] warning: BRAZE_ISA='neon' is not generic, avx2 or avx512; the default is used\n");
  CaptureStderr();
  ScopedEnvironment environment{{"BRAZE_CACHE_LIMIT_MB", "many"}, {"BRAZE_ISA", "neon"}};
  GetCapturedStderr();
  EXPECT_EQ(options().cache_limit_mb, 2048);
  EXPECT_EQ(options().isa, "");
}

TEST(Options, OldSnapshotsStayValid) {
  ScopedEnvironment environment{{"BRAZE_RECOMPILE_LIMIT", "5"}};
  const Options& before = options();
  const uint64_t generation = options_generation();
  {
    ScopedEnvironment inner{{"BRAZE_RECOMPILE_LIMIT", "6"}};
    EXPECT_EQ(options().recompile_limit, 6);
    EXPECT_GT(options_generation(), generation);
  }
  EXPECT_EQ(before.recompile_limit, 5);
  EXPECT_EQ(options().recompile_limit, 5);
}

}  // namespace
}  // namespace braze
