// The compiled artefact as plain data: what caches store and the run time loads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/function.h"

namespace braze::plan {

enum class Language : uint8_t { kCpp, kCuda };
std::string_view to_string(Language language);

// One translation unit, with the kernels of any number of functions.
struct Code {
  Language language = Language::kCpp;
  std::string text;
  std::vector<std::string> flags;  // of the compiler
};

// The functions have the same symbols, or none. What a function computes from symbols is known when
// it is entered.
struct Module {
  std::vector<Function> functions;  // the first one is what a call runs
  std::vector<Code> code;
};

// For people: the functions, one after the other.
std::string to_string(const Module& module);

// Exact binary form with a version and a checksum. `deserialize` throws UserError on anything
// damaged or from another version; what it returns has passed `verify`.
std::string serialize(const Module& module);
Module deserialize(std::string_view bytes);

// Throws InternalError unless there is a function, all functions are right (function.h), kernels
// and code objects come together (each kernel has one, in the language of its function's device,
// each of them has a kernel), each function but the first is called in one place, by one before it,
// with as many tensors as it takes and gives, and symbols have their values where they are used.
void verify(const Module& module);

}  // namespace braze::plan
