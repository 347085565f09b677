#include <algorithm>

#include "graph/arguments.h"
#include "graph/interpreter/interpreter.h"
#include "graph/op_kind.h"

namespace braze::graph::interpreter {
namespace {

using Index = std::vector<int64_t>;

Index vec(std::span<const int64_t> index) { return {index.begin(), index.end()}; }

int64_t checked(int64_t index, int64_t size) {
  BRAZE_CHECK(index >= -size && index < size, "index ", index, " is out of range for size ", size);
  return index < 0 ? index + size : index;
}

int64_t size_of_dim(const Tensor& tensor, int64_t dim) {
  return tensor.type.sizes.empty() ? 1 : tensor.type.sizes[dim].constant();
}

// Copies argument 0, then sets the elements of `value` at the places that `place` gives.
template <class F>
void scatter(Call& call, const Tensor& value, F&& place) {
  const Tensor& self = call.tensor(0);
  Tensor& result = call.results[0];
  for_each_index(self.type.sizes,
                 [&](std::span<const int64_t> index) { result.set(index, self.get(index)); });
  for_each_index(value.type.sizes, [&](std::span<const int64_t> index) {
    result.set(place(vec(index)), value.get(index));
  });
}

// Sets each element of the result to the element of argument 0 at the place.
template <class F>
void fetch(Call& call, F&& place) {
  Tensor& result = call.results[0];
  for_each_index(result.type.sizes, [&](std::span<const int64_t> index) {
    result.set(index, call.tensor(0).get(place(vec(index))));
  });
}

void pad(Call& call) {
  const std::vector<int64_t> pad = call.integers(1);  // last dim first: before, after
  const Number fill = Number::of(call.number(2, 0));
  const Tensor& self = call.tensor(0);
  Tensor& result = call.results[0];
  for_each_index(result.type.sizes, [&](std::span<const int64_t> index) {
    Index own = vec(index);
    bool inside = true;
    for (size_t i = 0; i < own.size(); ++i) {
      const size_t from_the_end = own.size() - 1 - i;
      if (2 * from_the_end < pad.size()) own[i] -= pad[2 * from_the_end];
      inside &= own[i] >= 0 && own[i] < self.type.sizes[i].constant();
    }
    result.set(index, inside ? self.get(own) : convert(fill, result.type.dtype));
  });
}

void slice_scatter(Call& call) {
  const int64_t dim = normalize_dim(call.integer(2, 0), call.tensor(0).type.rank());
  const int64_t size = size_of_dim(call.tensor(0), dim);
  int64_t start = call.integer(3, 0);
  if (start < 0) start += size;
  start = std::clamp<int64_t>(start, 0, size);
  const int64_t step = call.integer(5, 1);
  scatter(call, call.tensor(1), [&](Index index) {
    index[dim] = start + index[dim] * step;
    return index;
  });
}

void select_scatter(Call& call) {
  const int64_t dim = normalize_dim(call.integer(2, 0), call.tensor(0).type.rank());
  const int64_t place = checked(call.integer(3, 0), size_of_dim(call.tensor(0), dim));
  scatter(call, call.tensor(1), [&](Index index) {
    index.insert(index.begin() + dim, place);
    return index;
  });
}

void diagonal_scatter(Call& call) {
  const int64_t rank = call.tensor(0).type.rank(), offset = call.integer(2, 0);
  const int64_t dim1 = normalize_dim(call.integer(3, 0), rank);
  const int64_t dim2 = normalize_dim(call.integer(4, 1), rank);
  scatter(call, call.tensor(1), [&](Index index) {
    const int64_t along = index.back();
    index.pop_back();
    const int64_t row = along + std::max<int64_t>(-offset, 0);
    const int64_t column = along + std::max<int64_t>(offset, 0);
    if (dim1 < dim2) {
      index.insert(index.begin() + dim1, row);
      index.insert(index.begin() + dim2, column);
    } else {
      index.insert(index.begin() + dim2, column);
      index.insert(index.begin() + dim1, row);
    }
    return index;
  });
}

// The result is a copy of argument 0 with its own strides; the write goes by memory order.
void as_strided_scatter(Call& call) {
  const Tensor& self = call.tensor(0);
  Tensor& result = call.results[0];
  for_each_index(self.type.sizes,
                 [&](std::span<const int64_t> index) { result.set(index, self.get(index)); });
  TensorType type = result.type;
  type.sizes = std::get<std::vector<sym::Int>>(call.arg(2));
  type.strides = std::get<std::vector<sym::Int>>(call.arg(3));
  type.offset = call.integer(4, 0);
  Tensor view = view_of(result, type);
  for_each_index(type.sizes, [&](std::span<const int64_t> index) {
    view.set(index, call.tensor(1).get(index));
  });
}

void concatenate(Call& call) {
  const auto& parts = std::get<std::vector<Tensor>>(call.arg(0));
  const int64_t dim = normalize_dim(call.integer(1, 0), call.results[0].type.rank());
  int64_t start = 0;
  for (const Tensor& part : parts) {
    if (part.type.rank() != call.results[0].type.rank()) continue;
    for_each_index(part.type.sizes, [&](std::span<const int64_t> index) {
      Index place = vec(index);
      place[dim] += start;
      call.results[0].set(place, part.get(index));
    });
    start += size_of_dim(part, dim);
  }
}

void stack(Call& call) {
  const auto& parts = std::get<std::vector<Tensor>>(call.arg(0));
  const int64_t dim = normalize_dim(call.integer(1, 0), call.results[0].type.rank());
  for (size_t i = 0; i < parts.size(); ++i) {
    for_each_index(parts[i].type.sizes, [&](std::span<const int64_t> index) {
      Index place = vec(index);
      place.insert(place.begin() + dim, static_cast<int64_t>(i));
      call.results[0].set(place, parts[i].get(index));
    });
  }
}

// The broadcast shape of the index tensors stands where the first did, or in front when they are
// apart.
void advanced_index(Call& call) {
  std::vector<std::optional<Tensor>> indices;
  if (auto* list = std::get_if<std::vector<Tensor>>(&call.arg(1)))
    indices.assign(list->begin(), list->end());
  else
    indices = std::get<OptionalRefs<Tensor>>(call.arg(1)).refs;
  size_t first = indices.size(), last = 0, count = 0, rank = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    first = std::min(first, i);
    last = i;
    ++count;
    rank = std::max(rank, indices[i]->type.sizes.size());
  }
  const size_t begin = last - first + 1 == count ? first : 0;
  fetch(call, [&](const Index& index) {
    const std::span<const int64_t> shape = std::span(index).subspan(begin, rank);
    Index rest = index;
    rest.erase(rest.begin() + static_cast<int64_t>(begin),
               rest.begin() + static_cast<int64_t>(begin + rank));
    Index place;
    size_t next = 0;
    for (int64_t dim = 0; dim < call.tensor(0).type.rank(); ++dim) {
      if (dim >= static_cast<int64_t>(indices.size()) || !indices[dim]) {
        place.push_back(rest[next++]);
        continue;
      }
      const Tensor& tensor = *indices[dim];
      Index own = vec(shape.subspan(rank - tensor.type.sizes.size()));
      for (size_t i = 0; i < own.size(); ++i) {
        if (tensor.type.sizes[i].constant() == 1) own[i] = 0;
      }
      place.push_back(checked(tensor.get(own).i, size_of_dim(call.tensor(0), dim)));
    }
    return place;
  });
}

}  // namespace

