// Functions and modules for tests: small valid ones by hand, and random ones.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "plan/module.h"

namespace braze::plan {

inline graph::TensorType tensor(sym::Dims sizes, graph::DType dtype = graph::DType::kFloat32) {
  graph::TensorType type;
  type.dtype = dtype;
  type.strides = sym::contiguous_strides(sizes);
  type.sizes = std::move(sizes);
  return type;
}

// s0, s1: inputs f32[4, 8]; s2: arena; s3: extern; s4: output; s5: view of s2; s6: view of s4.
//   fused_add(s0, s1, s2); s3 = aten.mm(s5, s1); free after; fused_mul(s3, s2, s4)
inline Function small_function() {
  Function function;
  graph::TensorType type = tensor({4, 8});
  function.input_count = 2;
  function.arena_bytes = 256;
  function.slots = {
      {.kind = SlotKind::kInput, .type = type},
      {.kind = SlotKind::kInput, .type = type},
      {.kind = SlotKind::kArena, .type = type, .byte_offset = 64, .bytes = 128},
      {.kind = SlotKind::kExtern, .type = type},
      {.kind = SlotKind::kOutput, .type = type, .bytes = 128},
      {.kind = SlotKind::kView, .type = tensor({2, 8}), .byte_offset = 64, .base = 2},
      {.kind = SlotKind::kView, .type = tensor({8}), .byte_offset = 32, .base = 4},
  };
  function.kernels = {{.name = "fused_add", .written = {false, false, true}},
                      {.name = "fused_mul", .written = {false, false, true}}};
  function.origins = {{.file = "model.py", .line = 12, .function = "forward", .call = "torch.add"}};
  function.steps = {
      KernelStep{
          .kernel = 0, .args = {0, 1, 2}, .launch = Chunks{.extent = 4, .grain = 2}, .origin = 0},
      ExternStep{.op = "aten.mm", .args = {SlotId{5}, SlotId{1}}, .results = {3}},
      KernelStep{.kernel = 1, .args = {3, 2, 4}, .launch = Chunks{.extent = 4}},
      FreeStep{.slot = 3},
      CopyStep{.target = 0, .source = 4},
  };
  function.outputs = {4, 6};
  return function;
}

// The same on a GPU.
inline Function small_gpu_function() {
  Function function = small_function();
  function.device = {graph::Device::Type::kCUDA, 0};
  for (Slot& slot : function.slots) slot.type.device = function.device;
  std::get<KernelStep>(function.steps[0]).launch = Grid{.blocks = {7, 2, 1}, .threads = {32, 4, 1}};
  std::get<KernelStep>(function.steps[2]).launch =
      Grid{.blocks = {1, 1, 1}, .threads = {256, 1, 1}, .shared_bytes = 1024};
  return function;
}

class RandomFunction {
 public:
  explicit RandomFunction(uint32_t seed, graph::Device device = {})
      : random_(seed), device_(device) {}

