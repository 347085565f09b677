#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "graph/arguments.h"
#include "graph/interpreter/interpreter.h"
#include "graph/op_kind.h"

namespace braze::graph::interpreter {
namespace {

// The elements that fall together when `dims` are reduced, in row-major order, by the index of the
// other dimensions.
using Groups = std::map<std::vector<int64_t>, std::vector<Number>>;

std::vector<int64_t> dims_of(const Call& call, int i) {
  const int64_t rank = call.tensor(0).type.rank();
  std::vector<int64_t> dims;
  if (!call.is_none(i)) dims = call.integers(i);
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
  }
  for (int64_t& dim : dims) dim = normalize_dim(dim, rank);
  return dims;
}

Groups group(const Tensor& x, const std::vector<int64_t>& dims, bool keep) {
  Groups groups;
  for_each_index(x.type.sizes, [&](std::span<const int64_t> index) {
    std::vector<int64_t> kept;
    for (int64_t i = 0; i < static_cast<int64_t>(index.size()); ++i) {
      const bool gone = std::find(dims.begin(), dims.end(), i) != dims.end();
      if (!gone)
        kept.push_back(index[i]);
      else if (keep)
        kept.push_back(0);
    }
    groups[kept].push_back(x.get(index));
  });
  return groups;
}

Number sum(const std::vector<Number>& values) {
  double real = 0;
  int64_t integer = 0;
  for (Number value : values) {
    if (value.real)
      real += value.f;
    else
      integer += value.i;
  }
  return !values.empty() && values[0].real ? Number::of(real) : Number::of(integer);
}

double mean(const std::vector<Number>& values) {
  return sum(values).as_double() / static_cast<double>(values.size());
}

double variance(const std::vector<Number>& values, double correction) {
  const double center = mean(values);
  double total = 0;
  for (Number value : values) total += (value.as_double() - center) * (value.as_double() - center);
  return total / std::max(static_cast<double>(values.size()) - correction, 0.0);
}

// Index of the largest (sign 1) or smallest element; the first of equal ones, a NaN wins.
size_t extreme(const std::vector<Number>& values, int sign) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const double a = values[best].as_double(), b = values[i].as_double();
    if (std::isnan(a)) break;
    if (std::isnan(b) || (b - a) * sign > 0) best = i;
  }
  return best;
}

template <class F>
void reduce(Call& call, const std::vector<int64_t>& dims, bool keep, F&& f, int result = 0) {
  for (auto& [index, values] : group(call.tensor(0), dims, keep))
    call.results[result].set(index, f(values));
}

template <class F>
void reduce_all(Call& call, F&& f) {
  reduce(call, dims_of(call, 100), false, f);
}

// Along one dimension: f maps the elements to as many elements.
template <class F>
void along(Call& call, int64_t dim, F&& f) {
  const Tensor& x = call.tensor(0);
  if (x.type.rank() == 0) return call.results[0].set({}, f({x.get({})})[0]);
  dim = normalize_dim(dim, x.type.rank());
  for (auto& [index, values] : group(x, {dim}, true)) {
    const std::vector<Number> results = f(values);
    std::vector<int64_t> place = index;
    for (size_t i = 0; i < results.size(); ++i) {
      place[dim] = static_cast<int64_t>(i);
      call.results[0].set(place, results[i]);
    }
  }
}

std::vector<Number> softmax(const std::vector<Number>& values, bool logarithm) {
  const double largest = values[extreme(values, 1)].f;
  double total = 0;
  for (Number value : values) total += std::exp(value.f - largest);
  std::vector<Number> results;
  for (Number value : values)
    results.push_back(Number::of(logarithm ? value.f - largest - std::log(total)
                                           : std::exp(value.f - largest) / total));
  return results;
}

