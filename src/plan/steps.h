// What a function does, step by step: launches of kernels, calls of operators, memory, control
// flow.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "graph/argument.h"
#include "graph/graph.h"
#include "sym/condition.h"
#include "sym/expr.h"

namespace braze::plan {

using SlotId = int32_t;
using Argument = graph::BasicArgument<SlotId>;

// A kernel on a CPU:
//   extern "C" int64_t name(void* const* args, const int64_t* sizes, int64_t begin, int64_t end);
// args[i] is the address of element 0 of slot args[i]; sizes are those of the kernel. The work [0,
// extent) is split among threads in chunks of at least `grain`; begin..end is one chunk. With
// extent 0 (an empty tensor) the kernel must not be called. A non-zero result is a failure (an
// index out of range).
struct Chunks {
  sym::Int extent = 1;
  sym::Int grain = 1;
  friend bool operator==(const Chunks&, const Chunks&) = default;
};

// A kernel on a GPU:
//   extern "C" __global__ void name(T0* arg0, T1* arg1, ..., long long size0, ...);
// It takes the addresses of its slots (of a slot that is a number, the number itself) and its
// sizes, one by one. Without blocks (an empty tensor) it must not be launched.
struct Grid {
  std::array<sym::Int, 3> blocks = {1, 1, 1};
  std::array<sym::Int, 3> threads = {1, 1, 1};  // of a block
  sym::Int shared_bytes = 0;  // of a block, beside what the kernel declares itself
  friend bool operator==(const Grid&, const Grid&) = default;
};

using Launch = std::variant<Chunks, Grid>;

// One call of a compiled kernel.
struct KernelStep {
  int32_t kernel = 0;  // index into Function::kernels
  std::vector<SlotId> args;
  Launch launch;
  graph::OriginId origin = -1;
};

// A call through PyTorch's dispatcher, below autograd. What a result slot means:
//   * kExtern: the tensor that the op returns is kept in the slot until its FreeStep. It may be a
//     view of an argument (view ops): it shares the argument's memory, as in eager.
//   * kArena, kOutput: the value lands in that memory, with the slot's sizes and strides, through
//     the op's out= overload where it has one that keeps those strides, else by a copy.
//   * a slot that is an argument of the same step (in-place and out= ops, Backend::kEager): the op
//     wrote to that argument and returned it; the slot keeps its tensor.
//   * -1: undefined or unused.
struct ExternStep {
  std::string op;  // "aten.addmm"
  std::vector<Argument> args;
  std::vector<SlotId> results;
  graph::OriginId origin = -1;
};

// Copies slot `source` into the memory of slot `target` (same sizes, any strides): input mutations.
// `target` is an input or a view of one.
struct CopyStep {
  SlotId target = -1;
  SlotId source = -1;
};

// The slot is no longer needed, nor are kView slots over it. The memory of an input goes if the
// caller has handed it over.
struct FreeStep {
  SlotId slot = -1;
};

// A kOutput slot gets its memory here, and not when the function is entered.
struct AllocateStep {
  SlotId slot = -1;
};

// Another function of the module, and what it is given as inputs, in order: slots, or, in a loop,
// the carried tensor k, written as -1 - k.
struct Callee {
  int32_t function = -1;
  std::vector<SlotId> args;
};

// What the function gives, in order, is kept in `results`.
struct CallStep {
  Callee callee;
  std::vector<SlotId> results;
};

// Calls `yes` if the only element of `predicate` is true, else `no`.
struct BranchStep {
  SlotId predicate = -1;
  Callee yes, no;
  std::vector<SlotId> results;
};

// As long as the only element of `condition`'s output is true, `body` gives new values for the
// carried tensors. The results are memory of their own, also where the body never ran.
struct LoopStep {
  Callee condition, body;
  std::vector<SlotId> carried, results;
};

// The symbol gets its value: the slot's size in dimension `dim`, or its only element (dim -1). One
// outside of the symbol's range is a failure.
struct ReadStep {
  SlotId slot = -1;
  int32_t dim = -1;
  int32_t symbol = -1;
};

// Sizes and strides of what the slot holds are other than its type's: a failure.
struct ExpectStep {
  SlotId slot = -1;
};

// The condition does not hold: a failure.
struct AssertStep {
  sym::Condition condition;
};

using Step = std::variant<KernelStep, ExternStep, CopyStep, FreeStep, AllocateStep, CallStep,
                          BranchStep, LoopStep, ReadStep, ExpectStep, AssertStep>;
bool is_control(const Step& step);  // CallStep and those behind it in the list
// Every slot that a step names, its results last; carried tensors (-1 - k) and unused results are
// left out.
std::vector<SlotId> slots_of(const Step& step);

}  // namespace braze::plan
