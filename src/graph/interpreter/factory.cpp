#include "graph/interpreter/interpreter.h"
#include "graph/op_kind.h"

namespace braze::graph::interpreter {
namespace {

void fill(Tensor& tensor, Number value) {
  for_each_index(tensor.type.sizes,
                 [&](std::span<const int64_t> index) { tensor.set(index, value); });
}

Number scalar(const Call& call, int i) {
  if (auto* value = std::get_if<sym::Int>(&call.arg(i))) return Number::of(value->constant());
  return Number::of(call.number(i, 0));
}

void count(Tensor& result, double start, double step) {
  for_each_index(result.type.sizes, [&](std::span<const int64_t> index) {
    result.set(index, Number::of(start + static_cast<double>(index[0]) * step));
  });
}

}  // namespace

bool run_factory(Call& call) {
  switch (call.kind) {
    case OpKind::kfull:
    case OpKind::kfull_like:
    case OpKind::kfill_Scalar:
      fill(call.results[0], scalar(call, 1));
      return true;
    case OpKind::kscalar_tensor:
      fill(call.results[0], scalar(call, 0));
      return true;
    case OpKind::kzeros:
    case OpKind::kzeros_like:
    case OpKind::kempty_memory_format:
    case OpKind::kempty_like:
    case OpKind::knew_empty_strided:
      return true;
    case OpKind::kones:
    case OpKind::kones_like:
      fill(call.results[0], Number::of(int64_t{1}));
      return true;
    case OpKind::karange:
      count(call.results[0], 0, 1);
      return true;
    case OpKind::karange_start:
      count(call.results[0], call.number(0, 0), 1);
      return true;
    case OpKind::karange_start_step:
      count(call.results[0], call.number(0, 0), call.number(2, 1));
      return true;
    case OpKind::kcopy:
    case OpKind::kfill_Tensor: {
      // The second argument in the type of the first.
      call.kind = OpKind::k_to_copy;
      call.args = {call.args[1]};
      return run_pointwise(call);
    }
    case OpKind::klift_fresh_copy:
      call.kind = OpKind::kclone;
      return run_pointwise(call);
    default:
      return false;
  }
}

}  // namespace braze::graph::interpreter
