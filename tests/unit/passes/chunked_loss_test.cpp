#include "passes/chunked_loss.h"

#include <algorithm>
#include <string>

#include "passes/partition.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

// 16 MiB of logits, without the arguments and the end.
const char* const kStep = R"(
    %3: f32[16, 8192]{1, 16} #%1 = aten.t(%1)
    %4: f32[512, 8192] = aten.mm(%0, %3)
    %5: f32[512, 8192] = aten._log_softmax(%4, 1, false)
    %6: f32[], %7: f32[] = aten.nll_loss_forward(%5, %2, None, 1, -100)
    %8: f32[] = aten.ones_like(%6, None, None, None, None, None)
    %9: f32[512, 8192] = aten.nll_loss_backward(%8, %5, %2, None, 1, -100, %7)
    %10: f32[512, 8192] = aten._log_softmax_backward_data(%9, %5, 1, f32)
    %11: f32[8192, 512]{1, 8192} #%10 = aten.t(%10)
    %12: f32[8192, 16] = aten.mm(%11, %0)
    %13: f32[512, 16] = aten.mm(%10, %1)
)";

std::string step(std::string_view end,
                 std::string_view arguments = "%0: f32[512, 16], %1: f32[8192, 16], %2: i64[512]") {
  return "graph(" + std::string(arguments) + ") {" + kStep + std::string(end) + "\n}";
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  for (; at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(ChunkedLoss, AWholeStepIsTakenApartByRows) {
  EXPECT_EQ(rewritten(chunk_losses, step("return %6, %12, %13")),
            R"(graph(%0: f32[512, 16], %1: f32[8192, 16], %2: i64[512]) {
  %3: f32[16, 8192]{1, 16} #%1 = aten.t(%1)
  %4: f32[] = aten.full([], 1.0, f32, None, None, None)
  %5: bool[512] = aten.eq.Scalar(%2, -100)
  %6: f32[] = aten.full([], 1.0, f32, None, None, None)
  %7: f32[] = aten.full([], 0.0, f32, None, None, None)
  %8: f32[512] = aten.where.self(%5, %7, %6)
  %9: f32[] = aten.sum(%8, None)
  %10: f32[256, 16] #%0 = aten.slice.Tensor(%0, 0, 0, 256, 1)
  %11: f32[256, 8192] = aten.mm(%10, %3)
  %12: f32[256, 8192] = aten._log_softmax(%11, 1, false)
  %13: i64[256] #%2 = aten.slice.Tensor(%2, 0, 0, 256, 1)
  %14: f32[256], %15: f32[] = aten.nll_loss_forward(%12, %13, None, 0, -100)
  %16: f32[] = aten.sum(%14, None)
  %17: f32[256, 8192] = aten.nll_loss_backward(%4, %12, %13, None, 1, -100, %9)
  %18: f32[256, 8192] = aten._log_softmax_backward_data(%17, %12, 1, f32)
  %19: f32[8192, 256]{1, 8192} #%18 = aten.t(%18)
  %20: f32[8192, 16] = aten.mm(%19, %10)
  %21: f32[256, 16] = aten.mm(%18, %1)
  %22: f32[256, 16]+4096 #%0 = aten.slice.Tensor(%0, 0, 256, 512, 1)
  %23: f32[256, 8192] = aten.mm(%22, %3)
  %24: f32[256, 8192] = aten._log_softmax(%23, 1, false)
  %25: i64[256]+256 #%2 = aten.slice.Tensor(%2, 0, 256, 512, 1)
  %26: f32[256], %27: f32[] = aten.nll_loss_forward(%24, %25, None, 0, -100)
  %28: f32[] = aten.sum(%26, None)
  %29: f32[] = aten.add.Tensor(%16, %28, 1)
  %30: f32[256, 8192] = aten.nll_loss_backward(%4, %24, %25, None, 1, -100, %9)
  %31: f32[256, 8192] = aten._log_softmax_backward_data(%30, %24, 1, f32)
  %32: f32[8192, 256]{1, 8192} #%31 = aten.t(%31)
  %33: f32[8192, 16] = aten.addmm(%20, %32, %22, 1, 1)
  %34: f32[256, 16] = aten.mm(%31, %1)
  %35: f32[] = aten.div.Tensor(%29, %9)
  %36: f32[512, 16] = aten.cat([%21, %34], 0)
  %37: f32[] = aten.ones_like(%35, None, None, None, None, None)
  return %35, %33, %36
}
)");
}

TEST(ChunkedLoss, TheLastChunkHasTheRest) {
  const std::string text =
      rewritten(chunk_losses, replaced(step("return %6, %12, %13"), "512", "1031"));
  EXPECT_TRUE(contains(text, "aten.slice.Tensor(%0, 0, 774, 1031, 1)")) << text;
  EXPECT_TRUE(contains(text, "f32[257, 8192] = aten.mm(")) << text;
  EXPECT_FALSE(contains(text, "[1031, 8192]")) << text;
}

// A conversion, a bias with its gradient, rows in two dimensions and what is done to each logit.
TEST(ChunkedLoss, WhatStandsBetweenTheProductAndTheLossIsDoneByRows) {
  const std::string text =
      rewritten(chunk_losses,
                R"(graph(%0: bf16[512, 16], %1: bf16[8192, 16], %2: i64[512], %3: bf16[8192]) {
    %4: bf16[16, 8192]{1, 16} #%1 = aten.t(%1)
    %5: bf16[512, 8192] = aten.addmm(%3, %0, %4, 1, 1)
    %6: bf16[2, 256, 8192] #%5 = aten.view(%5, [2, 256, 8192])
    %7: f32[2, 256, 8192] = aten._to_copy(%6, f32, None, None, None, false, None)
    %8: f32[2, 256, 8192] = aten.tanh(%7)
    %9: f32[512, 8192] #%8 = aten.view(%8, [512, 8192])
    %10: f32[512, 8192] = aten._log_softmax(%9, 1, false)
    %11: f32[], %12: f32[] = aten.nll_loss_forward(%10, %2, None, 2, 7)
    %13: f32[] = aten.full([], 0.5, f32, None, None, None)
    %14: f32[512, 8192] = aten.nll_loss_backward(%13, %10, %2, None, 2, 7, %12)
    %15: f32[512, 8192] = aten._log_softmax_backward_data(%14, %10, 1, f32)
    %16: f32[2, 256, 8192] #%15 = aten.view(%15, [2, 256, 8192])
    %17: f32[2, 256, 8192] = aten.tanh_backward(%16, %8)
    %18: bf16[2, 256, 8192] = aten._to_copy(%17, bf16, None, None, None, false, None)
    %19: bf16[512, 8192] #%18 = aten.view(%18, [512, 8192])
    %20: bf16[8192, 512]{1, 8192} #%19 = aten.t(%19)
    %21: bf16[8192, 16] = aten.mm(%20, %0)
    %22: bf16[512, 16] = aten.mm(%19, %1)
    %23: bf16[1, 8192] = aten.sum.dim_IntList(%19, [0], true, None)
    return %11, %21, %22, %23
  })");
  EXPECT_FALSE(contains(text, "[512, 8192]")) << text;
  EXPECT_FALSE(contains(text, "[2, 256, 8192]")) << text;
  for (const char* part : {"bf16[256, 8192] = aten.addmm(%3, ", "f32[256, 8192] = aten._to_copy(",
                           "f32[256, 8192] = aten.tanh(", "f32[256, 8192] = aten.tanh_backward(",
                           "bf16[256, 8192] = aten._to_copy(", "bf16[1, 8192] = aten.add.Tensor(",
                           "bf16[8192, 16] = aten.addmm("})
    EXPECT_TRUE(contains(text, part)) << part << " in " << text;
}

