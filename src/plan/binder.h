// The numbers of a plan with symbols, for the values that a call brings.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "base/arena_layout.h"
#include "plan/plan.h"

namespace braze::plan {

// The values of symbols are outside of what the plan is for: run the call in eager.
class Unbindable : public std::exception {
 public:
  const char* what() const noexcept override { return "sizes outside of what a plan is for"; }
};

// What depends on the values of the symbols, and nothing else: some numbers for each slot and step.
struct Numbers {
  struct Slot {
    int64_t byte_offset = 0;  // as Slot::byte_offset and Slot::bytes of a plan of numbers
    int64_t bytes = 0;
  };
  struct Work {
    int64_t extent = 1, grain = 1;
  };
  std::vector<Slot> slots;
  std::vector<int64_t> dims;          // sizes and then strides of slot 0, of slot 1, ...
  std::vector<int64_t> kernel_sizes;  // of kernel 0, of kernel 1, ...
  std::vector<Work> work;             // by step; of those that call a kernel
  std::vector<int64_t> values;        // of the plan's expressions: Binder::number
  int64_t arena_bytes = 0;
};

// Works out the numbers of a plan, which it refers to. A plan of numbers has its own. Safe to use
// from many threads.
class Binder {
 public:
  explicit Binder(const Plan& plan);

  // symbols[i]: the value of symbol i. The arena is laid out by liveness for these sizes. Throws
  // Unbindable.
  Numbers numbers(std::span<const int64_t> symbols) const;
  // An expression of the plan.
  int64_t number(sym::Int value, const Numbers& numbers) const;

  // Where the numbers of a slot or kernel begin in Numbers::dims and ::kernel_sizes.
  size_t first_dim(SlotId slot) const { return first_dim_[slot]; }
  size_t first_kernel_size(int32_t kernel) const { return first_kernel_size_[kernel]; }

  // The same slots, steps and kernels with all expressions evaluated; without source, compiler
  // flags and origins. Throws Unbindable.
  Plan bind(std::span<const int64_t> symbols) const;

 private:
  struct Group {  // slots that share a place, and when
    std::vector<SlotId> slots;
    int begin = 0, end = 0;
  };
  // A number, or the place of an expression in Numbers::values.
  struct Place {
    int64_t constant = 0;
    int32_t value = -1;
    int64_t in(const Numbers& numbers) const {
      return value < 0 ? constant : numbers.values[value];
    }
  };
  Place place(sym::Int value) const;
  void find_groups();
  void find_places();
  void evaluate(std::span<const int64_t> symbols, Numbers& numbers) const;
  void place_slots(Numbers& numbers) const;

  const Plan& plan_;
  std::vector<const sym::Expr*> exprs_;  // in order of creation: operands first
  std::vector<int32_t> index_of_id_;     // into exprs_
  std::vector<Group> groups_;
  std::vector<size_t> first_dim_, first_kernel_size_;
  std::vector<Place> dims_, kernel_sizes_, limits_, offsets_;  // offsets_: by slot, of its type
  std::vector<std::pair<Place, Place>> work_;                  // extent and grain by step
};

Plan bind(const Plan& plan, std::span<const int64_t> values);
// The values seen when the graph was traced.
std::vector<int64_t> hints(const Plan& plan);

}  // namespace braze::plan
