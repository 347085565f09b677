#include "runtime/operator_memory.h"

#include <c10/core/CPUAllocator.h>

#include <new>

#include "runtime/memory.h"

namespace braze::runtime {
namespace {

thread_local bool is_pooled = false;

class OperatorAllocator final : public c10::Allocator {
 public:
  explicit OperatorAllocator(c10::Allocator* pytorchs) : pytorchs_(pytorchs) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (!is_pooled || !is_pooled_size(static_cast<int64_t>(bytes)))
      return pytorchs_->allocate(bytes);
    try {
      return allocate_data(static_cast<int64_t>(bytes));
    } catch (const std::bad_alloc&) {
      return pytorchs_->allocate(bytes);  // or its error
    }
  }
  // oneDNN takes its scratch memory raw and frees it by this.
  c10::DeleterFnPtr raw_deleter() const override { return &release_raw; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void release_raw(void* data) {
    if (!release_data(data)) c10::GetDefaultCPUAllocator()->raw_deallocate(data);
  }

  c10::Allocator* const pytorchs_;  // the default one
};

// For good: memory may be freed, or a storage resized, at any time. An allocator of the user's
// stays.
void install() {
  static const bool done = [] {
    c10::Allocator* const current = c10::GetCPUAllocator();
    if (current == c10::GetDefaultCPUAllocator())
      c10::SetCPUAllocator(new OperatorAllocator(current));
    return true;
  }();
  (void)done;
}

}  // namespace

OperatorMemory::OperatorMemory() : before_(is_pooled) {
  install();
  is_pooled = true;
}

OperatorMemory::~OperatorMemory() { is_pooled = before_; }

}  // namespace braze::runtime