  // Valid: every step uses what is defined; every argument alternative occurs.
  Function make() {
    Function function;
    function.device = device_;
    function.input_count = below(3) + 1;
    for (int i = 0; i < function.input_count; ++i) {
      function.slots.push_back({.kind = SlotKind::kInput, .type = type()});
    }
    for (int i = below(3); i > 0; --i) {
      function.origins.push_back({.file = word(), .line = below(100), .function = word()});
    }
    int kernels = below(3);
    for (int i = 0; i < kernels; ++i) {
      function.kernels.push_back({.name = word(), .written = {false, true}});
    }
    for (int i = below(8); i > 0; --i) add_step(function);
    for (int i = below(3); i > 0; --i) {
      SlotId slot = below(static_cast<int>(function.slots.size()));
      if (function.slots[root_of(function, slot)].kind != SlotKind::kArena)
        function.outputs.push_back(slot);
    }
    return function;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  std::string word() {
    std::string text;
    for (int i = below(6) + 1; i > 0; --i) text.push_back(static_cast<char>(below(256)));
    return text;
  }
  graph::TensorType type() {
    sym::Dims sizes;
    for (int i = below(4); i > 0; --i) sizes.push_back(below(5));
    graph::TensorType type = tensor(std::move(sizes), static_cast<graph::DType>(below(12)));
    type.device = device_;
    return type;
  }
  graph::OriginId origin(const Function& function) {
    return below(static_cast<int>(function.origins.size()) + 1) - 1;
  }
  SlotId any(const Function& function) { return below(static_cast<int>(function.slots.size())); }

  Argument argument(const Function& function) {
    switch (below(16)) {
      case 0:
        return graph::None{};
      case 1:
        return any(function);
      case 2:
        return std::vector<SlotId>{any(function), any(function)};
      case 3:
        return graph::OptionalRefs<SlotId>{{std::nullopt, any(function)}};
      case 4:
        return sym::Int(int64_t{-1} * below(1000));
      case 5:
        return below(7) / 3.0;
      case 6:
        return below(2) == 1;
      case 7:
        return std::complex<double>(below(5), -0.0);
      case 8:
        return word();
      case 9:
        return std::vector<sym::Int>{below(5), below(9)};
      case 10:
        return std::vector<double>{0.1, -1e300};
      case 11:
        return std::vector<bool>{true, below(2) == 1};
      case 12:
        return static_cast<graph::DType>(below(12));
      case 13:
        return graph::Device{graph::Device::Type::kCUDA, static_cast<int8_t>(below(8))};
      case 14:
        return static_cast<graph::MemoryFormat>(below(4));
      default:
        return graph::Layout::kStrided;
    }
  }

  Launch launch() {
    if (device_.type != graph::Device::Type::kCUDA)
      return Chunks{.extent = below(100), .grain = below(9) + 1};
    return Grid{.blocks = {below(9), below(9), 1},
                .threads = {below(99) + 1, below(9) + 1, 1},
                .shared_bytes = below(99)};
  }

  SlotId add_slot(Function& function) {
    Slot slot{.kind = SlotKind::kExtern, .type = type()};
    int choice = below(3);
    if (choice > 0) {
      slot.kind = choice == 1 ? SlotKind::kArena : SlotKind::kOutput;
      slot.bytes = extent_bytes(slot.type);
    }
    if (slot.kind == SlotKind::kArena) {
      slot.byte_offset = function.arena_bytes;
      function.arena_bytes += (slot.bytes + 63) / 64 * 64;
    }
    function.slots.push_back(slot);
    return static_cast<SlotId>(function.slots.size()) - 1;
  }

  void add_step(Function& function) {
    if (!function.kernels.empty() && below(2) == 0) {
      SlotId read = any(function);
      SlotId written = add_slot(function);
      if (function.slots[written].kind == SlotKind::kExtern)
        function.slots[written].kind = SlotKind::kOutput;
      function.slots[written].bytes = extent_bytes(function.slots[written].type);
      if (function.slots[written].kind == SlotKind::kOutput && below(2) == 0)
        function.steps.push_back(AllocateStep{written});
      function.steps.push_back(
          KernelStep{.kernel = below(static_cast<int>(function.kernels.size())),
                     .args = {read, written},
                     .launch = launch(),
                     .origin = origin(function)});
      return;
    }
    ExternStep step{.op = "aten.test_" + std::to_string(below(5)), .origin = origin(function)};
    for (int i = below(5); i > 0; --i) step.args.push_back(argument(function));
    step.results = {-1, add_slot(function)};
    function.steps.push_back(std::move(step));
  }

  std::mt19937 random_;
  const graph::Device device_;
};

// Inputs and outputs are the user's.
inline void give_signature(Module& module) {
  const Function& first = module.functions.at(0);
  module.inputs.assign(first.input_count, {});
  module.outputs.assign(first.outputs.size(), {.state = {.is_made = true}});
}

// With code for the functions' kernels, if they have any.
inline Module module_of(std::vector<Function> functions) {
  Module module{.target = "cpu avx2 threads 2", .functions = std::move(functions)};
  give_signature(module);
  const bool kernels =
      std::any_of(module.functions.begin(), module.functions.end(),
                  [](const Function& function) { return !function.kernels.empty(); });
  const bool on_gpu = module.functions.back().device.type == graph::Device::Type::kCUDA;
  if (kernels)
    module.code.push_back({.language = on_gpu ? Language::kCuda : Language::kCpp,
                           .text = "// kernels",
                           .flags = {"-O2"}});
  return module;
}

inline Module small_module() { return module_of({small_function()}); }

// s0, s1: inputs f32[4, 8], the second a constant of the module.
inline Module module_with_constant() {
  Module module = small_module();
  std::string bytes(128, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  module.inputs[1] = {.kind = graph::InputKind::kConstant, .constant = 0};
  module.constants = {{.type = module.functions[0].slots[1].type, .bytes = std::move(bytes)}};
  module.outputs[1] = {graph::OutputKind::kSaved,
                       {.is_made = true, .is_view = true, .view = graph::ViewOrigin::kNoGrad}};
  return module;
}

// f(x) = x over a size s0 of which it is known that it is a multiple of 8.
inline Module module_with_condition() {
  Function function;
  function.arena = std::make_shared<sym::ExprArena>();
  const sym::Int size(function.arena->symbol("s0", 16, {2, 1000}));
  function.symbols = {{.name = "s0", .hint = 16, .low = 2, .high = 1000, .input = 0}};
  function.input_count = 1;
  function.slots = {{.kind = SlotKind::kInput, .type = tensor({size})}};
  function.outputs = {0};
  function.conditions = {{sym::Relation::kEqual, sym::mod(size, sym::Int(8)), sym::Int(0)}};
  Module module{.target = "cpu avx2 threads 2", .functions = {std::move(function)}};
  give_signature(module);
  return module;
}

// A function that calls the ones behind it, each in another way, and these.
inline Module random_module(uint32_t seed) {
  const graph::Device device =
      seed % 3 == 0 ? graph::Device{graph::Device::Type::kCUDA, 1} : graph::Device{};
  std::vector<Function> called;
  for (uint32_t i = 0; i < seed % 4; ++i)
    called.push_back(RandomFunction(seed * 3 + i, device).make());
  if (called.empty()) return module_of({RandomFunction(seed, device).make()});
  Function first;
  first.input_count = 1;
  first.slots = {{.kind = SlotKind::kInput, .type = tensor({3})}};
  const auto results = [&](size_t count) {
    std::vector<SlotId> slots;
    for (; count > 0; --count) {
      slots.push_back(static_cast<SlotId>(first.slots.size()));
      first.slots.push_back({.kind = SlotKind::kExtern, .type = tensor({3})});
    }
    return slots;
  };
  const auto callee = [&](int32_t number) {
    return Callee{number, std::vector<SlotId>(called[number - 1].input_count, 0)};
  };
  for (size_t i = 0; i < called.size(); ++i) {
    const auto number = static_cast<int32_t>(i + 1);
    if (i + 1 < called.size() && called[i].outputs.size() == called[i + 1].outputs.size()) {
      first.steps.push_back(BranchStep{.predicate = 0,
                                       .yes = callee(number),
                                       .no = callee(number + 1),
                                       .results = results(called[i].outputs.size())});
      ++i;
    } else {
      first.steps.push_back(
          CallStep{.callee = callee(number), .results = results(called[i].outputs.size())});
    }
    first.steps.push_back(ExpectStep{.slot = 0});
  }
  first.on_failure = seed % 5 == 0 ? OnFailure::kRaise : OnFailure::kRunEager;
  called.insert(called.begin(), std::move(first));
  Module module = module_of(std::move(called));
  if (seed % 2 == 1) {
    module.inputs[0] = {.kind = graph::InputKind::kConstant, .constant = 0};
    module.constants = {{.type = tensor({3}), .bytes = std::string(12, static_cast<char>(seed))}};
  }
  return module;
}

}  // namespace braze::plan
