// Matrix products. Their results are row-major but for grouped ones.
#include "graph/infer/call.h"

namespace braze::graph {
namespace {

using sym::Int;

// An addend that is repeated to the sizes of the product.
bool broadcasts_to(const TensorType& addend, std::span<const Int> sizes, SizeQuestions& ask) {
  if (addend.sizes.size() > sizes.size()) return false;
  const size_t first = sizes.size() - addend.sizes.size();
  for (size_t i = 0; i < addend.sizes.size(); ++i)
    if (addend.sizes[i] != Int(1) && !ask.fit(addend.sizes[i], sizes[first + i])) return false;
  return true;
}

bool mm(const InferCall& call) {
  const TensorType &a = call.tensor(0), &b = call.tensor(1);
  if (a.rank() != 2 || b.rank() != 2 || !call.ask.fit(a.sizes[1], b.sizes[0])) return false;
  return call.give_fresh({a.sizes[0], b.sizes[1]}, a.dtype, a.device);
}

bool mv(const InferCall& call) {
  const TensorType &a = call.tensor(0), &b = call.tensor(1);
  if (a.rank() != 2 || b.rank() != 1 || a.dtype != b.dtype) return false;
  if (!call.ask.fit(a.sizes[1], b.sizes[0])) return false;
  return call.give_fresh({a.sizes[0]}, a.dtype, a.device);
}

bool dot(const InferCall& call) {
  const TensorType &a = call.tensor(0), &b = call.tensor(1);
  if (a.rank() != 1 || b.rank() != 1 || a.dtype != b.dtype) return false;
  if (!call.ask.fit(a.sizes[0], b.sizes[0])) return false;
  return call.give_fresh({}, a.dtype, a.device);
}

bool bmm(const InferCall& call) {
  const TensorType &a = call.tensor(0), &b = call.tensor(1);
  if (a.rank() != 3 || b.rank() != 3 || !call.ask.fit(a.sizes[0], b.sizes[0]) ||
      !call.ask.fit(a.sizes[2], b.sizes[1]))
    return false;
  return call.give_fresh({a.sizes[0], a.sizes[1], b.sizes[2]}, a.dtype, a.device);
}

// bias, mat1, mat2
bool addmm(const InferCall& call) {
  const TensorType &a = call.tensor(1), &b = call.tensor(2);
  if (a.rank() != 2 || b.rank() != 2 || !call.ask.fit(a.sizes[1], b.sizes[0])) return false;
  return call.give_fresh({a.sizes[0], b.sizes[1]}, a.dtype, a.device);
}

// addend, batch1, batch2
bool baddbmm(const InferCall& call) {
  const TensorType &a = call.tensor(1), &b = call.tensor(2);
  if (a.rank() != 3 || b.rank() != 3 || !call.ask.fit(a.sizes[0], b.sizes[0]) ||
      !call.ask.fit(a.sizes[2], b.sizes[1]))
    return false;
  sym::Dims sizes{a.sizes[0], a.sizes[1], b.sizes[2]};
  if (!broadcasts_to(call.tensor(0), sizes, call.ask)) return false;
  return call.give_fresh(std::move(sizes), a.dtype, a.device);
}

// input, weight, bias
bool linear(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  sym::Dims sizes = input.sizes;
  if (sizes.empty()) return false;
  sizes.back() = call.tensor(1).sizes.at(0);
  return call.give_fresh(std::move(sizes), input.dtype, input.device);
}

// Groups of rows (or columns) of one matrix by the offsets, or a batch; the rows of the result are
// padded to 16 bytes. PyTorch's CPU kernel loops over the offsets' data.
bool grouped_mm(const InferCall& call) {
  const TensorType &a = call.tensor(0), &b = call.tensor(1);
  const TensorType* offsets = call.optional(2);
  const bool a_is_2d = a.rank() == 2, b_is_2d = b.rank() == 2;
  if ((!a_is_2d && a.rank() != 3) || (!b_is_2d && b.rank() != 3)) return false;
  if ((a_is_2d || b_is_2d) != (offsets != nullptr)) return false;
  if (a.dtype != b.dtype || !is_float(a.dtype)) return false;
  const Int rows = a.sizes[a.rank() - 2], columns = b.sizes.back();
  const bool inner = !(a_is_2d && b_is_2d);
  if (inner && !call.ask.fit(a.sizes.back(), b.sizes[b.rank() - 2])) return false;
  TensorType type;
  if (a_is_2d && b_is_2d)
    type.sizes = {offsets->sizes.at(0), rows, columns};
  else if (a_is_2d || b_is_2d)
    type.sizes = {rows, columns};
  else
    type.sizes = {a.sizes[0], rows, columns};
  type.dtype = call.dtype_or(4, a.dtype);
  type.device = a.device;
  const int64_t alignment = 16 / size_of(type.dtype);
  const Int row = sym::floordiv(columns + (alignment - 1), alignment) * alignment;
  type.strides = {row, 1};
  if (type.sizes.size() == 3) type.strides.insert(type.strides.begin(), type.sizes[1] * row);
  return call.give(std::move(type));
}

// Whether these are batches of points of the same space.
bool are_points(const InferCall& call, const TensorType& a, const TensorType& b) {
  return a.rank() >= 2 && b.rank() >= 2 && is_float(a.dtype) && a.dtype == b.dtype &&
         call.ask.fit(a.sizes.back(), b.sizes.back());
}

// x1, x2, ...: distances of all pairs of points.
bool distances(const InferCall& call) {
  const TensorType &a = call.tensor(0), &b = call.tensor(1);
  if (!are_points(call, a, b)) return false;
  TensorType batch_of_a, batch_of_b;
  batch_of_a.sizes.assign(a.sizes.begin(), a.sizes.end() - 2);
  batch_of_b.sizes.assign(b.sizes.begin(), b.sizes.end() - 2);
  const TensorType* batches[] = {&batch_of_a, &batch_of_b};
  auto sizes = try_broadcast(batches, call.ask);
  if (!sizes) return false;
  sizes->push_back(a.sizes[a.sizes.size() - 2]);
  sizes->push_back(b.sizes[b.sizes.size() - 2]);
  return call.give_fresh(std::move(*sizes), a.dtype, a.device);
}

// grad, x1, x2, p, cdist: of points that are not broadcast along batches.
bool distances_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &a = call.tensor(1), &b = call.tensor(2);
  if (!are_points(call, a, b) || a.rank() != b.rank() || grad.rank() != a.rank() ||
      grad.dtype != a.dtype)
    return false;
  const size_t batches = a.sizes.size() - 2;
  const auto batch_of = [&](const TensorType& type) {
    return std::span(type.sizes).first(batches);
  };
  return call.ask.all_fit(batch_of(grad), batch_of(a)) &&
         call.ask.all_fit(batch_of(grad), batch_of(b)) &&
         call.ask.fit(grad.sizes[batches], a.sizes[batches]) &&
         call.ask.fit(grad.sizes.back(), b.sizes[batches]) &&
         call.give_fresh(a.sizes, a.dtype, a.device);
}

constexpr InferEntry kMatrixRules[] = {
    {"aten._cdist_forward", distances, InferUse::kAlways},
    {"aten._cdist_backward", distances_backward, InferUse::kAlways},
    {"aten._grouped_mm", grouped_mm, InferUse::kAlways},
    {"aten.mm", mm},
    {"aten.mv", mv},
    {"aten.dot", dot},
    {"aten.vdot", dot},
    {"aten.bmm", bmm},
    {"aten.addmm", addmm},
    {"aten.baddbmm", baddbmm},
    {"aten.linear", linear, InferUse::kPasses},
};

}  // namespace

std::span<const InferEntry> infer_matrix() { return kMatrixRules; }

}  // namespace braze::graph
