// Texts and times of one compile, for `explain` and logs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace braze::dispatch {

// A tensor that is kept between forward and backward.
struct KeptTensor {
  std::string what, place;  // "torch.gelu f32[32, 256]", "model.py:17, layers.3"
  int64_t bytes = 0;        // 0: it lives anyway, as a result does
};

struct Report {
  std::string graph, schedule, plan, code;
  double capture = 0, trace = 0, passes = 0, lower = 0, schedule_time = 0, codegen = 0, build = 0,
         total = 0;
  bool from_cache = false;
  int64_t bytecodes = 0, nodes = 0, guard_count = 0;
  // Where it is kept:
  std::vector<KeptTensor> kept;
  int64_t backward_nodes = 0;
  int64_t launches = 0;                      // of kernels
  std::map<std::string, int64_t> operators;  // calls of PyTorch's, and of Braze's own
  int64_t arena_bytes = 0;
  // By the plan, in use at one time; of a backward with what is kept for it. 0: there is none.
  int64_t peak_bytes = 0, backward_peak_bytes = 0;
  bool is_opaque = false;  // an operator may do what is not known
};

}  // namespace braze::dispatch
