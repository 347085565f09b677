#include "sym/int.h"

#include "sym/expr.h"

namespace braze::sym {

int64_t Int::hint() const { return expr_ ? expr_->hint : value_; }

void Int::not_constant() const {
  throw NotConstant(__FILE__, __LINE__,
                    "a symbolic size where a constant is needed: " + to_string(*this));
}

Int product(std::span<const Int> dims) {
  Int result = 1;
  for (const Int& dim : dims) result = result * dim;
  return result;
}

Dims contiguous_strides(std::span<const Int> sizes) {
  Dims strides(sizes.size());
  Int stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride = stride * max(sizes[i], 1);
  }
  return strides;
}

std::vector<int64_t> constants(std::span<const Int> dims) {
  std::vector<int64_t> values;
  values.reserve(dims.size());
  for (const Int& dim : dims) values.push_back(dim.constant());
  return values;
}

}  // namespace braze::sym