// What comes to each of them would have to be known.
TEST(ChunkedLoss, LossesOfEachRowAreLeft) {
  std::string text = replaced(step("return %6, %12, %13"), "None, 1, -100", "None, 0, -100");
  text = replaced(text, "%6: f32[]", "%6: f32[512]");
  text = replaced(text, "%8: f32[] = aten.ones_like(%6, None, None, None, None, None)",
                  "%8: f32[512] = aten.full([512], 2.0, f32, None, None, None)");
  expect_unchanged_by(chunk_losses, text);
}

// The total weight, which the user asks for too.
TEST(ChunkedLoss, WeightsOfClassesAndTheirTotal) {
  std::string text = replaced(step("return %6, %7, %12, %13",
                                   "%0: f32[512, 16], %1: f32[8192, 16], "
                                   "%2: i64[512], %99: f32[8192]"),
                              "None, 1, -100", "%99, 1, -100");
  text = rewritten(chunk_losses, text);
  EXPECT_TRUE(contains(text, "aten.index_select(%3, 0, ")) << text;
  EXPECT_FALSE(contains(text, "[512, 8192]")) << text;
}

// What comes to the loss is its own square: known only when the loss is.
TEST(ChunkedLoss, GradientsOfWhatIsNotKnownYetAreThoseOfAOneMultiplied) {
  const std::string text =
      rewritten(chunk_losses, replaced(step("return %6, %12, %13"),
                                       "aten.ones_like(%6, None, None, None, None, None)",
                                       "aten.mul.Scalar(%6, 2)"));
  EXPECT_FALSE(contains(text, "[512, 8192]")) << text;
  EXPECT_TRUE(contains(text, "aten.where.self(")) << text;
}

const char* const kJoint = "%0: f32[512, 16], %1: f32[8192, 16], %2: i64[512], %99: f32[] tangent";

