#include <algorithm>

#include "graph/arguments.h"
#include "graph/devices.h"
#include "graph/infer/infer.h"
#include "graph/infer/promotion.h"
#include "graph/infer/strides.h"

namespace braze::graph {
namespace {

// How the result's dtype follows from the operands.
enum class Rule : uint8_t {
  kPromote,  // the common dtype
  kFloat,    // the common dtype, f32 for integers
  kCompare,  // bool
  kSelf,     // that of argument 0
};

Rule rule_of(OpKind kind) {
  switch (kind) {
    case OpKind::keq_Tensor:
    case OpKind::keq_Scalar:
    case OpKind::kne_Tensor:
    case OpKind::kne_Scalar:
    case OpKind::klt_Tensor:
    case OpKind::klt_Scalar:
    case OpKind::kle_Tensor:
    case OpKind::kle_Scalar:
    case OpKind::kgt_Tensor:
    case OpKind::kgt_Scalar:
    case OpKind::kge_Tensor:
    case OpKind::kge_Scalar:
    case OpKind::klogical_not:
    case OpKind::klogical_and:
    case OpKind::klogical_or:
    case OpKind::klogical_xor:
    case OpKind::kisnan:
    case OpKind::kisinf:
    case OpKind::kisfinite:
      return Rule::kCompare;
    case OpKind::kexp:
    case OpKind::kexp2:
    case OpKind::kexpm1:
    case OpKind::klog:
    case OpKind::klog2:
    case OpKind::klog10:
    case OpKind::klog1p:
    case OpKind::ksqrt:
    case OpKind::krsqrt:
    case OpKind::ksin:
    case OpKind::kcos:
    case OpKind::ktan:
    case OpKind::kasin:
    case OpKind::kacos:
    case OpKind::katan:
    case OpKind::ksinh:
    case OpKind::kcosh:
    case OpKind::ktanh:
    case OpKind::kerf:
    case OpKind::kerfc:
    case OpKind::ksigmoid:
    case OpKind::kreciprocal:
    case OpKind::kdiv_Tensor:
    case OpKind::kdiv_Scalar:
    case OpKind::katan2:
      return Rule::kFloat;
    case OpKind::kabs:
    case OpKind::kneg:
    case OpKind::kfloor:
    case OpKind::kceil:
    case OpKind::ktrunc:
    case OpKind::kround:
    case OpKind::ksign:
    case OpKind::krelu:
    case OpKind::kgelu:
    case OpKind::ksilu:
    case OpKind::kbitwise_not:
    case OpKind::khardtanh:
    case OpKind::kleaky_relu:
    case OpKind::kelu:
    case OpKind::khardsigmoid:
    case OpKind::khardswish:
    case OpKind::ksoftplus:
    case OpKind::kmish:
    case OpKind::kthreshold:
    case OpKind::kmasked_fill_Scalar:
    case OpKind::kmasked_fill_Tensor:
    case OpKind::klerp_Scalar:
    case OpKind::klerp_Tensor:
    case OpKind::knan_to_num:
      return Rule::kSelf;
    default:
      return Rule::kPromote;
  }
}

// The number of leading arguments that take part in promotion; the others (alpha, rounding_mode)
// only scale or steer.
size_t promoted_arguments(OpKind kind, size_t count) {
  switch (kind) {
    case OpKind::kadd_Tensor:
    case OpKind::kadd_Scalar:
    case OpKind::ksub_Tensor:
    case OpKind::ksub_Scalar:
    case OpKind::krsub_Tensor:
    case OpKind::krsub_Scalar:
    case OpKind::kdiv_Tensor_mode:
    case OpKind::kdiv_Scalar_mode:
      return 2;
    case OpKind::kaddcmul:
    case OpKind::kaddcdiv:
      return 3;
    case OpKind::kround:
      return 1;
    default:
      return count;
  }
}

// The number is an operand of the kernel's, as a tensor without dimensions.
bool takes_number_as_operand(OpKind kind) {
  switch (kind) {
    case OpKind::kadd_Scalar:
    case OpKind::ksub_Scalar:
    case OpKind::krsub_Scalar:
    case OpKind::kmul_Scalar:
    case OpKind::kdiv_Scalar:
    case OpKind::kdiv_Scalar_mode:
    case OpKind::kfloor_divide_Scalar:
    case OpKind::kremainder_Scalar:
    case OpKind::kfmod_Scalar:
    case OpKind::keq_Scalar:
    case OpKind::kne_Scalar:
    case OpKind::klt_Scalar:
    case OpKind::kle_Scalar:
    case OpKind::kgt_Scalar:
    case OpKind::kge_Scalar:
    case OpKind::kbitwise_and_Scalar:
    case OpKind::kbitwise_or_Scalar:
    case OpKind::kbitwise_xor_Scalar:
      return true;
    default:
      return false;
  }
}

sym::Dims result_strides(OpKind kind, std::vector<const TensorType*> operands,
                         std::span<const sym::Int> sizes) {
  switch (kind) {
    case OpKind::kpow_Scalar:  // allocated without regard to the operand's layout
    case OpKind::kmasked_fill_Scalar:
    case OpKind::kmasked_fill_Tensor:
      return sym::contiguous_strides(sizes);
    case OpKind::khardtanh:  // allocated by empty_like
    case OpKind::knan_to_num:
      return like_strides(*operands[0], MemoryFormat::kPreserve);
    case OpKind::kabs:
      if (!is_complex(operands[0]->dtype)) break;
      return like_strides(*operands[0], MemoryFormat::kPreserve);
    default:
      break;
  }
  const TensorType number;
  if (takes_number_as_operand(kind)) operands.push_back(&number);
  return pointwise_strides(operands, sizes);
}

DType result_dtype(OpKind kind, ArgumentList list, std::span<const Argument> args) {
  switch (rule_of(kind)) {
    case Rule::kCompare:
      return DType::kBool;
    case Rule::kSelf: {
      const DType dtype = tensor_arg(list, 0)->type().dtype;
      return kind == OpKind::kabs ? part_of(dtype) : dtype;
    }
    case Rule::kPromote:
    case Rule::kFloat:
      break;
  }
  if (kind == OpKind::kwhere_self) return result_type(args.subspan(1, 2));
  const DType dtype =
      result_type(args.first(std::min(args.size(), promoted_arguments(kind, args.size()))));
  const bool true_division =
      (kind == OpKind::kdiv_Tensor_mode || kind == OpKind::kdiv_Scalar_mode) && is_none(list, 2);
  const bool to_float = rule_of(kind) == Rule::kFloat || true_division;
  return to_float && is_integral(dtype, true) ? DType::kFloat32 : dtype;
}

TensorType copy_type(OpKind kind, ArgumentList list) {
  const TensorType& self = tensor_arg(list, 0)->type();
  TensorType type = self;
  type.offset = 0;
  const int format_position = kind == OpKind::kclone ? 1 : 6;
  const MemoryFormat format =
      optional_memory_format_arg(list, format_position).value_or(MemoryFormat::kPreserve);
  type.strides = like_strides(self, format);
  if (kind == OpKind::k_to_copy) {
    type.dtype = optional_dtype_arg(list, 1).value_or(self.dtype);
    type.device = optional_device_arg(list, 3).value_or(self.device);
  }
  return type;
}

}  // namespace

std::optional<std::vector<TensorType>> infer_pointwise(OpKind kind,
                                                       std::span<const Argument> args) {
  if (kind == OpKind::kclone || kind == OpKind::k_to_copy)
    return std::vector{copy_type(kind, args)};
  if (kind == OpKind::klog_sigmoid_forward) return std::nullopt;  // two results, one a work space
  std::vector<const TensorType*> operands;
  for (const Argument& argument : args)
    for_each_value(argument, [&](const Value* value) { operands.push_back(&value->type()); });
  if (operands.empty()) return std::nullopt;
  // Eager computes these as other - self.
  const bool reversed = kind == OpKind::krsub_Tensor || kind == OpKind::krsub_Scalar;
  if (reversed) std::reverse(operands.begin(), operands.end());
  TensorType type;
  type.dtype = result_dtype(kind, args, args);
  type.device = common_device(operands);
  type.sizes = broadcast_sizes(operands);
  type.strides = result_strides(kind, std::move(operands), type.sizes);
  return std::vector{std::move(type)};
}

}  // namespace braze::graph
