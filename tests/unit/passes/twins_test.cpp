#include "passes/twins.h"

#include <gtest/gtest.h>

namespace braze::passes {
namespace {

std::string twin_of(std::string_view name) {
  const graph::Op* twin = functional_twin(graph::find_or_add_op(name));
  return twin ? twin->name : "none";
}

TEST(Twins, InPlaceOps) {
  EXPECT_EQ(twin_of("aten.add_.Tensor"), "aten.add.Tensor");
  EXPECT_EQ(twin_of("aten.relu_"), "aten.relu");
  EXPECT_EQ(twin_of("aten.zero_"), "aten.zeros_like");
  EXPECT_EQ(twin_of("aten.index_add_"), "aten.index_add");  // not on the list of known ops
}

// aten.pow.Scalar is number ** tensor.
TEST(Twins, OtherOverloadNames) {
  EXPECT_EQ(twin_of("aten.pow_.Scalar"), "aten.pow.Tensor_Scalar");
  EXPECT_EQ(twin_of("aten.pow_.Tensor"), "aten.pow.Tensor_Tensor");
  EXPECT_EQ(twin_of("aten.floor_divide_.Tensor"), "aten.floor_divide");
  EXPECT_EQ(twin_of("aten.transpose_"), "aten.transpose.int");
}

TEST(Twins, OutVariants) {
  EXPECT_EQ(twin_of("aten.add.out"), "aten.add.Tensor");
  EXPECT_EQ(twin_of("aten.add.Scalar_out"), "aten.add.Scalar");
  EXPECT_EQ(twin_of("aten.exp.out"), "aten.exp");
  EXPECT_EQ(twin_of("aten.clamp.out"), "aten.clamp");
  EXPECT_EQ(twin_of("aten.clamp.Tensor_out"), "aten.clamp.Tensor");
  EXPECT_EQ(twin_of("aten.mm.out"), "aten.mm");
}

TEST(Twins, DrawingOps) {
  auto drawing = [](std::string_view name) {
    const graph::Op* twin = drawing_twin(graph::find_or_add_op(name));
    return twin ? twin->name : "none";
  };
  EXPECT_EQ(drawing("aten.bernoulli_.float"), "aten.bernoulli.p");
  EXPECT_EQ(drawing("aten.random_.from"), "aten.random.from");
  EXPECT_EQ(drawing("aten.add_.Tensor"), "none");
}

TEST(Twins, OthersHaveNone) {
  for (const char* name :
       {"aten.resize_", "aten.normal_", "aten.polygamma_", "aten.float_power_.Scalar",
        "aten.max.out", "aten.sum.IntList_out", "aten.copy_strided.out", "aten.arange.out",
        "aten._to_copy.out", "my.add_", "aten.add.Tensor"})
    EXPECT_EQ(twin_of(name), "none") << name;
}

}  // namespace
}  // namespace braze::passes
