#include "graph/data_errors.h"

#include <gtest/gtest.h>

namespace braze::graph {
namespace {

TEST(DataErrors, ByName) {
  for (const char* name :
       {"aten.gather", "aten.scatter_.src", "aten.index_put_", "aten.embedding", "aten.multinomial",
        "aten.bernoulli_.Tensor", "aten.linalg_cholesky_ex", "aten.nll_loss_forward", "aten.take",
        "aten.floor_divide", "aten.remainder.Scalar_Tensor", "aten.something_new", "my.op"})
    EXPECT_TRUE(may_refuse_data(find_or_add_op(name))) << name;
  for (const char* name :
       {"aten.add.Tensor", "aten.add_.Tensor", "aten.exp_", "aten.mm", "aten.native_layer_norm",
        "aten.sort", "aten.lgamma", "aten.__lshift__.Scalar", "aten.uniform_", "aten.bernoulli.p",
        "aten.native_dropout", "aten.view", "aten.zeros_like"})
    EXPECT_FALSE(may_refuse_data(find_or_add_op(name))) << name;
}

TEST(DataErrors, DivisionsOfIntegersByWhatMayBeZero) {
  const Graph graph = parse(R"(graph(%0: i64[4], %1: f32[4]) {
    %2: i64[4] = aten.floor_divide(%0, %0)
    %3: i64[4] = aten.remainder.Scalar(%0, 0)
    %4: i64[4] = aten.remainder.Scalar(%0, -2)
    %5: f32[4] = aten.floor_divide(%0, %1)
    %6: f32[4] = aten.div.Tensor_mode(%0, %0, None)
    %7: i64[4] = aten.div.Tensor_mode(%0, %0, "trunc")
    return
  })");
  std::vector<bool> refuses;
  for (const auto& node : graph.nodes()) refuses.push_back(may_refuse_data(*node));
  EXPECT_EQ(refuses, (std::vector<bool>{true, true, false, false, false, true}));
}

}  // namespace
}  // namespace braze::graph