std::string joint_step() {
  return replaced(step("return %6, %12 gradient, %13 gradient", kJoint),
                  "aten.ones_like(%6, None, None, None, None, None)", "aten.mul.Scalar(%99, 0.5)");
}

TEST(ChunkedLoss, OfAJointGraphTheForwardMakesTheGradients) {
  graph::Graph joint = graph::parse(joint_step());
  const std::vector<graph::Value*> kept = chunk_losses_of_joint(joint);
  graph::verify_functional(joint);
  ASSERT_EQ(kept.size(), 2u);
  const Partition parts = partition(joint, {.early = kept});
  graph::verify_functional(parts.forward);
  graph::verify_functional(parts.backward);
  EXPECT_EQ(graph::canonical(parts.backward),
            R"(graph(%0: f32[8192, 16] saved, %1: f32[512, 16] saved, %2: f32[] tangent) {
  %3: f32[] = aten.mul.Scalar(%2, 0.5)
  %4: f32[8192, 16] = aten.mul.Tensor(%0, %3)
  %5: bool[8192, 16] = aten.eq.Scalar(%0, 0.0)
  %6: f32[8192, 16] = aten.where.self(%5, %0, %4)
  %7: f32[512, 16] = aten.mul.Tensor(%1, %3)
  %8: bool[512, 16] = aten.eq.Scalar(%1, 0.0)
  %9: f32[512, 16] = aten.where.self(%8, %1, %7)
  return %6 gradient, %9 gradient
}
)");
  EXPECT_TRUE(contains(graph::canonical(parts.forward), "f32[512, 16] = aten.cat("));
}

// What is kept would be larger than the logits and their gradient.
TEST(ChunkedLoss, OfAJointGraphGradientsThatAreLargeAreNotKept) {
  graph::Graph joint =
      graph::parse(replaced(replaced(joint_step(), "16]", "600]"), "[16,", "[600,"));
  EXPECT_TRUE(chunk_losses_of_joint(joint).empty());
  EXPECT_TRUE(contains(graph::canonical(joint), "f32[512, 8192] = aten.mm("));
}

TEST(ChunkedLoss, WhatElseReadsTheLogitsLeavesThem) {
  for (const char* end :
       {"return %6, %12, %13, %4", "return %6, %12, %13, %10",
        "%14: f32[512, 1] = aten.amax(%4, [1], true)\n return %6, %12, %13, %14",
        "%14: f32[], %15: f32[] = aten.nll_loss_forward(%5, %2, None, 1, 0)\n"
        "return %6, %12, %13, %14",
        "%14: f32[512, 8192] = aten.nll_loss_backward(%8, %5, %2, None, 1, -100, %7)\n"
        "%15: f32[512, 8192] = aten._log_softmax_backward_data(%14, %5, 1, f32)\n"
        "%16: f32[512, 16] = aten.mm(%15, %1)\n return %6, %12, %13, %16"})
    expect_unchanged_by(chunk_losses, step(end));
  // Without a gradient.
  expect_unchanged_by(chunk_losses, R"(graph(%0: f32[512, 16], %1: f32[16, 8192], %2: i64[512]) {
    %3: f32[512, 8192] = aten.mm(%0, %1)
    %4: f32[512, 8192] = aten._log_softmax(%3, 1, false)
    %5: f32[], %6: f32[] = aten.nll_loss_forward(%4, %2, None, 1, -100)
    return %5
  })");
}

TEST(ChunkedLoss, OtherSizesDtypesAndDevicesAreLeft) {
  const std::string text = step("return %6, %12, %13");
  expect_unchanged_by(chunk_losses, replaced(text, "8192", "8191"));
  expect_unchanged_by(chunk_losses, replaced(replaced(text, "512", "511"), "8192", "32768"));
  expect_unchanged_by(chunk_losses, replaced(text, "f32", "f16"));
  expect_unchanged_by(chunk_losses, replaced(text, "f32", "f64"));
  std::string symbolic = replaced(text, "512", "s0");
  symbolic = replaced(symbolic, "graph(", "graph(s0 = size(%0, 0) hint 512, ");
  expect_unchanged_by(chunk_losses, symbolic);
}

// The one that comes to a loss of means differs by reduction, or by what is ignored.
TEST(ChunkedLoss, AGradientOfAnotherLossIsNone) {
  const std::string text = step("return %6, %12, %13");
  const std::string from = "aten.nll_loss_backward(%8, %5, %2, None, 1, -100";
  expect_unchanged_by(chunk_losses, replaced(text, from, replaced(from, "-100", "0")));
  expect_unchanged_by(chunk_losses, replaced(text, from, replaced(from, "1, -100", "2, -100")));
}

}  // namespace
}  // namespace braze::passes
