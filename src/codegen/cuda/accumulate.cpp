#include "codegen/cuda/accumulate.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "codegen/cuda/operators.h"

namespace braze::codegen::cuda {
namespace {

using graph::DType;
using loop::Statement;
using loop::StoreOp;

// The last axis that neighbouring threads or lanes differ in; -1: there is none.
int last_axis(const Nest& nest) {
  const int end =
      nest.shape == Shape::kPoints ? nest.outer_count : static_cast<int>(nest.extent.size());
  for (int axis = end; axis-- > 0;)
    if (!cpp::is_trivial(nest.extent[axis])) return axis;
  return -1;
}

bool depends_on(const Affine& index, int axis) {
  AxesOf axes_of(/*reduced=*/~uint64_t{0});
  return std::ranges::any_of(index.terms,
                             [&](const auto& term) { return axes_of(term.first) >> axis & 1; });
}

// Whether neighbours along the axis add to neighbours.
bool adds_rows(const Nest& nest, const Statement& s, int axis) {
  const Affine index = affine_of(s.index, nest.extent);
  return axis >= 0 && index.stride(axis) == sym::Int(1) && !depends_on(index, axis);
}

const OwnPart* own_part(const Nest& nest, int buffer) {
  const auto part = std::ranges::find(nest.own_parts, buffer, &OwnPart::buffer);
  return part == nest.own_parts.end() ? nullptr : &*part;
}

// The elements that a store adds to, where they are known to be few; 0: they are not.
int64_t few_elements(const Statement& s) {
  constexpr int64_t kMost = 4096;
  const loop::Range range = s.index->range;
  return !s.index->symbolic && range.lo >= 0 && range.hi < kMost ? range.hi + 1 : 0;
}

// What a block adds up in: counts are words, whatever they are counted in.
std::string type_of_part(const Statement& s, bool counts_in_words) {
  const DType dtype = s.value->dtype;
  const loop::Range range = s.value->range;
  const bool counts = !graph::is_float(dtype) && range.lo >= 0 && range.hi <= 1;
  return counts && counts_in_words ? "u32" : type_of(dtype);
}

// Whether a block counts in words.
bool is_count(const Nest& nest, const Statement& s) {
  const OwnPart* part = own_part(nest, s.buffer);
  return part && part->type == "u32";
}

// How many neighbours lie side by side before the next ones may add to the same places; 0: as many
// as a warp has, so that none of its threads meet.
int columns_of(const Nest& nest, const Statement& s) {
  if (nest.shape != Shape::kPoints) return 0;
  const int axis = last_axis(nest);
  if (axis < 0) return 0;
  if (!adds_rows(nest, s, axis)) return 1;
  const sym::Int extent = nest.extent[axis];
  const int64_t steps = (axis == nest.vector_axis ? nest.packs(extent) : extent).hint();
  if (steps >= kThreadsOfWarp) return 0;
  return std::has_single_bit(static_cast<uint64_t>(steps)) ? static_cast<int>(steps) : 1;
}

std::string name_of(const Nest& nest, const Statement& s) {
  return (own_part(nest, s.buffer) ? "part" : "p") + std::to_string(s.buffer);
}

std::string type_added(const Nest& nest, const Statement& s) {
  const OwnPart* part = own_part(nest, s.buffer);
  return part ? part->type : type_of(s.value->dtype);
}

std::string_view function_of(StoreOp op) {
  switch (op) {
    case StoreOp::kAdd:
      return "add_to";
    case StoreOp::kMul:
      return "multiply_to";
    case StoreOp::kMin:
      return "least_to";
    case StoreOp::kMax:
      return "most_to";
    case StoreOp::kSet:
    case StoreOp::kLast:
    case StoreOp::kPart:
      break;
  }
  BRAZE_UNREACHABLE(to_string(op), " combines nothing");
}

std::string type_of_places(const Statement& s) {
  const loop::Range range = s.index->range;
  return range.lo >= 0 && range.hi <= INT32_MAX && !s.index->symbolic ? "i32" : "i64";
}

}  // namespace

void plan_own_parts(Nest& nest, const target::Cuda& cuda) {
  constexpr int64_t kMostBytes = 32 * 1024;
  constexpr int64_t kBytesOfProcessor = 192 * 1024;
  constexpr int64_t kPointsPerElement = 8;  // of a block, which adds each of its elements once more
  constexpr int64_t kEnoughBlocks = 8;      // with fewer, one might count further than a word does
  if (nest.shape != Shape::kPoints) return;
  const int axis = last_axis(nest);
  int64_t bytes = 0, most = 0;
  std::vector<const Statement*> sums;
  for (const Statement& s : nest.kernel->body) {
    if (!s.combines()) continue;
    const int64_t elements = few_elements(s);
    // Packs are added fast enough, and others cannot be where the elements are.
    const bool packs =
        s.value->dtype == DType::kFloat32 && nest.adds_packs && adds_rows(nest, s, axis);
    const bool alone = std::ranges::count_if(nest.kernel->body, [&](const Statement& other) {
                         return other.is_store() && other.buffer == s.buffer;
                       }) == 1;
    if (s.store != StoreOp::kAdd || elements == 0 || packs || !alone) continue;
    sums.push_back(&s);
    bytes += elements * graph::size_of(s.value->dtype);
    most = std::max(most, elements);
  }
  if (sums.empty() || bytes > kMostBytes) return;
  const int64_t resident = std::min<int64_t>(cuda.resident_threads / kThreadsOfBlock,
                                             kBytesOfProcessor / std::max<int64_t>(bytes, 1));
  const int64_t blocks =
      std::min(cuda.processors * resident, nest.outer_points().hint() / (kPointsPerElement * most));
  if (blocks < cuda.processors) return;
  const sym::Int points = nest.outer_points();
  const bool in_words =
      blocks >= kEnoughBlocks || (points.is_constant() && points.constant() <= INT32_MAX);
  nest.most_blocks = blocks;
  for (const Statement* s : sums)
    nest.own_parts.push_back({s->buffer, few_elements(*s), type_of_part(*s, in_words)});
}

int lanes_of_sums(const Nest& nest, int axis, int lanes) {
  for (const Statement& s : nest.kernel->body) {
    if (!s.combines() || own_part(nest, s.buffer)) continue;
    const Affine index = affine_of(s.index, nest.extent);
    if (index.stride(axis) == sym::Int(0)) continue;
    if (s.store != StoreOp::kAdd || s.value->dtype != DType::kFloat32 || !nest.adds_packs) return 1;
  }
  return lanes;
}

bool adds_packs(const Nest& nest, const Statement& s) {
  return s.store == StoreOp::kAdd && s.value->dtype == DType::kFloat32 && nest.adds_packs &&
         nest.lanes > 1 && !own_part(nest, s.buffer) &&
         is_pack(affine_of(s.index, nest.extent), nest.vector_axis, nest.lanes);
}

bool adds_lanes(const Nest& nest, const Statement& s) {
  return s.store == StoreOp::kAdd && !is_count(nest, s);
}

std::string accumulation(const Nest& nest, const Statement& s, const std::string& index,
                         const std::string& value) {
  const std::string memory = name_of(nest, s), type = type_added(nest, s);
  if (is_count(nest, s)) {
    const std::string one = "add_to(" + memory + " + " + index + ", 1u);";
    return s.value->is_constant() && s.value->ival == 1 ? one : "if (" + value + " != 0) " + one;
  }
  const int columns = columns_of(nest, s);
  if (s.store == StoreOp::kAdd && columns > 0)
    return "add_together<" + std::to_string(columns) + ">(" + memory + ", " + index + ", (" + type +
           ")" + value + ");";
  return std::string(function_of(s.store)) + "(" + memory + " + " + index + ", (" + type + ")" +
         value + ");";
}

std::vector<std::string> arrays_of_sums(const Nest& nest, const Statement& s,
                                        const std::string& out, const std::string& places) {
  const std::string lanes = "[" + std::to_string(nest.lanes) + "];";
  std::vector<std::string> lines = {type_added(nest, s) + " " + out + lanes};
  if (!adds_packs(nest, s)) lines.push_back(type_of_places(s) + " " + places + lanes);
  return lines;
}

std::string sums_of_lanes(const Nest& nest, const Statement& s, const std::string& out,
                          const std::string& places, const std::string& base,
                          const std::string& count) {
  const std::string memory = name_of(nest, s);
  if (adds_packs(nest, s)) {
    const int columns = columns_of(nest, s);
    const std::string function =
        columns > 0 ? "add_pack_together<" + std::to_string(columns) + ">(" : "add_pack(";
    return function + memory + " + " + base + ", " + out + count + ");";
  }
  const std::string function = own_part(nest, s.buffer) ? "add_all<false>(" : "add_all<true>(";
  return function + memory + ", " + places + ", " + out + count + ");";
}

std::vector<std::string> with_own_parts(const Nest& nest, const std::string& loop,
                                        const std::vector<std::string>& body) {
  std::vector<std::string> lines;
  const auto for_each_element = [&](const OwnPart& part, const std::string& what) {
    lines.push_back("for (u32 i = threadIdx.x; i < " + std::to_string(part.elements) +
                    "u; i += " + std::to_string(kThreadsOfBlock) + "u) " + what);
  };
  const auto name = [](const OwnPart& part) { return "part" + std::to_string(part.buffer); };
  for (const OwnPart& part : nest.own_parts) {
    lines.push_back("__shared__ " + part.type + " " + name(part) + "[" +
                    std::to_string(part.elements) + "];");
    for_each_element(part, name(part) + "[i] = 0;");
  }
  lines.push_back("__syncthreads();");
  lines.push_back(loop + " {");
  for (const std::string& line : body) lines.push_back("  " + line);
  lines.push_back("}");
  lines.push_back("__syncthreads();");
  for (const OwnPart& part : nest.own_parts) {
    const std::string own = name(part) + "[i]", buffer = std::to_string(part.buffer);
    const std::string type = type_of(nest.kernel->params[part.buffer].dtype);
    for_each_element(
        part, "if (" + own + " != 0) add_to(p" + buffer + " + i, (" + type + ")" + own + ");");
  }
  return lines;
}

}  // namespace braze::codegen::cuda
