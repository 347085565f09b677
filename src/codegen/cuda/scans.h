// Scans: how the points of a kernel with some are spread over threads, and the walks that do them.
//
// The threads that share an outer point walk its inner points in tiles. Of a tile each has several
// points in registers: it makes the running results of its own, the threads tell each other what
// theirs come to, and what is in front of each is put in front of its own. So each element is read
// once. Which elements are combined first follows from the inner points and the dtypes alone: not
// from how many outer points there are.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/cuda/expression.h"
#include "codegen/cuda/nest.h"

namespace braze::codegen::cuda {

bool has_scans(const loop::Kernel& kernel);
// Calls `visit` for the expression and all below it, each once, and for the values of the scans
// that it sees.
void for_each_below(const loop::Kernel& kernel, loop::ExprRef expr,
                    const std::function<void(loop::ExprRef)>& visit);
// The scans that statements see, in order: each walk does those that it needs.
std::vector<const loop::Statement*> scans_of(const loop::Kernel& kernel,
                                             const std::vector<const loop::Statement*>& statements);

// Of a nest whose shape and lanes are known: the threads, and what each has at a time.
void plan_scans(Nest& nest, const target::Cuda& cuda);

struct ScanWalk {
  const Nest& nest;
  ExpressionWriter& writer;
  std::string type;            // of a step's number: "u32" or "u64"
  std::string end;             // number of steps
  std::function<void()> bind;  // declares the axes at `step`
  std::function<void()> run;   // writes what sees the scans, at `step`
};
void write_scans(const ScanWalk& walk, const std::vector<const loop::Statement*>& scans);

}  // namespace braze::codegen::cuda
