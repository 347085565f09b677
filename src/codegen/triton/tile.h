// The block of points that a program of Triton's has at a time.
#pragma once

#include "codegen/cuda/nest.h"

namespace braze::codegen::triton {

// kLine: points in row-major order. kSquare: points along two axes, one of which is read or
// written side by side where the other is not. kRows, kColumns: outer points with their inner ones,
// of which the inner, or the outer, lie side by side.
enum class Form : uint8_t { kLine, kSquare, kRows, kColumns };

struct Tile {
  Form form = Form::kLine;
  int outer = 1;      // points; of kSquare: along nest.tile.axis
  int inner = 1;      // of kRows and kColumns; of kSquare: along nest.tile.last
  bool whole = true;  // all inner points are there at once, else they are walked over
  int warps = 8;

  // Rows one by one: what does not depend on inner axes is a scalar.
  bool is_row() const { return form == Form::kRows && outer == 1; }
};

// Of a nest without clusters.
Tile plan_tile(const cuda::Nest& nest);

}  // namespace braze::codegen::triton
