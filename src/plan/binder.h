// Binds a function with symbols to the values of a call: works out all sizes, strides and places.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "base/arena_layout.h"
#include "plan/function.h"

namespace braze::plan {

// The values of symbols are outside of what the function is for: run the call in eager.
class Unbindable : public std::exception {
 public:
  const char* what() const noexcept override { return "sizes outside of what a function is for"; }
};

// Where arena slots lie, and room for how many bytes they have there.
struct Layout {
  std::vector<int64_t> offset;       // by slot; of arena slots
  std::vector<int64_t> group_bytes;  // by group of slots that share a place
  int64_t arena_bytes = 0;
};

// What depends on the values of the symbols, and nothing else.
struct Numbers {
  struct Work {
    int64_t extent = 1, grain = 1;
  };
  struct Launch {
    std::array<uint32_t, 3> blocks, threads;
    uint32_t shared_bytes;
  };
  std::vector<int64_t> values;        // of the function's expressions: Binder::number
  std::vector<int64_t> dims;          // sizes and then strides of type 0, of type 1, ...
  std::vector<int64_t> type_bytes;    // extent_bytes by type
  std::vector<int64_t> kernel_sizes;  // of kernel 0, of kernel 1, ...
  std::vector<Work> work;             // by step; of those that call a kernel on a CPU
  std::vector<Launch> launches;       // of kernel steps on a GPU, in order
  std::shared_ptr<const Layout> layout;
};

// Works out the numbers of a function, to which it keeps a reference. A function without symbols
// has its numbers worked out in the same way. Safe to use from many threads.
class Binder {
 public:
  explicit Binder(const Function& function);

  // symbols[i]: the value of symbol i. `known`: a layout that is taken where there is room enough
  // in it. Otherwise the arena is laid out by liveness, with room for all that `known` has, and for
  // sizes a quarter larger if `room`. Throws Unbindable.
  Numbers numbers(std::span<const int64_t> symbols, std::shared_ptr<const Layout> known = nullptr,
                  bool room = false) const;
  // The value of an expression of the function.
  int64_t number(sym::Int value, const Numbers& numbers) const;

  // A number, or the place of an expression in Numbers::values.
  struct Place {
    int64_t constant = 0;
    int32_t value = -1;
    int64_t in(const Numbers& numbers) const {
      return value < 0 ? constant : numbers.values[value];
    }
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  // Slots have the same type where dtype, sizes and strides are the same expressions.
  int32_t type_of(SlotId slot) const { return type_of_[slot]; }
  // Where the numbers of a type or kernel begin in Numbers::dims and ::kernel_sizes.
  size_t first_dim(int32_t type) const { return first_dim_[type]; }
  size_t rank(int32_t type) const { return rank_[type]; }
  size_t first_kernel_size(int32_t kernel) const { return first_kernel_size_[kernel]; }
  // The offset of a kView slot from its base, in units that are the same for all slots of a type.
  const Place& view_offset(SlotId slot) const { return offset_[slot]; }
  int64_t view_bytes(SlotId slot, const Numbers& numbers) const {
    return offset_[slot].in(numbers)*offset_unit_[type_of_[slot]];
  }

  // The same function with all expressions evaluated, and so without symbols and conditions;
  // origins are left out. Throws Unbindable.
  Function bind(std::span<const int64_t> symbols) const;

 private:
  struct Group {  // slots that share a place, and when
    std::vector<SlotId> slots;
    std::vector<int32_t> types;  // of the slots, each once
    int begin = 0, end = 0;
  };
  Place place(sym::Int value) const;
  void find_groups();
  void find_types();
  void find_places();
  void evaluate(std::span<const int64_t> symbols, Numbers& numbers) const;
  void measure_types(Numbers& numbers) const;
  void evaluate_launches(Numbers& numbers) const;
  std::shared_ptr<const Layout> lay_out_groups(const Numbers& numbers,
                                               std::shared_ptr<const Layout> known,
                                               bool room) const;
  std::shared_ptr<const Layout> layout_of_function() const;

  const Function& function_;
  std::vector<const sym::Expr*> exprs_;  // in order of creation: operands first
  std::vector<int32_t> index_of_id_;     // into exprs_
  std::vector<Group> groups_;
  std::vector<int32_t> type_of_;                              // by slot
  std::vector<size_t> first_dim_, rank_;                      // by type
  std::vector<int64_t> element_, offset_unit_;                // by type, in bytes
  std::vector<size_t> first_kernel_size_;                     // by kernel
  std::vector<Place> dims_, kernel_sizes_, limits_, offset_;  // offset_: by slot
  std::vector<std::pair<Place, Place>> work_;                 // extent and grain by step
  std::vector<std::array<Place, 7>> launches_;  // blocks, threads, shared bytes of each grid
};

Function bind(const Function& function, std::span<const int64_t> values);
// Whether the function's conditions hold for these values of its symbols; a symbol of one that is
// out of its range is a condition that does not.
bool conditions_hold(const Function& function, std::span<const int64_t> values);
// The values seen when the graph was traced.
std::vector<int64_t> hints(const Function& function);

}  // namespace braze::plan
