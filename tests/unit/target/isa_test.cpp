#include "target/isa.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/environment.h"

namespace braze::target {
namespace {

TEST(Isa, TheChosenOneIsTheHostsUnlessALesserOneIsNamed) {
  for (Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512}) {
    test::ScopedEnvironment environment{{"BRAZE_ISA", std::string(to_string(isa))}};
    EXPECT_EQ(chosen_isa(), std::min(isa, host_isa()));
  }
  test::ScopedEnvironment environment{{"BRAZE_ISA", std::nullopt}};
  EXPECT_EQ(chosen_isa(), host_isa());
}

}  // namespace
}  // namespace braze::target
