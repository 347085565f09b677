#include "graph/infer/infer.h"

namespace braze::graph {

std::optional<std::vector<TensorType>> infer_types(const Op& op, std::span<const Argument> args) {
  switch (op.op_class) {
    case OpClass::kPointwise:
      return infer_pointwise(op.kind, args);
    case OpClass::kView:
      return infer_view(op.kind, args);
    case OpClass::kFactory:
    case OpClass::kIndexing:
    case OpClass::kReduction:
    case OpClass::kExtern:
      return infer_other(op.kind, args);
    case OpClass::kRandom:
    case OpClass::kUnknown:
      return std::nullopt;
  }
  BRAZE_UNREACHABLE("op class");
}

}  // namespace braze::graph
