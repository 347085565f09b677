// CUDA graphs: work of a stream that is recorded once and launched as a whole from then on.
//
// PyTorch records them (torch.cuda.CUDAGraph), as its allocator and its random generators take
// part: what is allocated meanwhile comes from a pool that serves graphs alone, and a graph draws
// the random numbers that eager would. That class is reached through Python, which the run time is
// linked without, so who records is installed from outside.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace braze::runtime::cuda {

// One graph, from the beginning of its recording on. All may throw but where it says so.
class Recording {
 public:
  virtual ~Recording() = default;
  // The end of the recording, as of which the thread is on the stream that it was on before.
  // has_numbers: nodes will be given other arguments.
  virtual void finish(bool has_numbers) = 0;
  // Ends one that cannot be finished and puts back what it has changed.
  virtual void abandon() noexcept = 0;
  // On the thread's current stream.
  virtual void launch() = 0;
  // Of one with numbers: the CUgraphExec, null where PyTorch does not give it away.
  virtual void* executable() const = 0;
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual c10::DeviceType device_type() const = 0;
  // What this thread gives its current stream is recorded from now on; until then it is another
  // stream than before. Null: not now. `steps` does what is going to be recorded, with the same
  // inputs and results.
  virtual std::unique_ptr<Recording> begin(c10::Device device, std::function<void()> steps) = 0;
  // Whether somebody records what the stream is given.
  virtual bool is_recording(void* stream) const = 0;
  // Copies within the device, in the order of the thread's current stream, `stream`.
  virtual void copy(void* target, const void* source, int64_t bytes, void* stream) const = 0;
};

// Null: there is none. One that is installed stays.
Recorder* recorder();
void install(std::unique_ptr<Recorder> recorder);

}  // namespace braze::runtime::cuda
