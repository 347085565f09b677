#include "graph/call_facts.h"

#include <gtest/gtest.h>

#include "graph/op_name.h"

namespace braze::graph {
namespace {

TEST(OpName, HasItsParts) {
  const OpName name("aten.add_.Tensor");
  EXPECT_EQ(name.base, "aten.add_");
  EXPECT_EQ(name.overload, "Tensor");
  EXPECT_TRUE(name.in_place());
  EXPECT_EQ(name.functional_base(), "aten.add");
}

TEST(OpName, MayHaveNoOverloadOrNamespace) {
  EXPECT_EQ(OpName("aten.relu").base, "aten.relu");
  EXPECT_EQ(OpName("aten.relu").overload, "");
  EXPECT_EQ(OpName("relu").base, "relu");
  EXPECT_EQ(OpName("").functional_base(), "");
}

TEST(OpName, OfTwoUnderscoresIsNotInPlace) {
  EXPECT_FALSE(OpName("aten.__and__.Tensor").in_place());
  EXPECT_EQ(OpName("aten.__and__.Tensor").functional_base(), "aten.__and__");
  EXPECT_FALSE(OpName("aten._").in_place());
}

TEST(CallFacts, OfOneOverload) {
  EXPECT_TRUE(has_call_fact("aten.resize_", kResizes));
  EXPECT_FALSE(has_call_fact("aten.resize", kResizes));
  EXPECT_FALSE(has_call_fact("aten.resize.out", kResizes));
}

TEST(CallFacts, OfAllOverloadsInPlaceOrNot) {
  for (const char* name : {"aten.lerp.Scalar", "aten.lerp.Tensor_out", "aten.lerp_.Tensor"})
    EXPECT_TRUE(has_call_fact(name, kNotForIntegers)) << name;
  EXPECT_FALSE(has_call_fact("my.lerp", kNotForIntegers));
}

TEST(CallFacts, OfNamesWithAText) {
  EXPECT_TRUE(has_call_fact("torchvision.deform_conv2d", kSlidesWindow));
  EXPECT_TRUE(has_call_fact("aten.bitwise_and_.Tensor", kOfIntegers));
  EXPECT_FALSE(has_call_fact("aten.special_shifted_chebyshev_polynomial_t", kOfIntegers));
}

TEST(CallFacts, OfALineAndOfAnotherAddUp) {
  const CallFacts facts = find_call_facts("aten.index.Tensor");
  EXPECT_EQ(facts.facts, uint32_t{kIsOneNode} | kTakesMasks | kTakesCpuIndices);
  EXPECT_EQ(facts.why_refused, nullptr);
}

TEST(CallFacts, SayWhyACallIsRefused) {
  EXPECT_STREQ(find_call_facts("aten.record_stream").why_refused, "streams are not supported");
  EXPECT_EQ(find_call_facts("aten._pin_memory.out").why_refused, nullptr);
}

TEST(CallFacts, HonestSchema) {
  EXPECT_EQ(op_with_honest_schema("aten.unsafe_split.Tensor"), "aten.split.Tensor");
  EXPECT_EQ(op_with_honest_schema("aten.split.Tensor"), "");
}

}  // namespace
}  // namespace braze::graph
