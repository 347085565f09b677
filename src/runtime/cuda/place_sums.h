// Sums of rows by place on a GPU, in a fixed order, so that the same call gives the same bits: the
// gradient of a table's rows (embedding) and of an indexed tensor.
//
// Instead of a sort: each place gets a list of the rows that are added to it, made by an exchange
// for each row, in whatever order threads come (link). A thread for each place walks its list and
// writes the rows' numbers in ascending order (order); lists of more than kShort rows are left out.
// Then threads for each row of the result add up those of its list (sum), and blocks of their own
// do the long lists: they look through all places for theirs, in order, and share the rows out by
// their number in the list.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace braze::runtime::cuda {

enum class SummedType : uint8_t { kFloat16, kBFloat16, kFloat32, kFloat64 };

// What a program for such sums is made for.
struct PlaceSumKind {
  SummedType type = SummedType::kFloat32;
  bool wide_places = true;  // of 64 bits, else 32
  int pack = 1;             // elements of a row that a thread takes: 1, or those of 16 bytes
  int outer = 1;            // matrices that a thread takes
  bool wide = false;        // places in memory, by elements, need 64 bits
  friend auto operator<=>(const PlaceSumKind&, const PlaceSumKind&) = default;
};

// CUDA C++ with the kernels `link_places`, `order_places` and `sum_places`.
std::string place_sum_source(const PlaceSumKind& kind);

// source: [outer, count, inner], contiguous; place: [count]; out: [outer, rows, inner], contiguous.
// Halves are added up in single precision.
struct PlaceSum {
  PlaceSumKind kind;
  int device = 0;
  int64_t outer = 1, count = 0, rows = 0, inner = 1;
  int64_t skipped = -1;  // rows with this place are not added
  bool refuses = false;  // a place that is none: an error of the device, else it is skipped
  const void *source = nullptr, *place = nullptr;
  const void* base = nullptr;  // laid out as `out`: what the rows are added to; null: zeros
  void* out = nullptr;
  // rows + place_sum_counters() zeros; rows * 2, count and count words.
  void *heads = nullptr, *ranges = nullptr, *next = nullptr, *order = nullptr;
};

constexpr int64_t place_sum_counters() { return 2; }

// The widest pack with which the call can be done.
int place_sum_pack(SummedType type, int64_t inner, std::span<const void* const> memory);

// Whether this process can do them: there are a driver and NVRTC.
bool knows_place_sums();

// Puts the kernels on the stream, compiled at the first call of their kind. InternalError with the
// compiler's or the driver's words.
void sum_by_place(const PlaceSum& sum, void* stream);

}  // namespace braze::runtime::cuda
