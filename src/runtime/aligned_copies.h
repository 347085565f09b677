// Copies of what a kernel of a GPU cannot take where it lies: its code loads and stores packs of
// elements, which must begin at whole packs. PyTorch's allocator gives no other addresses, views of
// the caller's do (`x[1:]`). torch.compile copies such inputs as well.
#pragma once

#include <vector>

#include "runtime/run_context.h"

namespace braze::runtime {

class AlignedCopies {
 public:
  // `context.kernel_args` is that of the launch, and is given the copies for as long as they live.
  AlignedCopies(const BoundFunction& bound, const PreparedFunction::GpuLaunch& launch,
                RunContext& context);
  // After the launch: what the kernel has written goes to where it belongs, elements only.
  void put_back(const RunContext& context) const;

 private:
  struct Copy {
    plan::SlotId slot;
    at::Tensor memory;
    void* data;
    bool written;
  };
  const BoundFunction& bound_;
  std::vector<Copy> copies_;  // as many as arguments, so that pointers to `data` stay
};

}  // namespace braze::runtime
