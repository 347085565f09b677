// Where the points of a kernel read and write.
#pragma once

#include <unordered_set>
#include <vector>

#include "codegen/cuda/nest.h"

namespace braze::codegen::cuda {

struct Access {
  Affine index;
  int64_t bytes = 1;  // of an element
  bool inner = false;
};

class Accesses {
 public:
  explicit Accesses(const Nest& nest);

  std::vector<Access> all;          // loads that are made in any case, and stores
  std::vector<Access> under_masks;  // further loads

 private:
  void add(std::vector<Access>& list, loop::ExprRef index, graph::DType dtype);
  void collect(loop::ExprRef expr);
  void collect_masked(loop::ExprRef expr);

  const Nest& nest_;
  bool inner_ = false;
  std::unordered_set<loop::ExprRef> seen_, masked_;
};

inline bool steps_by_one(const Access& access, int axis) {
  return axis >= 0 && access.index.stride(axis) == sym::Int(1);
}

// Whether an expression may be evaluated anywhere: it reads and checks nothing.
bool is_of_axes(loop::ExprRef expr);

// Of so many lanes as many as pay where points read windows along the axis, which no packs are
// loaded for: the places that neighbouring threads read at a time are so near that few lines of the
// cache hold them.
int lanes_of_windows(const Accesses& accesses, int axis, int lanes);

}  // namespace braze::codegen::cuda