bool run_indexing(Call& call) {
  switch (call.kind) {
    case OpKind::kcat:
      concatenate(call);
      return true;
    case OpKind::kstack:
      stack(call);
      return true;
    case OpKind::kconstant_pad_nd:
      pad(call);
      return true;
    case OpKind::kembedding:
      fetch(call, [&](const Index& index) {
        const Index which(index.begin(), index.end() - 1);
        const int64_t row = call.tensor(1).get(which).i;
        return Index{checked(row, size_of_dim(call.tensor(0), 0)), index.back()};
      });
      return true;
    case OpKind::kgather: {
      const int64_t dim = normalize_dim(call.integer(1, 0), call.tensor(0).type.rank());
      fetch(call, [&](Index index) {
        const int64_t place =
            checked(call.tensor(2).get(index).i, size_of_dim(call.tensor(0), dim));
        if (!index.empty()) index[dim] = place;
        return index;
      });
      return true;
    }
    case OpKind::kindex_select: {
      const int64_t dim = normalize_dim(call.integer(1, 0), call.tensor(0).type.rank());
      fetch(call, [&](Index index) {
        const Index which = {index[dim]};
        index[dim] = checked(call.tensor(2).get(which).i, size_of_dim(call.tensor(0), dim));
        return index;
      });
      return true;
    }
    case OpKind::kindex_Tensor:
    case OpKind::k_unsafe_index:
      advanced_index(call);
      return true;
    case OpKind::kslice_scatter:
      slice_scatter(call);
      return true;
    case OpKind::kselect_scatter:
      select_scatter(call);
      return true;
    case OpKind::kdiagonal_scatter:
      diagonal_scatter(call);
      return true;
    case OpKind::kas_strided_scatter:
      as_strided_scatter(call);
      return true;
    default:
      return false;
  }
}

}  // namespace braze::graph::interpreter
