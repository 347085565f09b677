// What a call is refused for before it becomes a node.
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/is_one_of.h"
#include "graph/data_errors.h"
#include "trace/break.h"
#include "trace/number_range.h"
#include "trace/overlap.h"
#include "trace/recorder.h"

namespace braze::trace {
namespace {

constexpr const char* kSharedUnknown =
    " that tensors from outside share without PyTorch's knowledge";
constexpr const char* kPassViews = "pass views of one tensor instead";

}  // namespace

void Recorder::refuse_unchecked() {
  if (!info_.rules.refusals) return;
  if (std::string why = info_.rules.refusals(ShapeCall{info_, stack_, begin_}); !why.empty())
    fail(why, kMoveOut);
}

// PyTorch's functions for metadata let pass what leaves a convolution or a pool without a place,
// and windows of no size.
void Recorder::check_sizes() {
  // What is read from data has no value yet.
  const bool all_known = !state_.data_capture.scalars && !state_.data_capture.sizes;
  const auto is_known = [&](const sym::Int& size) { return all_known || size.is_constant(); };
  bool empty_input = false, refused = false;
  if (info_.has(graph::kSlidesWindow))
    for (const Operand& operand : operands_)
      for (const sym::Int& size : operand.value->type().sizes)
        if (is_known(size) && size.hint() == 0)
          (operand.argument == 0 ? empty_input : refused) = true;
  const int64_t least = info_.has(graph::kSlidesWindow) && !empty_input ? 1 : 0;
  for (const Result& result : results_)
    for (const sym::Int& size : result.type.sizes) refused |= is_known(size) && size.hint() < least;
  if (refused) fail("it has no place for its window", "eager raises an error here");
}

// In a region that may run, or not, or again and again.
void Recorder::check_region() {
  constexpr int kTraining = 5;
  const bool trains =
      info_.treatment == Treatment::kBatchNorm && std::get<bool>(arguments_[kTraining]);
  if (info_.random || info_.op->effects.opaque || trains)
    fail("it draws random numbers, or has effects, in a branch", kMoveOut);
  for (const Operand& operand : operands_) {
    const bool outer = state_.control_flow.is_outer_storage(operand.value->storage());
    if (!outer) continue;
    for (int position : info_.mutates)
      if (operand.argument == position)
        fail("a branch changes a tensor from outside of it", "return the new tensor instead");
  }
}

// Where an operator refuses its data the call runs again in eager. What an operator of somebody
// else's does besides its results would then happen twice, or too early.
void Recorder::check_rerun() {
  const bool lasting = info_.is_custom && info_.op->effects.opaque;
  if (lasting && state_.has_refusing_)
    fail("it has effects of its own, behind an operator that may refuse its data", kMoveOut);
  if (info_.may_refuse_data && state_.has_lasting_effects_)
    fail("it may refuse its data, behind an operator with effects of its own", kMoveOut);
  state_.has_lasting_effects_ |= lasting;
  state_.has_refusing_ |= info_.may_refuse_data;
}

void Recorder::check_writes() {
  if (info_.has(graph::kCountsFromMemory)) check_place();
  if (state_.control_flow.is_open()) check_region();
  const bool autograd = requires_grad_ && at::GradMode::is_enabled();
  for (int position : info_.mutates) {
    for (const Operand& operand : operands_) {
      if (operand.argument != position) continue;
      const bool outside = state_.is_outside_storage(operand.value->storage());
      const bool input = operand.value->producer() == nullptr;
      if (!outside) continue;
      note_write(operand);
      if (state_.constants_.contains(operand.value))
        fail("it changes a tensor that is not an input of the traced code",
             "make the tensor in the compiled function or pass it as an argument");
      if (autograd)
        fail("autograd would record a change of a tensor from outside",
             "run it under torch.no_grad() or torch.inference_mode()");
      if (info_.inplace_view && input)
        fail("it changes the sizes of a tensor from outside", "use the out-of-place operator");
    }
  }
}

bool Recorder::may_overlap(const Operand& written, const Operand& read) const {
  switch (overlap_of(written.value->type(), read.value->type())) {
    case Overlap::kNone:
      return true;
    case Overlap::kPartial:
      return false;
    case Overlap::kFull:
      return info_.elementwise;
  }
  BRAZE_UNREACHABLE("overlap");
}

// What eager's kernel refuses, or lets pass and gives a result that depends on the order of the
// elements.
void Recorder::check_overlap() {
  if (info_.inplace_view) return;
  for (int position : info_.mutates) {
    if (info_.arguments[position] != ArgumentKind::kTensor) continue;
    for (const Operand& written : operands_)
      for (const Operand& other : operands_)
        if (written.argument == position && other.argument != position &&
            other.value->storage() == written.value->storage() && !may_overlap(written, other))
          fail("it reads elements that it writes at other places",
               "clone one of the tensors before");
  }
}

// What an elementwise operator writes to has the sizes of its result; `floor_divide_` has no
// function for metadata that says so.
void Recorder::check_broadcast() {
  if (!info_.in_place_elementwise) return;
  const Operand* written = nullptr;
  for (const Operand& operand : operands_)
    if (operand.argument == 0) written = &operand;
  if (!written) return;
  const sym::Dims& sizes = written->value->type().sizes;
  for (const Operand& operand : operands_) {
    const sym::Dims& given = operand.value->type().sizes;
    bool fits = given.size() <= sizes.size();
    for (size_t d = 1; fits && d <= given.size(); ++d) {
      const sym::Int &from = given[given.size() - d], &to = sizes[sizes.size() - d];
      fits = from == to || from.hint() == 1 || from.hint() == to.hint();
    }
    if (!fits) fail("what it writes to has other sizes", "eager raises an error here");
  }
}

// A tensor that gives the number to fill with: eager refuses one that the elements cannot hold.
void Recorder::check_filling() {
  const c10::IValue& value = stack_.back();
  if (!info_.has(graph::kFills) || !value.isTensor()) return;
  const at::ScalarType dtype = stack_[begin_].toTensor().scalar_type();
  if (all_fit(value.toTensor().scalar_type(), dtype)) return;
  const FakeTensorImpl* fake = as_fake(value.toTensor());
  if (fake && state_.constants_.contains(fake->value) &&
      fits(state_.constants_.evaluate(fake->value).item(), dtype))
    return;
  fail(std::string("a number that may not fit into ") + c10::toString(dtype),
       "give it a number of that dtype");
}

void Recorder::note_write(const Operand& written) {
  const int storage = written.value->storage();
  state_.note_write(storage);
  if (const graph::Origin* origin = state_.graph_.origin(state_.origin());
      origin && origin->checkpoint > 0)
    fail("in a checkpointed call it changes a tensor from outside, once more in the backward",
         "change it outside of the checkpointed function");
  check_memory(written);
  if (state_.sharing_of_written(storage) == OutsideMemory::Sharing::kNone) return;
  // In one storage PyTorch refuses what overlaps in part; here the order of the kernel's reads and
  // writes decides.
  for (const Operand& read : operands_)
    if (read.value != written.value && read.value->storage() == storage)
      fail("it reads and writes memory" + std::string(kSharedUnknown), kPassViews);
}

// What the graph reads of memory that it writes to is put in order by the types of its values.
void Recorder::check_memory(const Operand& operand) {
  if (state_.sharing_of_written(operand.value->storage()) == OutsideMemory::Sharing::kMixed)
    fail("it uses memory" + std::string(kSharedUnknown) + " and that is written to", kPassViews);
}

bool Recorder::has_named_dims() const {
  if (info_.dim_arguments.empty() || !stack_[begin_].isTensor()) return true;
  const int64_t rank = std::max<int64_t>(stack_[begin_].toTensor().dim(), 1);
  for (int position : info_.dim_arguments) {
    const c10::IValue& dims = stack_[begin_ + position];
    const auto exists = [rank](int64_t dim) { return -rank <= dim && dim < rank; };
    if (dims.isInt() && !exists(dims.toInt())) return false;
    if (!dims.isIntList()) continue;
    c10::SmallVector<bool, 8> named(rank, false);
    for (int64_t dim : dims.toIntVector()) {
      if (!exists(dim)) return false;
      if (std::exchange(named[dim < 0 ? dim + rank : dim], true)) return false;
    }
  }
  return true;
}

}  // namespace braze::trace
