// Matrix products.
#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

void check(const c10::SymInt& a, const c10::SymInt& b) {
  TORCH_CHECK(equal(a, b), "mat1 and mat2 shapes cannot be multiplied (", a, " and ", b, ")");
}

bool mm(const ShapeCall& call) {
  const at::Tensor a = call.tensor(0), b = call.tensor(1);
  check(a.sym_size(1), b.sym_size(0));
  return call.give(fresh(Dims{a.sym_size(0), b.sym_size(1)}, a.scalar_type()));
}

bool mv(const ShapeCall& call) {
  const at::Tensor a = call.tensor(0), b = call.tensor(1);
  if (a.dim() != 2 || b.dim() != 1 || a.scalar_type() != b.scalar_type()) return false;
  check(a.sym_size(1), b.sym_size(0));
  return call.give(fresh(Dims{a.sym_size(0)}, a.scalar_type()));
}

bool dot(const ShapeCall& call) {
  const at::Tensor a = call.tensor(0), b = call.tensor(1);
  if (a.dim() != 1 || b.dim() != 1 || a.scalar_type() != b.scalar_type()) return false;
  check(a.sym_size(0), b.sym_size(0));
  return call.give(fresh(Dims{}, a.scalar_type()));
}

bool bmm(const ShapeCall& call) {
  const at::Tensor a = call.tensor(0), b = call.tensor(1);
  check(a.sym_size(0), b.sym_size(0));
  check(a.sym_size(2), b.sym_size(1));
  return call.give(fresh(Dims{a.sym_size(0), a.sym_size(1), b.sym_size(2)}, a.scalar_type()));
}

// bias, mat1, mat2
bool addmm(const ShapeCall& call) {
  const at::Tensor a = call.tensor(1), b = call.tensor(2);
  check(a.sym_size(1), b.sym_size(0));
  return call.give(fresh(Dims{a.sym_size(0), b.sym_size(1)}, a.scalar_type()));
}

// addend, batch1, batch2
bool baddbmm(const ShapeCall& call) {
  const at::Tensor addend = call.tensor(0), a = call.tensor(1), b = call.tensor(2);
  if (a.dim() != 3 || b.dim() != 3 || addend.dim() > 3) return false;
  check(a.sym_size(0), b.sym_size(0));
  check(a.sym_size(2), b.sym_size(1));
  const Dims sizes{a.sym_size(0), a.sym_size(1), b.sym_size(2)};
  for (int64_t i = 0; i < addend.dim(); ++i) {
    const c10::SymInt size = addend.sym_size(-1 - i);
    if (!is(size, 1) && !equal(size, sizes[2 - i])) return false;  // an error
  }
  return call.give(fresh(sizes, a.scalar_type()));
}

// Groups of rows (or columns) of one matrix by the offsets, or a batch; the rows of the result are
// padded to 16 bytes. PyTorch's CPU kernel loops over the offsets' data.
bool grouped_mm(const ShapeCall& call) {
  const at::Tensor a = call.tensor(0), b = call.tensor(1), offsets = call.tensor(2);
  const bool a_is_2d = a.dim() == 2, b_is_2d = b.dim() == 2;
  if ((!a_is_2d && a.dim() != 3) || (!b_is_2d && b.dim() != 3)) return false;
  if ((a_is_2d || b_is_2d) != offsets.defined()) return false;
  if (a.scalar_type() != b.scalar_type() || !at::isFloatingType(a.scalar_type())) return false;
  if (!(a_is_2d && b_is_2d)) check(a.sym_size(-1), b.sym_size(-2));
  Dims sizes;
  if (a_is_2d && b_is_2d)
    sizes = {offsets.sym_size(0), a.sym_size(0), b.sym_size(1)};
  else if (a_is_2d)
    sizes = {a.sym_size(0), b.sym_size(-1)};
  else if (b_is_2d)
    sizes = {a.sym_size(1), b.sym_size(1)};
  else
    sizes = {a.sym_size(0), a.sym_size(1), b.sym_size(-1)};
  const at::ScalarType dtype = dtype_in(call[4], a.scalar_type());
  const int64_t alignment = 16 / static_cast<int64_t>(c10::elementSize(dtype));
  const c10::SymInt row = (sizes.back() + (alignment - 1)) / alignment * alignment;
  Dims strides{row, 1};
  if (sizes.size() == 3) strides.insert(strides.begin(), sizes[1] * row);
  return call.give(make_fake(sizes, strides, dtype));
}

constexpr NamedShape kShapes[] = {
    {"_grouped_mm", grouped_mm, false},
    {"mm", mm, true},
    {"mv", mv, true},
    {"dot", dot, true},
    {"vdot", dot, true},
    {"bmm", bmm, true},
    {"addmm", addmm, true},
    {"baddbmm", baddbmm, true},
};

}  // namespace

std::span<const NamedShape> matrix_shapes() { return kShapes; }

}  // namespace braze::trace
