// The compiled artefact as plain data: what caches store and the run time loads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/function.h"

namespace braze::plan {

enum class Language : uint8_t { kCpp, kCuda, kTriton };
bool is_of_gpus(Language language);
std::string_view to_string(Language language);

// One translation unit, with the kernels of any number of functions.
struct Code {
  Language language = Language::kCpp;
  std::string text;
  // Of the compiler; of kTriton what codegen/triton/codegen.h has it told.
  std::vector<std::string> flags;
};

// A tensor that the traced code made, the same for all calls. The run time makes it once, when it
// loads the module, on the device of its type.
struct Constant {
  graph::TensorType type;  // of numbers, without an offset
  std::string bytes;       // from element 0 to the end of the last one, little-endian
};

struct Input {
  graph::InputKind kind = graph::InputKind::kUser;
  // kConstant: index into Module::constants; -1: a tensor that whoever loads the module binds for
  // good, as it is large or the program's own.
  int32_t constant = -1;
};

// All that the run time needs, but for tensors of the program. A function has the symbols of the
// first one, or none. Those that it uses have their values when it is entered or, in a function of
// control steps, by the step that uses them.
struct Module {
  std::string target;               // what it was compiled for, as target::to_string names it
  std::vector<Function> functions;  // the first one is what a call runs
  std::vector<Code> code;
  // What inputs and outputs of the first function are to the caller.
  std::vector<Input> inputs;
  std::vector<graph::OutputRole> outputs;
  std::vector<Constant> constants;
};

// For people:
//   target cpu avx2 threads 2
//   inputs user, parameter, constant c0
//   outputs user, user view(no_grad)
//   c0: f32[2] 0000803f00000040
// and the functions, one after the other.
std::string to_string(const Module& module);

// Exact binary form with a version and a checksum. `deserialize` throws UserError on anything
// damaged, from another version or for another target than this one (target::to_string), and names
// both; what it returns has passed `verify`.
std::string serialize(const Module& module);
Module deserialize(std::string_view bytes, std::string_view target);

// Throws InternalError unless:
//   * there is a function, and each passes its own check (function.h);
//   * each kernel has a code object, in a language of its function's device, and each code object
//     has a kernel;
//   * each function but the first is called in one place, by one before it, with as many tensors as
//     it takes and gives;
//   * symbols have their values where they are used;
//   * inputs and outputs are those of the first function, and each constant is one input, of its
//     type.
void verify(const Module& module);

}  // namespace braze::plan
