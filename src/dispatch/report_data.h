// Texts and times of one compile, for `explain` and logs.
#pragma once

#include <cstdint>
#include <string>

namespace braze::dispatch {

struct Report {
  std::string graph, schedule, plan, code;
  double capture = 0, trace = 0, passes = 0, lower = 0, schedule_time = 0, codegen = 0, build = 0,
         total = 0;
  bool from_cache = false;
  int64_t bytecodes = 0, nodes = 0, guard_count = 0;
};

}  // namespace braze::dispatch
