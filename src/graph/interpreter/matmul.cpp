#include "graph/interpreter/interpreter.h"
#include "graph/op_kind.h"

namespace braze::graph::interpreter {
namespace {

using Index = std::vector<int64_t>;

// sum over k of a[..., i, k] * b[..., k, j], with `lead` in front of both.
double dot(const Tensor& a, const Tensor& b, const Index& lead, int64_t i, int64_t j) {
  double sum = 0;
  const int64_t depth = a.type.sizes.back().constant();
  Index left = lead, right = lead;
  left.insert(left.end(), {i, 0});
  right.insert(right.end(), {0, j});
  for (int64_t k = 0; k < depth; ++k) {
    left.back() = k;
    right[right.size() - 2] = k;
    sum += a.get(left).as_double() * b.get(right).as_double();
  }
  return sum;
}

// beta * bias + alpha * a @ b; `bias` may be absent.
void multiply(Call& call, const Tensor* bias, const Tensor& a, const Tensor& b, double beta,
              double alpha) {
  Tensor& result = call.results[0];
  for_each_index(result.type.sizes, [&](std::span<const int64_t> index) {
    const Index lead(index.begin(), index.end() - 2);
    double value = alpha * dot(a, b, lead, index[index.size() - 2], index.back());
    if (bias && beta != 0) {
      Index own(index.end() - bias->type.rank(), index.end());
      for (size_t i = 0; i < own.size(); ++i) {
        if (bias->type.sizes[i].constant() == 1) own[i] = 0;
      }
      value += beta * bias->get(own).as_double();
    }
    result.set(index, Number::of(value));
  });
}

}  // namespace

bool run_matmul(Call& call) {
  switch (call.kind) {
    case OpKind::kmm:
    case OpKind::kbmm:
      multiply(call, nullptr, call.tensor(0), call.tensor(1), 0, 1);
      return true;
    case OpKind::kaddmm:
    case OpKind::kbaddbmm:
      multiply(call, &call.tensor(0), call.tensor(1), call.tensor(2), call.number(3, 1),
               call.number(4, 1));
      return true;
    case OpKind::klinear: {
      const Tensor& x = call.tensor(0);
      const Tensor& weight = call.tensor(1);
      Tensor& result = call.results[0];
      for_each_index(result.type.sizes, [&](std::span<const int64_t> index) {
        Index row(index.begin(), index.end());
        double sum = call.is_none(2) ? 0 : call.tensor(2).get(index.last(1)).as_double();
        for (int64_t k = 0; k < x.type.sizes.back().constant(); ++k) {
          row.back() = k;
          sum += x.get(row).as_double() * weight.get(Index{index.back(), k}).as_double();
        }
        result.set(index, Number::of(sum));
      });
      return true;
    }
    default:
      return false;
  }
}

}  // namespace braze::graph::interpreter
