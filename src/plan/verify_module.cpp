// Verifies a module: what must hold between its functions, code objects, constants and signature.
#include <algorithm>

#include "base/error.h"
#include "plan/module.h"
#include "sym/symbols.h"

namespace braze::plan {
namespace {

void check_code(const Module& module) {
  std::vector<bool> used(module.code.size(), false);
  for (const Function& function : module.functions) {
    for (const KernelSignature& kernel : function.kernels) {
      BRAZE_CHECK(kernel.code >= 0 && kernel.code < static_cast<int64_t>(used.size()), "kernel ",
                  kernel.name, ": code object ", kernel.code, " does not exist");
      const bool on_gpu = function.device.type == graph::Device::Type::kCUDA;
      BRAZE_CHECK(is_of_gpus(module.code[kernel.code].language) == on_gpu, "kernel ", kernel.name,
                  ": code in another language than its device's");
      used[kernel.code] = true;
    }
  }
  for (size_t i = 0; i < used.size(); ++i)
    BRAZE_CHECK(used[i], "code object ", i, " has no kernel");
}

class CallChecker {
 public:
  explicit CallChecker(const Module& module)
      : module_(module), called_(module.functions.size(), false) {}

  void run() {
    for (caller_ = 0; caller_ < module_.functions.size(); ++caller_)
      for (const Step& step : module_.functions[caller_].steps)
        std::visit([this](const auto& held) { check(held); }, step);
    for (size_t i = 1; i < called_.size(); ++i)
      BRAZE_CHECK(called_[i], "function ", i, " is never called");
  }

 private:
  void check(const CallStep& step) { check_callee(step.callee, step.results.size()); }
  void check(const BranchStep& step) {
    check_callee(step.yes, step.results.size());
    check_callee(step.no, step.results.size());
  }
  void check(const LoopStep& step) {
    check_callee(step.condition, 1);
    check_callee(step.body, step.carried.size());
  }
  template <class T>
  void check(const T&) {}

  void check_callee(const Callee& callee, size_t results) {
    BRAZE_CHECK(callee.function > static_cast<int64_t>(caller_) &&
                    callee.function < static_cast<int64_t>(module_.functions.size()),
                "function ", caller_, " calls ", callee.function, ", which is not behind it");
    BRAZE_CHECK(!called_[callee.function], "function ", callee.function, " is called twice");
    called_[callee.function] = true;
    const Function& function = module_.functions[callee.function];
    BRAZE_CHECK(static_cast<size_t>(function.input_count) == callee.args.size() &&
                    function.outputs.size() == results,
                "function ", callee.function, " takes ", function.input_count, " and gives ",
                function.outputs.size(), " tensors, not ", callee.args.size(), " and ", results);
    BRAZE_CHECK(
        function.symbols.empty() || function.symbols.size() == module_.functions[0].symbols.size(),
        "function ", callee.function, " has symbols of its own");
  }

