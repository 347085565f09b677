// The Python frames under evaluation.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "capture/frames/frame.h"

namespace braze::capture {

class FrameStack {
 public:
  FrameStack();
  FrameStack(const FrameStack&) = delete;

  // The innermost frame; null: none.
  Frame* top() const { return top_; }
  int depth() const { return depth_; }
  // Python's or the C stack's limit is reached.
  bool is_full() const;

  // A frame of the code with nothing in it, one that is spare if there is.
  std::unique_ptr<Frame> make(const CodeInfo& info);
  void recycle(std::unique_ptr<Frame> frame);
  void drop_spare() { spare_.clear(); }

  // While it lives, the frame is the innermost.
  class Entered {
   public:
    Entered(FrameStack& frames, Frame& frame) : frames_(frames) {
      frame.back = back_ = std::exchange(frames.top_, &frame);
      ++frames.depth_;
    }
    ~Entered() {
      frames_.top_ = back_;
      --frames_.depth_;
    }
    Entered(const Entered&) = delete;

   private:
    FrameStack& frames_;
    Frame* back_;
  };

 private:
  Frame* top_ = nullptr;
  int depth_ = 0;
  std::vector<std::unique_ptr<Frame>> spare_;
  const char* stack_limit_;
};

}  // namespace braze::capture
