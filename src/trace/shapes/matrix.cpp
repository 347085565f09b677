// Matrix products.
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

constexpr NamedShape kShapes[] = {
    {"mm", mm, true},
    {"bmm", bmm, true},
    {"addmm", addmm, true},
};

}  // namespace

std::span<const NamedShape> matrix_shapes() { return kShapes; }

}  // namespace braze::trace