  const Module& module_;
  std::vector<bool> called_;
  size_t caller_ = 0;
};

void check_constants(const Module& module) {
  std::vector<bool> used(module.constants.size(), false);
  for (size_t i = 0; i < module.inputs.size(); ++i) {
    const Input& input = module.inputs[i];
    if (input.constant < 0) continue;
    BRAZE_CHECK(input.kind == graph::InputKind::kConstant, "input ", i, " is no constant");
    BRAZE_CHECK(input.constant < static_cast<int64_t>(used.size()), "input ", i, ": constant ",
                input.constant, " does not exist");
    BRAZE_CHECK(!used[input.constant], "constant ", input.constant, " is two inputs");
    used[input.constant] = true;
    const Constant& constant = module.constants[input.constant];
    BRAZE_CHECK(constant.type == module.functions[0].slots[i].type && constant.type.offset == 0,
                "input ", i, ": constant ", input.constant, " is of another type");
  }
  for (size_t i = 0; i < used.size(); ++i) {
    BRAZE_CHECK(used[i], "constant ", i, " is no input");
    const Constant& constant = module.constants[i];
    for (const sym::Dims* dims : {&constant.type.sizes, &constant.type.strides})
      for (const sym::Int& dim : *dims)
        BRAZE_CHECK(dim.is_constant(), "constant ", i, " has a symbolic size");
    BRAZE_CHECK(static_cast<int64_t>(constant.bytes.size()) == extent_bytes(constant.type),
                "constant ", i, " has ", constant.bytes.size(), " bytes for ",
                extent_bytes(constant.type));
    BRAZE_CHECK(constant.type.dtype != graph::DType::kBool ||
                    std::ranges::all_of(constant.bytes, [](char c) { return c == 0 || c == 1; }),
                "constant ", i, " has a bool that is neither 0 nor 1");
  }
}

void check_signature(const Module& module) {
  const Function& first = module.functions[0];
  BRAZE_CHECK(static_cast<int64_t>(module.inputs.size()) == first.input_count &&
                  module.outputs.size() == first.outputs.size(),
              "the module has ", module.inputs.size(), " inputs and ", module.outputs.size(),
              " outputs, its first function ", first.input_count, " and ", first.outputs.size());
  for (size_t i = 0; i < module.inputs.size(); ++i)
    BRAZE_CHECK(
        (module.inputs[i].kind == graph::InputKind::kNumber) == (first.slots[i].number >= 0),
        "input ", i, " is a number to either the module or the function alone");
  for (size_t i = 0; i < module.outputs.size(); ++i) {
    const graph::OutputState& state = module.outputs[i].state;
    BRAZE_CHECK(state.is_view + state.is_inference + state.is_alias <= 1, "output ", i,
                " is two of an inference tensor, a view to autograd and an alias");
  }
  for (size_t i = 1; i < module.functions.size(); ++i)
    BRAZE_CHECK(module.functions[i].conditions.empty(), "function ", i,
                " has conditions, which are the first one's");
  for (const sym::Condition& condition : first.conditions)
    for (const sym::Int& side : {condition.a, condition.b})
      BRAZE_CHECK(side.is_constant() || (first.arena && side.expr()->arena == first.arena.get()),
                  "a condition on symbols that the function does not have");
  check_constants(module);
}

// Follows the calls with the symbols whose values are known.
class SymbolChecker {
 public:
  explicit SymbolChecker(const Module& module) : module_(module) {
    known_.assign(module.functions[0].symbols.size(), true);
    for (const Function& function : module.functions)
      for (const Step& step : function.steps)
        if (const auto* read = std::get_if<ReadStep>(&step)) known_[read->symbol] = false;
  }

  void check_function(int32_t number) {
    const Function& function = module_.functions[number];
    if (!function.is_symbolic()) return;
    for (const sym::Condition& condition : function.conditions)
      sym::for_each_symbol(condition, [&](int symbol) { require(known_[symbol], number, symbol); });
    if (!function.has_control()) {
      const std::vector<bool> used = used_symbols(function);
      for (size_t i = 0; i < used.size(); ++i) require(!used[i] || known_[i], number, i);
      return;
    }
    for (const Step& step : function.steps) check(step, number);
  }

 private:
  void check(const Step& step, int32_t number) {
    const Function& function = module_.functions[number];
    if (const auto* call = std::get_if<CallStep>(&step)) {
      check_function(call->callee.function);
    } else if (const auto* branch = std::get_if<BranchStep>(&step)) {
      check_function(branch->yes.function);
      check_function(branch->no.function);
    } else if (const auto* loop = std::get_if<LoopStep>(&step)) {
      check_function(loop->condition.function);
      check_function(loop->body.function);
    } else if (const auto* read = std::get_if<ReadStep>(&step)) {
      BRAZE_CHECK(!known_[read->symbol], "function ", number, ": symbol ", read->symbol,
                  " is read twice");
      known_[read->symbol] = true;
    } else if (const auto* expect = std::get_if<ExpectStep>(&step)) {
      for (const sym::Int& size : function.slots[expect->slot].type.sizes) check(size, number);
      for (const sym::Int& stride : function.slots[expect->slot].type.strides)
        check(stride, number);
    } else if (const auto* assertion = std::get_if<AssertStep>(&step)) {
      check(assertion->condition.a, number);
      check(assertion->condition.b, number);
    }
  }

  void check(sym::Int value, int32_t number) const {
    sym::for_each_symbol(value, [&](int symbol) { require(known_[symbol], number, symbol); });
  }

  static void require(bool known, int32_t function, size_t symbol) {
    BRAZE_CHECK(known, "function ", function, " uses symbol ", symbol, " before it is read");
  }

  const Module& module_;
  std::vector<bool> known_;
};

}  // namespace

void verify(const Module& module) {
  BRAZE_CHECK(!module.functions.empty(), "a module without functions");
  for (const Function& function : module.functions) verify(function);
  check_code(module);
  check_signature(module);
  CallChecker(module).run();
  SymbolChecker(module).check_function(0);
}

}  // namespace braze::plan