void layer_norm(Call& call) {
  const Tensor& x = call.tensor(0);
  const auto normalized = static_cast<int64_t>(call.integers(1).size());
  std::vector<int64_t> dims(normalized);
  std::iota(dims.begin(), dims.end(), x.type.rank() - normalized);
  const double eps = call.number(4, 1e-5);
  const Groups groups = group(x, dims, true);
  for_each_index(x.type.sizes, [&](std::span<const int64_t> index) {
    std::vector<int64_t> row(index.begin(), index.end());
    for (int64_t dim : dims) row[dim] = 0;
    const auto inner = index.subspan(index.size() - normalized);
    const std::vector<Number>& values = groups.at(row);
    double value = (x.get(index).f - mean(values)) / std::sqrt(variance(values, 0) + eps);
    if (!call.is_none(2)) value *= call.tensor(2).get(inner).f;
    if (!call.is_none(3)) value += call.tensor(3).get(inner).f;
    call.results[0].set(index, Number::of(value));
  });
  for (auto& [row, values] : groups) {
    if (call.results[1].memory) call.results[1].set(row, Number::of(mean(values)));
    if (call.results[2].memory)
      call.results[2].set(row, Number::of(1 / std::sqrt(variance(values, 0) + eps)));
  }
}

}  // namespace

bool run_reduction(Call& call) {
  auto average = [](const std::vector<Number>& values) { return Number::of(mean(values)); };
  auto largest = [](const std::vector<Number>& values) { return values[extreme(values, 1)]; };
  auto smallest = [](const std::vector<Number>& values) { return values[extreme(values, -1)]; };
  switch (call.kind) {
    case OpKind::ksum:
      reduce_all(call, sum);
      return true;
    case OpKind::ksum_dim_IntList:
      reduce(call, dims_of(call, 1), call.boolean(2, false), sum);
      return true;
    case OpKind::kmean:
      reduce_all(call, average);
      return true;
    case OpKind::kmean_dim:
      reduce(call, dims_of(call, 1), call.boolean(2, false), average);
      return true;
    case OpKind::kmax:
      reduce_all(call, largest);
      return true;
    case OpKind::kmin:
      reduce_all(call, smallest);
      return true;
    case OpKind::kamax:
      reduce(call, dims_of(call, 1), call.boolean(2, false), largest);
      return true;
    case OpKind::kamin:
      reduce(call, dims_of(call, 1), call.boolean(2, false), smallest);
      return true;
    case OpKind::kmax_dim:
    case OpKind::kmin_dim: {
      const int sign = call.kind == OpKind::kmax_dim ? 1 : -1;
      const bool keep = call.boolean(2, false);
      reduce(call, dims_of(call, 1), keep,
             [&](const std::vector<Number>& values) { return values[extreme(values, sign)]; });
      reduce(
          call, dims_of(call, 1), keep,
          [&](const std::vector<Number>& values) {
            return Number::of(static_cast<int64_t>(extreme(values, sign)));
          },
          1);
      return true;
    }
    case OpKind::kargmax:
    case OpKind::kargmin: {
      const int sign = call.kind == OpKind::kargmax ? 1 : -1;
      reduce(call, dims_of(call, 1), call.boolean(2, false),
             [&](const std::vector<Number>& values) {
               return Number::of(static_cast<int64_t>(extreme(values, sign)));
             });
      return true;
    }
    case OpKind::kvar_correction:
    case OpKind::kstd_correction:
    case OpKind::kvar_mean_correction: {
      const double correction = call.number(2, 1);
      const bool root = call.kind == OpKind::kstd_correction;
      reduce(call, dims_of(call, 1), call.boolean(3, false),
             [&](const std::vector<Number>& values) {
               const double spread = variance(values, correction);
               return Number::of(root ? std::sqrt(spread) : spread);
             });
      if (call.kind == OpKind::kvar_mean_correction)
        reduce(call, dims_of(call, 1), call.boolean(3, false), average, 1);
      return true;
    }
    case OpKind::k_softmax:
    case OpKind::k_log_softmax:
      along(call, call.integer(1, 0), [&](const std::vector<Number>& values) {
        return softmax(values, call.kind == OpKind::k_log_softmax);
      });
      return true;
    case OpKind::kcumsum:
      along(call, call.integer(1, 0), [](const std::vector<Number>& values) {
        std::vector<Number> results;
        for (size_t i = 0; i < values.size(); ++i)
          results.push_back(sum({values.begin(), values.begin() + static_cast<int64_t>(i) + 1}));
        return results;
      });
      return true;
    case OpKind::knative_layer_norm:
      layer_norm(call);
      return true;
    default:
      return false;
  }
}

}  // namespace braze::graph::interpreter
