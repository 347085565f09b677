#include <gtest/gtest.h>

#include "base/hash.h"
#include "plan/helpers.h"

namespace braze::plan {
namespace {

TEST(FunctionText, Small) {
  EXPECT_EQ(
      to_string(small_function()),
      "function(s0: f32[4, 8], s1: f32[4, 8]) arena 256 bytes {\n"
      "  s2: arena[64, 192) f32[4, 8]\n"
      "  s3: extern f32[4, 8]\n"
      "  s4: output f32[4, 8]\n"
      "  s5: view(s2 + 64) f32[2, 8]\n"
      "  s6: view(s4 + 32) f32[8]\n"
      "  kernel fused_add(s0, s1, s2) extent 4 grain 2      // model.py:12 forward, torch.add\n"
      "  s3 = aten.mm(s5, s1)\n"
      "  kernel fused_mul(s3, s2, s4) extent 4 grain 1\n"
      "  free s3\n"
      "  copy s0 <- s4\n"
      "  return s4, s6\n"
      "}\n");
}

TEST(FunctionText, MemoryByNeed) {
  Function function = small_function();
  function.steps = {AllocateStep{4}, FreeStep{0}};
  EXPECT_NE(to_string(function).find("  allocate s4\n  free s0\n"), std::string::npos);
}

TEST(FunctionText, OnAGpu) {
  const std::string text = to_string(small_gpu_function());
  EXPECT_NE(text.find(") arena 256 bytes on cuda:0 {\n"), std::string::npos) << text;
  EXPECT_NE(text.find("s2: arena[64, 192) f32[4, 8]@cuda:0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("fused_add(s0, s1, s2) blocks (7, 2, 1) threads (32, 4, 1)  "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("fused_mul(s3, s2, s4) blocks (1, 1, 1) threads (256, 1, 1) shared 1024\n"),
            std::string::npos)
      << text;
}

TEST(FunctionText, Arguments) {
  Function function = small_function();
  function.steps = {ExternStep{
      .op = "aten.test",
      .args = {graph::None{}, std::vector<SlotId>{0, 1},
               graph::OptionalRefs<SlotId>{{std::nullopt, 1}}, sym::Int(-3), 0.5, true,
               std::complex<double>(1, 2), std::string("tanh"), std::vector<sym::Int>{1, 2},
               std::vector<double>{0.25}, std::vector<bool>{true, false}, graph::DType::kInt64,
               graph::Device{}, graph::MemoryFormat::kChannelsLast, graph::Layout::kStrided},
      .results = {-1, 3}}};
  EXPECT_NE(to_string(function).find(
                "_, s3 = aten.test(none, [s0, s1], [none, s1], -3, 0.5, true, (1, 2), "
                "\"tanh\", [1, 2], [0.25], [true, false], i64, cpu, channels_last, "
                "strided)"),
            std::string::npos)
      << to_string(function);
}

TEST(ModuleText, FunctionsOneAfterTheOther) {
  const std::string one = to_string(small_function());
  EXPECT_EQ(to_string(module_of({small_function(), small_function()})),
            "target cpu avx2 threads 2\ninputs user, user\noutputs user, user\n" + one + one);
}

TEST(ModuleText, SignatureAndConstants) {
  Module module = module_with_constant();
  const std::string functions = to_string(module.functions[0]);
  EXPECT_EQ(to_string(module),
            "target cpu avx2 threads 2\n"
            "inputs user, constant c0\n"
            "outputs user, saved view(no_grad)\n"
            "c0: f32[4, 8] 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f... "
            "128 bytes, hash " +
                content_hash(module.constants[0].bytes) + "\n" + functions);
  module.inputs[0].kind = graph::InputKind::kParameter;
  module.inputs[1].constant = -1;
  module.outputs = {{}, {.state = {.is_made = true, .is_inference = true}}};
  module.constants.clear();
  EXPECT_EQ(
      to_string(module),
      "target cpu avx2 threads 2\ninputs parameter, constant\noutputs outside, user inference\n" +
          functions);
}

TEST(ModuleText, ShortConstantsAreThereInFull) {
  Module module = module_with_constant();
  module.constants[0] = {.type = tensor({2}), .bytes = std::string("\0\0\x80\x3f\xff\0\0\0", 8)};
  EXPECT_NE(to_string(module).find("c0: f32[2] 0000803fff000000\n"), std::string::npos);
}

TEST(ModuleText, Conditions) {
  EXPECT_EQ(to_string(module_with_condition()),
            "target cpu avx2 threads 2\ninputs user\noutputs user\n"
            "function(s0 = size(s0, 0) hint 16, s0: f32[s0]) arena 0 bytes {\n"
            "  where s0 % 8 == 0\n"
            "  return s0\n"
            "}\n");
}

}  // namespace
}  // namespace braze::plan
