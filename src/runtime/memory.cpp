#include "runtime/memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <vector>

#include "runtime/memory_meter.h"
#include "runtime/regions.h"

namespace braze::runtime {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHeader = 64;  // keeps the payload aligned
constexpr int64_t kSmallest = 64;
constexpr int kSmallClasses = 11;          // payloads of 64 B .. 64 KiB in powers of two
constexpr int kSmallKept = 64;             // blocks of one class that a thread keeps
constexpr int64_t kLeastIdle = 8ll << 20;  // of large blocks
constexpr int kIdleShare = 4;              // of the machine's memory they are at most this part
#ifdef __SANITIZE_ADDRESS__
constexpr bool kPools = false;  // what is freed is seen to be
#else
constexpr bool kPools = true;
#endif

struct Header {
  int64_t payload;  // bytes behind the header
  int size_class;   // -1: large
  Header* next;     // of a list of small blocks
};
static_assert(sizeof(Header) <= kHeader);

void* payload_of(Header* header) { return reinterpret_cast<char*>(header) + kHeader; }
Header* header_of(void* payload) {
  return reinterpret_cast<Header*>(static_cast<char*>(payload) - kHeader);
}

Header* new_block(int64_t payload, int size_class) {
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, payload + kHeader) != 0) throw std::bad_alloc();
  return new (memory) Header{payload, size_class, nullptr};
}

struct SmallBlocks {
  std::array<Header*, kSmallClasses> head{};
  std::array<int, kSmallClasses> count{};
  bool alive = true;
  ~SmallBlocks() {
    alive = false;
    for (Header*& list : head)
      while (list) {
        Header* next = list->next;
        std::free(list);
        list = next;
      }
  }
};
thread_local SmallBlocks small_blocks;

Regions& regions() {
  static auto* regions = [] {
    const int64_t memory = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    return new Regions(kLeastIdle, std::max(kLeastIdle, memory / kIdleShare));
  }();  // outlives tensors that die at exit
  return *regions;
}

// glibc maps a block above its threshold (128 KiB at first) anew and unmaps it when it is freed,
// until such a free raises the threshold to that block's size (mallopt(3), M_MMAP_THRESHOLD). The
// libraries behind extern calls take megabytes of scratch memory in each, so the first call of a
// program would fault the same memory in twice. One free of a large block, never touched, is what
// an eager call would have done by freeing its intermediates.
void raise_mmap_threshold() {
  constexpr size_t kLargestScratch = 16 << 20;
  static const bool raised = [] {
    void* volatile block = std::malloc(kLargestScratch);  // volatile: the pair is not optimised out
    std::free(block);
    return true;
  }();
  (void)raised;
}

int size_class_of(int64_t bytes) {
  if (bytes <= kSmallest) return 0;
  int size_class = 58 - __builtin_clzll(static_cast<uint64_t>(bytes) - 1);
  return size_class < kSmallClasses ? size_class : -1;
}

void* take_block(int64_t bytes) {
  if (!kPools) return payload_of(new_block(bytes, 0));
  int size_class = size_class_of(bytes);
  if (size_class >= 0) {
    SmallBlocks& blocks = small_blocks;
    if (Header* header = blocks.head[size_class]) {
      blocks.head[size_class] = header->next;
      --blocks.count[size_class];
      return payload_of(header);
    }
    return payload_of(new_block(kSmallest << size_class, size_class));
  }
  return payload_of(new (regions().take(bytes + kHeader)) Header{bytes, -1, nullptr});
}

void* allocate(int64_t bytes) {
  void* const payload = take_block(bytes);
  MemoryMeter::note(header_of(payload)->payload);
  return payload;
}

void release(void* payload) {
  Header* header = header_of(payload);
  MemoryMeter::note(-header->payload);
  if (!kPools) return std::free(header);
  if (header->size_class >= 0) {
    SmallBlocks& blocks = small_blocks;
    if (blocks.alive && blocks.count[header->size_class] < kSmallKept) {
      header->next = blocks.head[header->size_class];
      blocks.head[header->size_class] = header;
      ++blocks.count[header->size_class];
      return;
    }
    std::free(header);
  } else {
    regions().give(reinterpret_cast<char*>(header), header->payload + kHeader);
  }
}

