// Operators that read data and yet are recorded, where the user has asked for it: an integer or a
// size that comes from data is a symbol, whose value the compiled code reads as it runs.
#include <ATen/ops/nonzero.h>
#include <ATen/ops/unbind.h>

#include <algorithm>

#include "graph/arguments.h"
#include "graph/stages.h"
#include "trace/break.h"
#include "trace/recorder.h"
#include "trace/rules/rules.h"
#include "trace/shapes/common.h"
#include "trace/sym_node.h"

namespace braze::trace {
namespace {

// What is larger could overflow in expressions where Python's ints do not.
constexpr int64_t kLargest = int64_t{1} << 31;

}  // namespace

// self: the places of what is not zero, in rows; the memory has the columns one after the other
void sized_by_data::nonzero(const ShapeCall& call, const c10::SymInt& size) {
  const int64_t rank = call.tensor(0).dim();
  call.give(make_fake(Dims{size, rank}, Dims{1, size}, at::kLong));
}

// self, mask
void sized_by_data::masked_select(const ShapeCall& call, const c10::SymInt& size) {
  call.give(fresh(Dims{size}, call.tensor(0).scalar_type()));
}

// self, sorted, return_inverse, return_counts
void sized_by_data::unique(const ShapeCall& call, const c10::SymInt& size) {
  const at::Tensor input = call.tensor(0);
  const Dims inverse = call[2].toBool() ? sizes_of(input) : Dims{0};
  const Dims counts{call[3].toBool() ? size : c10::SymInt(0)};
  call.give(fresh(Dims{size}, input.scalar_type()), fresh(inverse, at::kLong),
            fresh(counts, at::kLong));
}

// self, weights, minlength
void sized_by_data::bincount(const ShapeCall& call, const c10::SymInt& size) {
  const at::Tensor weights = call.tensor(1);
  at::ScalarType dtype = at::kLong;
  if (weights.defined()) dtype = weights.scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  call.give(fresh(Dims{size}, dtype));
}

// repeats
void sized_by_data::repeat_interleave(const ShapeCall& call, const c10::SymInt& size) {
  call.give(fresh(Dims{size}, call.tensor(0).scalar_type()));
}

namespace {

bool is_mask(const c10::IValue& element) {
  if (!element.isTensor() || !element.toTensor().defined()) return false;
  const at::ScalarType dtype = element.toTensor().scalar_type();
  return dtype == at::kBool || dtype == at::kByte;
}

// Whether each mask stands for dimensions of its sizes. Any other is an error, and a mask without
// dimensions adds one.
bool masks_fit(const at::Tensor& self, const c10::List<c10::IValue>& indices) {
  int64_t dim = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const c10::IValue index = indices.get(i);
    if (!is_mask(index)) {
      ++dim;
      continue;
    }
    const at::Tensor mask = index.toTensor();
    if (mask.dim() == 0 || dim + mask.dim() > self.dim()) return false;
    for (int64_t k = 0; k < mask.dim(); ++k)
      if (!equal(mask.sym_size(k), self.sym_size(dim++))) return false;
  }
  return true;
}

}  // namespace

// A call that fails later runs again in eager as a whole.
bool Recorder::capture_data() {
  if (!state_.may_run_again() || operands_.empty()) return false;
  return capture_item() || capture_result_of_data();
}

bool Recorder::capture_item() {
  if (!state_.data_capture.scalars || !info_.has(graph::kReadsNumber)) return false;
  const at::Tensor tensor = argument(0).toTensor();
  if (!c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) return false;
  static const graph::Op* const item =
      &graph::find_or_add_op(graph::kItem, graph::Effects{.opaque = true});
  const sym::Int symbol = state_.data_symbol({-kLargest, kLargest});
  state_.graph_.add_node(*item, {operands_[0].value, symbol}, {}, state_.origin());
  state_.last_cut_ = state_.graph_.value_count();
  stack_.resize(begin_);
  stack_.emplace_back(at::Scalar(to_symint(symbol, state_.shapes)));
  return true;
}

bool Recorder::capture_result_of_data() {
  if (!state_.data_capture.sizes || !info_.rules.sized_by_data) return false;
  device_ = device_of_operands();
  info_.rules.sized_by_data(ShapeCall{info_, stack_, begin_},
                            to_symint(state_.data_symbol({0, kLargest}), state_.shapes));
  take_results();
  append_node();
  state_.last_cut_ = state_.graph_.value_count();
  return true;
}

// as_strided; a guard where sizes decide. In elements from the beginning of the memory.
bool Recorder::reaches_beyond_its_operand() {
  const auto end = [](DimsRef sizes, DimsRef strides, c10::SymInt offset) {
    for (size_t i = 0; i < sizes.size(); ++i)
      offset = plus(offset, times(minus(sizes[i], 1), strides[i]));
    return offset;
  };
  const at::Tensor base = argument(0).toTensor();
  const Dims sizes = dims_in(argument(1)), strides = dims_in(argument(2));
  const c10::SymInt offset = argument(3).isNone() ? base.sym_storage_offset() : int_in(argument(3));
  return sizes.size() == strides.size() &&
         less(end(base.sym_sizes(), base.sym_strides(), base.sym_storage_offset()),
              end(sizes, strides, offset));
}

// as_strided counts from the beginning of the memory. What is given over a cut of the graph (see
// graph/stages.h) may lie elsewhere then.
void Recorder::check_place() {
  if (state_.control_flow.is_used())
    fail("a tensor from before a branch on data is viewed by its place", kMoveOut);
  if (operands_.empty()) return;
  // How much memory there is no guard says.
  if (reaches_beyond_its_operand())
    fail("it reaches beyond its operand", "make the view of the tensor that holds all of it");
  const graph::Value* value = operands_[0].value;
  while (value->producer() && value->id() >= state_.last_cut_) {
    const int base = value->producer()->op().effects.aliased_argument(value->result_index());
    if (base < 0) return;
    value = graph::tensor_arg(*value->producer(), base);
  }
  if (!graph::lies_as_traced(*value))
    fail("a view from before a number that is read from data is viewed by its place",
         "clone the view before");
}

// x[mask] is x[mask.nonzero().unbind(1)].
bool Recorder::expand_masks() {
  if (!info_.has(graph::kTakesMasks)) return false;
  if (info_.arguments.size() < 2 || !argument(1).isList()) return false;
  const auto given = argument(1).toList();
  bool any = false, given_bytes = false;
  for (size_t i = 0; i < given.size(); ++i) {
    const c10::IValue element = given.get(i);
    any |= is_mask(element) && as_fake(element.toTensor());
    given_bytes |= is_mask(element) && element.toTensor().scalar_type() == at::kByte;
  }
  if (!any) return false;
  // Of one element, eager fills where the mask is, and has that of boolean masks alone.
  if (info_.has(graph::kPuts) && given_bytes && equal(argument(2).toTensor().sym_numel(), 1))
    return false;
  if (!masks_fit(argument(0).toTensor(), given)) return false;
  c10::List<std::optional<at::Tensor>> places;
  for (size_t i = 0; i < given.size(); ++i) {
    const c10::IValue element = given.get(i);
    if (is_mask(element)) {
      for (const at::Tensor& place : at::unbind(at::nonzero(element.toTensor()), 1))
        places.push_back(place);
    } else if (element.isTensor() && element.toTensor().defined()) {
      places.push_back(element.toTensor());
    } else {
      places.push_back(std::nullopt);
    }
  }
  argument(1) = places;
  info_.handle.callBoxed(stack_);
  return true;
}

}  // namespace braze::trace
