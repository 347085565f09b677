// How far the root frame of a trace has come, and where it ended.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "capture/frames/frame.h"

namespace braze::capture {

struct RootProgress {
  // The number of instructions of the root frame before which to stop; -1: it does not.
  int64_t stop_at = -1;
  // It has stopped there, or the trace is over.
  bool stopped = false;
  std::unique_ptr<Frame> stopped_frame;
  // Where in the root frame the break happened: instructions executed, the breaking one included.
  int64_t break_at = -1;
  // The instruction where it happened (index), and those of the root frame that were carried out.
  int break_index = -1;
  std::vector<bool> path;
  // As break_at, of the exceptions that the root frame is handling, outermost first, and of the one
  // that it handled last.
  std::vector<int64_t> handling;
  int64_t last_handled = -1;

  // Of the outermost exception that the root frame is handling, or handled last; -1: none.
  int64_t handling_since() const { return handling.empty() ? last_handled : handling.front(); }
};

}  // namespace braze::capture
