// Histories that hold their own tensor: of `t[:, :4].mul_(t[:, 4:])` the node of `t` keeps a view
// of `t`. Eager leaves such a cycle behind; of a trace nothing may be left.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace braze::trace {

class HistoryCycles {
 public:
  // `begin`: nodes with a lower sequence number are from before the trace.
  explicit HistoryCycles(uint64_t begin) : begin_(begin) {}
  ~HistoryCycles();
  HistoryCycles(const HistoryCycles&) = delete;

  // A result that autograd has given its history, or not. Only a view that was written to matters.
  void note(const at::Tensor& result);

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl>;
  const uint64_t begin_;
  std::vector<Weak> bases_;
};

}  // namespace braze::trace