at::Tensor make_tensor(c10::DataPtr data, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                       at::ScalarType dtype, int64_t bytes, c10::DispatchKey key,
                       c10::Allocator* allocator) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, std::move(data), allocator, /*resizable=*/true);
  auto tensor = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(dtype));
  tensor->set_sizes_and_strides(sizes, strides);
  return at::Tensor(std::move(tensor));
}

at::Tensor make_tensor_on(c10::Device device, c10::DataPtr data, c10::IntArrayRef sizes,
                          c10::IntArrayRef strides, at::ScalarType dtype, int64_t bytes) {
  BRAZE_CHECK(device.is_cuda(), "memory on device ", device.str());
  return make_tensor(std::move(data), sizes, strides, dtype, bytes, c10::DispatchKey::CUDA,
                     c10::GetAllocator(c10::kCUDA));
}

}  // namespace

c10::DataPtr allocate_data(int64_t bytes) {
  void* memory = allocate(bytes);
  return {memory, memory, &release, c10::Device(c10::kCPU)};
}

bool release_data(void* data) {
  if (!kPools || !regions().owns(data)) return false;
  release(data);
  return true;
}

bool is_pooled_size(int64_t bytes) { return kPools && size_class_of(bytes) < 0; }

at::Tensor allocate_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype,
                           int64_t bytes) {
  return make_tensor(allocate_data(bytes), sizes, strides, dtype, bytes, c10::DispatchKey::CPU,
                     c10::GetCPUAllocator());
}

at::Tensor number_tensor(double value) {
  at::Tensor tensor = at::detail::empty_cpu({}, at::kDouble);
  *tensor.mutable_data_ptr<double>() = value;
  return tensor;
}

at::Tensor allocate_tensor_on(c10::Device device, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                              at::ScalarType dtype, int64_t bytes) {
  if (device.is_cpu()) return allocate_tensor(sizes, strides, dtype, bytes);
  return make_tensor_on(device, c10::GetAllocator(device.type())->allocate(bytes), sizes, strides,
                        dtype, bytes);
}

at::Tensor borrow_tensor(void* data, c10::Device device, c10::IntArrayRef sizes,
                         c10::IntArrayRef strides, at::ScalarType dtype, int64_t bytes) {
  c10::DataPtr memory(data, device);
  if (!device.is_cpu())
    return make_tensor_on(device, std::move(memory), sizes, strides, dtype, bytes);
  return make_tensor(std::move(memory), sizes, strides, dtype, bytes, c10::DispatchKey::CPU,
                     c10::GetCPUAllocator());
}

at::Tensor tensor_like(const at::Tensor& tensor, c10::DataPtr data) {
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, std::move(data), tensor.storage().allocator(),
      /*resizable=*/true);
  auto made = c10::make_intrusive<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                   tensor.key_set(), tensor.dtype());
  made->set_storage_offset(tensor.storage_offset());
  made->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return at::Tensor(std::move(made));
}

Arena::Arena(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = static_cast<char*>(allocate(bytes));
  constexpr int64_t kLarge = 2 << 20;
  if (bytes >= kLarge) raise_mmap_threshold();
}
Arena::Arena(int64_t bytes, c10::Device device) : bytes_(bytes) {
  if (bytes == 0) return;
  on_device_ = c10::GetAllocator(device.type())->allocate(bytes);
  data_ = static_cast<char*>(on_device_.get());
}
Arena::~Arena() {
  if (!on_device_ && data_) release(data_);
}

std::unique_ptr<Arena> ArenaPool::take(int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    while (!idle_.empty()) {
      std::unique_ptr<Arena> arena = std::move(idle_.back());
      idle_.pop_back();
      if (arena->bytes() >= bytes) return arena;  // one that is too small has had its time
    }
  }
  return std::make_unique<Arena>(bytes);
}

void ArenaPool::give(std::unique_ptr<Arena> arena) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(arena));
}

int64_t release_pooled_memory() { return regions().release_idle(); }

}  // namespace braze::runtime
