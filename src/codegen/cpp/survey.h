// What a kernel reads, writes and computes at each point, as its plan (nest.h) asks for it.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/cpp/affine.h"
#include "loop/ir.h"

namespace braze::codegen::cpp {

// One load or store of the kernel.
struct Access {
  int buffer = -1;
  bool store = false;
  bool inner = false;  // happens at inner points
  bool guarded = false;
  Affine index;
};

struct Survey {
  std::vector<Access> accesses;
  std::vector<Affine> elements;       // whose random numbers are taken
  std::vector<loop::ExprRef> values;  // distinct expressions outside of index position
  std::vector<bool> used_as_value;    // by axis
  int64_t operations = 0;             // weighted arithmetic for one inner point
};

Survey survey(const loop::Kernel& kernel, const sym::Dims& extent);

// Axes that `expr` mentions; those inside the index of a load only where asked.
void note_axes(loop::ExprRef expr, bool through_loads, std::vector<bool>& axes);

// Whether an index is not linear along that axis.
bool opaque_along(const Affine& index, int axis, size_t axes);

// Points of the axes from `first` to before `last` for the sizes seen when traced.
int64_t product(const sym::Dims& extent, int first, int last);

}  // namespace braze::codegen::cpp
