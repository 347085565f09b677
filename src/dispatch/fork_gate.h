// os.fork() and captures: either waits, a second at most, while another thread is in the other.
//
// PyTorch's functions release the GIL, so a thread that forks may catch another one in the midst of
// PyTorch's code: while it initialises a static variable, or registers a destructor, both of which
// no thread of the child would ever end. A capture calls many of them for the first time.
#pragma once

namespace braze::dispatch {

// Made and destroyed with the GIL, which is released for as long as another thread forks.
class CaptureStretch {
 public:
  CaptureStretch();
  ~CaptureStretch();
  CaptureStretch(const CaptureStretch&) = delete;
};

// Registers with os.register_at_fork(). False: an exception is pending.
bool initialize_fork_gate();

}  // namespace braze::dispatch
