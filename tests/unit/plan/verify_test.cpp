#include <gtest/gtest.h>

#include <functional>

#include "plan/helpers.h"

namespace braze::plan {
namespace {

void expect_rejected(const std::function<void(Function&)>& spoil, const std::string& message) {
  Function plan = small_function();
  spoil(plan);
  try {
    verify(plan);
    ADD_FAILURE() << "accepted, but: " << message;
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

template <class T>
T& step(Function& plan, int i) {
  return std::get<T>(plan.steps.at(i));
}

TEST(FunctionVerify, AcceptsSmall) { EXPECT_NO_THROW(verify(small_function())); }

TEST(FunctionVerify, Slots) {
  expect_rejected([](Function& p) { p.slots[1].kind = SlotKind::kExtern; }, "inputs come first");
  expect_rejected([](Function& p) { p.input_count = 1; }, "inputs come first");
  expect_rejected([](Function& p) { p.input_count = 99; }, "bad number of inputs");
  expect_rejected([](Function& p) { p.slots[2].byte_offset = 32; }, "not aligned to 64 bytes: 32");
  expect_rejected([](Function& p) { p.slots[2].byte_offset = 192; }, "ends behind the arena");
  expect_rejected([](Function& p) { p.slots[2].bytes = 64; }, "64 bytes for 128");
  expect_rejected([](Function& p) { p.slots[4].bytes = 0; }, "0 bytes for 128");
  expect_rejected([](Function& p) { p.slots[5].base = 5; }, "base of a view comes before it");
  expect_rejected([](Function& p) { p.slots[5].byte_offset = 128; }, "the view leaves its base s2");
  expect_rejected([](Function& p) { p.slots[3].base = 3; }, "the base comes before it");
  expect_rejected([](Function& p) { p.slots[0].type.strides.pop_back(); },
                  "as many strides as sizes");
  expect_rejected([](Function& p) { p.slots[0].type.sizes[0] = -1; }, "negative size or stride");
  expect_rejected(
      [](Function& p) {
        p.slots[0].type.sizes[0] = INT64_MAX;
        p.slots[0].type.strides[0] = INT64_MAX;
      },
      "overflow");
}

TEST(FunctionVerify, KernelSteps) {
  expect_rejected([](Function& p) { step<KernelStep>(p, 0).kernel = 2; },
                  "kernel 2 does not exist");
  expect_rejected([](Function& p) { step<KernelStep>(p, 0).args.pop_back(); },
                  "kernel fused_add takes 3 arguments, not 2");
  expect_rejected([](Function& p) { step<KernelStep>(p, 0).args[0] = 7; },
                  "slot s7 does not exist");
  expect_rejected([](Function& p) { step<KernelStep>(p, 0).args[0] = 3; },
                  "s3 is used before it is defined");
  expect_rejected([](Function& p) { std::get<Chunks>(step<KernelStep>(p, 0).launch).grain = 0; },
                  "bad extent or grain");
  expect_rejected([](Function& p) { step<KernelStep>(p, 0).origin = 1; },
                  "origin 1 does not exist");
  expect_rejected([](Function& p) { step<KernelStep>(p, 2).args[2] = 3; },
                  "a kernel cannot write to it");
}

TEST(FunctionVerify, Launches) {
  EXPECT_NO_THROW(verify(small_gpu_function()));
  const auto expect_gpu_rejected = [](const std::function<void(Function&)>& spoil,
                                      const std::string& message) {
    expect_rejected(
        [&](Function& p) {
          p = small_gpu_function();
          spoil(p);
        },
        message);
  };
  const auto grid = [](Function& p) -> Grid& {
    return std::get<Grid>(step<KernelStep>(p, 0).launch);
  };
  expect_rejected([](Function& p) { step<KernelStep>(p, 0).launch = Grid{}; },
                  "a grid is for a GPU, chunks are for a CPU");
  expect_gpu_rejected([](Function& p) { step<KernelStep>(p, 0).launch = Chunks{}; },
                      "a grid is for a GPU, chunks are for a CPU");
  expect_gpu_rejected([&](Function& p) { grid(p).blocks[1] = -1; }, "a negative number of blocks");
  expect_gpu_rejected([&](Function& p) { grid(p).threads[2] = 0; }, "a block without threads");
  expect_gpu_rejected([&](Function& p) { grid(p).shared_bytes = -1; }, "negative shared memory");
  expect_gpu_rejected([](Function& p) { p.slots[2].type.device = {}; },
                      "slot s2 is not on the device of the function");
  expect_gpu_rejected([](Function& p) { p.slots[1].type.device.index = 1; },
                      "in step 0: slot s1 is not on the device of the function");
}

TEST(FunctionVerify, ExternSteps) {
  expect_rejected([](Function& p) { step<ExternStep>(p, 1).args[0] = SlotId{4}; },
                  "in step 1: slot s4 is used before it is defined");
  expect_rejected(
      [](Function& p) {
        step<ExternStep>(p, 1).args[0] = std::vector<SlotId>{0, 3};
      },
      "s3 is used before it is defined");
  expect_rejected([](Function& p) { step<ExternStep>(p, 1).results[0] = 0; },
                  "must be memory of its own");
  expect_rejected([](Function& p) { step<ExternStep>(p, 1).results[0] = 2; },
                  "s2 is defined twice");
  expect_rejected(
      [](Function& p) {
        step<ExternStep>(p, 1).results = {3, 3};
      },
      "s3 is two results");
}

TEST(FunctionVerify, AnEmptyViewMayBeginAnywhere) {
  Function plan = small_function();
  plan.slots[6].type = tensor({0, 8});
  plan.slots[6].byte_offset = 160;
  EXPECT_NO_THROW(verify(plan));
}

TEST(FunctionVerify, InPlaceResultIsItsArgument) {
  Function plan = small_function();
  plan.steps.insert(
      plan.steps.begin(),
      ExternStep{.op = "aten.add_.Tensor", .args = {SlotId{0}, SlotId{1}}, .results = {0}});
  EXPECT_NO_THROW(verify(plan));
}

TEST(FunctionVerify, MemoryByNeed) {
  Function plan = small_function();
  plan.steps.insert(plan.steps.begin(), AllocateStep{4});
  plan.steps.insert(plan.steps.begin() + 4, FreeStep{1});  // its last use is behind
  EXPECT_NO_THROW(verify(plan));
  expect_rejected([](Function& p) { p.steps.insert(p.steps.begin(), AllocateStep{2}); },
                  "s2 is allocated but is no output memory");
  expect_rejected([](Function& p) { p.steps.push_back(AllocateStep{4}); },
                  "s4 is allocated after it is defined, or twice");
  expect_rejected(
      [](Function& p) {
        p.steps.insert(p.steps.begin(), AllocateStep{4});
        p.steps.insert(p.steps.begin(), AllocateStep{4});
      },
      "s4 is allocated after it is defined, or twice");
}

TEST(FunctionVerify, CopiesAndFrees) {
  expect_rejected([](Function& p) { step<CopyStep>(p, 4).target = 2; },
                  "target s2 of a copy is no input");
  expect_rejected([](Function& p) { step<CopyStep>(p, 4).source = 5; },
                  "a copy between different sizes");
  expect_rejected([](Function& p) { step<FreeStep>(p, 3).slot = 2; },
                  "s2 is freed but has no memory of its own");
  expect_rejected([](Function& p) { step<FreeStep>(p, 3).slot = 4; },
                  "s4 is used after it was freed");
  expect_rejected([](Function& p) { step<FreeStep>(p, 3).slot = 0; },
                  "s0 is used after it was freed");
  expect_rejected([](Function& p) { p.steps.push_back(FreeStep{3}); },
                  "before it is defined, or twice");
  expect_rejected([](Function& p) { std::swap(p.steps[2], p.steps[3]); },
                  "s3 is used after it was freed");
}

TEST(FunctionVerify, Outputs) {
  expect_rejected([](Function& p) { p.outputs[0] = 2; }, "output s2 lives in the arena");
  expect_rejected([](Function& p) { p.outputs[0] = 5; }, "output s5 lives in the arena");
  expect_rejected([](Function& p) { p.outputs[0] = 3; }, "s3 is used after it was freed");
  expect_rejected(
      [](Function& p) {
        p.slots[3].base = 2;
        p.steps.erase(p.steps.begin() + 3);
        p.outputs[0] = 3;
      },
      "output s3 lives in the arena");
}

// Adds an arena slot at `offset` that step `at` (a copy of fused_add) defines.
Function with_second_arena_slot(int64_t offset, int at) {
  Function plan = small_function();
  plan.arena_bytes = 512;
  plan.slots.push_back(
      {.kind = SlotKind::kArena, .type = tensor({4, 8}), .byte_offset = offset, .bytes = 128});
  plan.steps.insert(plan.steps.begin() + at, KernelStep{.kernel = 0, .args = {0, 1, 7}});
  return plan;
}

TEST(FunctionVerify, ArenaOverlap) {
  EXPECT_NO_THROW(verify(with_second_arena_slot(192, 1)));
  EXPECT_NO_THROW(verify(with_second_arena_slot(64, 3)));  // s2 is dead by then
  EXPECT_THROW(verify(with_second_arena_slot(128, 1)), InternalError);
  EXPECT_THROW(verify(with_second_arena_slot(64, 2)), InternalError);
}

TEST(FunctionVerify, InPlaceReuseInsideOneKernel) {
  Function plan = with_second_arena_slot(64, 3);
  std::get<KernelStep>(plan.steps[2]).args[2] = 7;  // reads s2, its last use, and writes s7 over it
  plan.steps.erase(plan.steps.begin() + 3);
  plan.outputs = {};
  plan.steps.pop_back();
  EXPECT_NO_THROW(verify(plan));
  plan.slots[7].byte_offset = 128;
  EXPECT_THROW(verify(plan), InternalError);
}

TEST(FunctionVerify, ExternViewKeepsArenaAlive) {
  Function plan = with_second_arena_slot(64, 3);
  EXPECT_NO_THROW(verify(plan));
  plan.slots.push_back({.kind = SlotKind::kExtern, .type = tensor({4, 8}), .base = 2});
  plan.steps.insert(plan.steps.begin() + 1,
                    ExternStep{.op = "aten.view", .args = {SlotId{2}}, .results = {8}});
  EXPECT_NO_THROW(verify(plan));
  plan.steps.push_back(CopyStep{.target = 0, .source = 8});
  EXPECT_THROW(verify(plan), InternalError);
}

void expect_rejected(const Module& module, const std::string& message) {
  try {
    verify(module);
    ADD_FAILURE() << "accepted, but: " << message;
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(ModuleVerify, KernelsAndCodeComeTogether) {
  Module module = small_module();
  EXPECT_NO_THROW(verify(module));
  module.functions[0].kernels[1].code = 1;
  expect_rejected(module, "kernel fused_mul: code object 1 does not exist");
  module.code.push_back(module.code[0]);
  EXPECT_NO_THROW(verify(module));
  for (const Language language : {Language::kCuda, Language::kTriton}) {
    module.code[1].language = language;
    expect_rejected(module, "kernel fused_mul: code in another language than its device's");
  }
  module.functions[0].kernels[1].code = 0;
  expect_rejected(module, "code object 1 has no kernel");
  expect_rejected(Module{}, "a module without functions");
}

// Calls function 1, which is small_function().
Module calling_module() {
  Module module = small_module();
  Function first;
  first.input_count = 1;
  first.slots = {{.kind = SlotKind::kInput, .type = tensor({4, 8})},
                 {.kind = SlotKind::kExtern, .type = tensor({4, 8})},
                 {.kind = SlotKind::kExtern, .type = tensor({8})}};
  first.steps = {CallStep{.callee = {1, {0, 0}}, .results = {1, 2}}};
  first.outputs = {1, 2};
  module.functions.insert(module.functions.begin(), std::move(first));
  give_signature(module);
  return module;
}

TEST(ModuleVerify, CallsFitTheFunctionsThatTheyCall) {
  EXPECT_NO_THROW(verify(calling_module()));
  Module module = calling_module();
  module.functions[1].outputs[0] = 2;
  expect_rejected(module, "output s2 lives in the arena");
  const auto call = [](Module& module) -> CallStep& {
    return std::get<CallStep>(module.functions[0].steps[0]);
  };
  module = calling_module();
  call(module).callee.args.pop_back();
  expect_rejected(module, "function 1 takes 2 and gives 2 tensors, not 1 and 2");
  module = calling_module();
  call(module).callee.function = 0;
  expect_rejected(module, "function 0 calls 0, which is not behind it");
  module = calling_module();
  call(module).callee.args[0] = -1;
  expect_rejected(module, "nothing is carried as 0");
  module = calling_module();
  call(module).results[1] = 0;
  expect_rejected(module, "result s0 must be a kExtern slot");
  module = calling_module();
  module.functions[0].steps.push_back(CallStep{.callee = {1, {0, 0}}, .results = {}});
  expect_rejected(module, "function 1 is called twice");
  module = calling_module();
  module.functions[0].arena_bytes = 64;
  expect_rejected(module, "no kernels and no memory of its own");
  module = small_module();
  module.functions.push_back(RandomFunction(1).make());
  expect_rejected(module, "function 1 is never called");
}

TEST(ModuleVerify, SymbolsAreUsedWhenTheirValuesAreKnown) {
  auto arena = std::make_shared<sym::ExprArena>();
  const sym::Int u(arena->symbol("u0", 4, {0, 100}));
  const auto with_symbol = [&](Function function) {
    function.arena = arena;
    function.symbols = {
        {.name = "u0", .hint = 4, .low = 0, .high = 100, .kind = Symbol::Kind::kScalar}};
    return function;
  };
  Function first, second;
  first.input_count = second.input_count = 1;
  first.slots = {{.kind = SlotKind::kInput, .type = tensor({})},
                 {.kind = SlotKind::kExtern, .type = tensor({u})}};
  second.slots = {{.kind = SlotKind::kInput, .type = tensor({})},
                  {.kind = SlotKind::kExtern, .type = tensor({u})}};
  second.steps = {ExternStep{.op = "aten.fill", .args = {SlotId{0}, u}, .results = {1}}};
  second.outputs = {1};
  const ReadStep read{.slot = 0, .dim = -1, .symbol = 0};
  const CallStep call{.callee = {1, {0}}, .results = {1}};
  const AssertStep assertion{{sym::Relation::kLess, u, sym::Int(9)}};
  Module module{.functions = {with_symbol(first), with_symbol(second)}};
  give_signature(module);
  module.functions[0].steps = {read, assertion, call, ExpectStep{1}};
  EXPECT_NO_THROW(verify(module));
  module.functions[0].steps = {call, read};
  expect_rejected(module, "function 1 uses symbol 0 before it is read");
  module.functions[0].steps = {assertion, read, call};
  expect_rejected(module, "function 0 uses symbol 0 before it is read");
  module.functions[0].steps = {read, read, call};
  expect_rejected(module, "symbol 0 is read twice");
  module.functions[0].steps = {read, call};
  module.functions[0].conditions = {{sym::Relation::kLess, u, sym::Int(9)}};
  expect_rejected(module, "function 0 uses symbol 0 before it is read");
}

TEST(ModuleVerify, TheSignatureIsThatOfTheFirstFunction) {
  EXPECT_NO_THROW(verify(module_with_constant()));
  Module module = small_module();
  module.inputs.pop_back();
  expect_rejected(module, "the module has 1 inputs and 2 outputs, its first function 2 and 2");
  module = small_module();
  module.outputs.push_back({});
  expect_rejected(module, "the module has 2 inputs and 3 outputs");
  module = small_module();
  module.inputs[0].kind = graph::InputKind::kNumber;
  expect_rejected(module, "input 0 is a number to either the module or the function alone");
  module = small_module();
  module.outputs[1].state.is_inference = module.outputs[1].state.is_view = true;
  expect_rejected(module,
                  "output 1 is two of an inference tensor, a view to autograd and an alias");
}

TEST(ModuleVerify, Constants) {
  Module module = module_with_constant();
  module.inputs[1].kind = graph::InputKind::kParameter;
  expect_rejected(module, "input 1 is no constant");
  module = module_with_constant();
  module.inputs[1].constant = 1;
  expect_rejected(module, "input 1: constant 1 does not exist");
  module = module_with_constant();
  module.inputs[0] = module.inputs[1];
  expect_rejected(module, "constant 0 is two inputs");
  module = module_with_constant();
  module.inputs[1].constant = -1;
  expect_rejected(module, "constant 0 is no input");
  module = module_with_constant();
  module.constants[0].type.dtype = graph::DType::kInt32;
  expect_rejected(module, "input 1: constant 0 is of another type");
  module = module_with_constant();
  module.constants[0].bytes.pop_back();
  expect_rejected(module, "constant 0 has 127 bytes for 128");

  Function function;
  function.input_count = 1;
  function.slots = {{.kind = SlotKind::kInput, .type = tensor({2}, graph::DType::kBool)}};
  module = module_of({std::move(function)});
  module.inputs[0] = {.kind = graph::InputKind::kConstant, .constant = 0};
  module.constants = {{.type = module.functions[0].slots[0].type, .bytes = "\1\1"}};
  EXPECT_NO_THROW(verify(module));
  module.constants[0].bytes = "\1\2";
  expect_rejected(module, "constant 0 has a bool that is neither 0 nor 1");
}

TEST(ModuleVerify, ConditionsAreTheFirstFunctions) {
  EXPECT_NO_THROW(verify(module_with_condition()));
  Module module = module_with_condition();
  module.functions[0].conditions = module_with_condition().functions[0].conditions;
  expect_rejected(module, "a condition on symbols that the function does not have");
}

}  // namespace
}  // namespace braze::plan
