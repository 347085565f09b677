#include "trace/operator.h"

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/fork_mutex.h"
#include "base/is_one_of.h"
#include "graph/data_errors.h"
#include "graph/infer/call.h"
#include "trace/shapes/shapes.h"
#include "trace/unchecked_calls.h"

namespace braze::trace {
namespace {

using c10::DispatchKey;
using c10::TypeKind;

ArgumentKind kind_of_list(const c10::TypePtr& element) {
  switch (element->kind()) {
    case TypeKind::TensorType:
      return ArgumentKind::kTensors;
    case TypeKind::OptionalType:
      return ArgumentKind::kOptionalTensors;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return ArgumentKind::kInts;
    case TypeKind::FloatType:
      return ArgumentKind::kFloats;
    case TypeKind::BoolType:
      return ArgumentKind::kBools;
    case TypeKind::NumberType:
      return ArgumentKind::kScalars;
    default:
      return ArgumentKind::kUnsupported;
  }
}

bool is_symbolic_integer(c10::TypePtr type) {
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (const auto list = type->cast<c10::ListType>()) type = list->getElementType();
  return type->kind() == TypeKind::SymIntType;
}

ArgumentKind kind_of(c10::TypePtr type) {
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  switch (type->kind()) {
    case TypeKind::TensorType:
      return ArgumentKind::kTensor;
    case TypeKind::ListType:
      return kind_of_list(type->expectRef<c10::ListType>().getElementType());
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return ArgumentKind::kInt;
    case TypeKind::FloatType:
      return ArgumentKind::kFloat;
    case TypeKind::BoolType:
      return ArgumentKind::kBool;
    case TypeKind::NumberType:
      return ArgumentKind::kScalar;
    case TypeKind::StringType:
      return ArgumentKind::kString;
    case TypeKind::ScalarTypeType:
      return ArgumentKind::kDType;
    case TypeKind::DeviceObjType:
      return ArgumentKind::kDevice;
    case TypeKind::MemoryFormatType:
      return ArgumentKind::kMemoryFormat;
    case TypeKind::LayoutType:
      return ArgumentKind::kLayout;
    default:
      return ArgumentKind::kUnsupported;
  }
}

bool is_tensor(ArgumentKind kind) {
  return kind == ArgumentKind::kTensor || kind == ArgumentKind::kTensors ||
         kind == ArgumentKind::kOptionalTensors;
}

// Position of the argument that a result aliases by the schema's annotations; -1: none.
int aliased_argument(const c10::FunctionSchema& schema, const c10::Argument& result) {
  const c10::AliasInfo* alias = result.alias_info();
  if (alias == nullptr) return -1;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* argument = schema.arguments()[i].alias_info();
    if (argument == nullptr) continue;
    for (const auto& set : alias->beforeSets())
      if (argument->beforeSets().count(set)) return static_cast<int>(i);
  }
  return -1;
}

graph::Effects effects_of(const c10::OperatorHandle& handle) {
  const c10::FunctionSchema& schema = handle.schema();
  graph::Effects effects;
  effects.random = handle.hasTag(at::Tag::nondeterministic_seeded);
  effects.inplace_view = handle.hasTag(at::Tag::inplace_view);
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (argument.alias_info() && argument.alias_info()->isWrite())
      effects.mutates.push_back(static_cast<int>(i));
  }
  for (const c10::Argument& result : schema.returns())
    effects.results_alias.push_back(aliased_argument(schema, result));
  // It is called for something that its schema does not show.
  effects.opaque = (schema.returns().empty() && effects.mutates.empty()) ||
                   handle.operator_name().name.starts_with("c10d");
  return effects;
}

bool contains_any(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(
      parts, [name](std::string_view part) { return name.find(part) != name.npos; });
}

bool is_of_pytorch(const std::string& name) {
  return name.starts_with("aten::") || name.starts_with("prims::");
}

// What an operator of the user's draws its schema does not say, and few carry the tag that would.
const graph::Op* graph_op(const c10::OperatorHandle& handle) {
  graph::Effects effects = effects_of(handle);
  effects.random |= !is_of_pytorch(handle.operator_name().name);
  return &graph::find_or_add_op(graph_name(handle.operator_name()), std::move(effects));
}

std::optional<c10::OperatorHandle> find_operator(std::string name, std::string overload) {
  return c10::Dispatcher::singleton().findSchema({std::move(name), std::move(overload)});
}

// "aten::floor_divide" of "aten::floor_divide_.Tensor": what gives the same as a new tensor.
std::optional<c10::OperatorHandle> twin_of_in_place(const c10::OperatorHandle& handle) {
  std::string base = handle.operator_name().name;
  if (!base.ends_with('_') || base.ends_with("__")) return std::nullopt;
  base.pop_back();
  auto twin = find_operator(base, handle.operator_name().overload_name);
  return twin ? twin : find_operator(base, "");
}

// "aten::t_" is "aten::t" to the graph, with the tensor standing for the new view from then on.
std::optional<c10::OperatorHandle> view_of_inplace_view(const c10::OperatorHandle& handle) {
  const c10::OperatorName& name = handle.operator_name();
  if (!name.name.ends_with("_")) return std::nullopt;
  for (const std::string& overload : {name.overload_name, std::string("int")}) {
    auto view = find_operator(name.name.substr(0, name.name.size() - 1), overload);
    if (!view || view->schema().arguments().size() != handle.schema().arguments().size() ||
        view->schema().returns().empty())
      continue;
    if (view->schema().returns()[0].alias_info() != nullptr) return view;
  }
  return std::nullopt;
}

// add.Tensor(x, <Python number>) is add.Scalar(x, number): PyTorch defines the latter as the
// former.
std::optional<c10::OperatorHandle> overload_with_number(const c10::OperatorHandle& handle) {
  const c10::OperatorName& name = handle.operator_name();
  const c10::FunctionSchema& schema = handle.schema();
  if (!name.name.starts_with("aten::") || schema.arguments().size() < 2) return std::nullopt;
  static const std::unordered_map<std::string, std::string> overloads = {
      {"Tensor", "Scalar"}, {"Tensor_mode", "Scalar_mode"}, {"", "Scalar"}};
  auto overload = overloads.find(name.overload_name);
  if (overload == overloads.end()) return std::nullopt;
  auto found = find_operator(name.name, overload->second);
  if (!found || found->schema().arguments().size() != schema.arguments().size())
    return std::nullopt;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const ArgumentKind kind = kind_of(found->schema().arguments()[i].real_type());
    const ArgumentKind wanted =
        i == 1 ? ArgumentKind::kScalar : kind_of(schema.arguments()[i].real_type());
    if (kind != wanted) return std::nullopt;
  }
  return found;
}

// The unsafe ones give views as well; their schemas hide it from autograd alone.
std::optional<c10::OperatorHandle> op_with_honest_schema(const std::string& name) {
  if (name == "aten::unsafe_split.Tensor") return find_operator("aten::split", "Tensor");
  if (name == "aten::unsafe_split_with_sizes") return find_operator("aten::split_with_sizes", "");
  return std::nullopt;
}

bool has_metadata_kernel(const c10::OperatorHandle& handle) {
  return handle.hasKernelForDispatchKey(DispatchKey::Meta) ||
         handle.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         handle.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

// On the CPU these call one operator for each element of their lists.
bool is_loop_over_lists(const c10::OperatorHandle& handle) {
  return handle.operator_name().name.starts_with("aten::_foreach_") &&
         handle.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
}

bool names_dims(std::string_view argument) {
  return is_one_of(argument, {"dim", "dims", "dim0", "dim1", "dim2"});
}

// One that is not there yet, or one several times.
bool takes_other_dims(std::string_view name) {
  return is_one_of(name, {"aten::unsqueeze", "aten::unsqueeze_", "aten::stack", "aten::roll"});
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

}  // namespace

OperatorInfo::OperatorInfo(const c10::OperatorHandle& operator_handle) : handle(operator_handle) {
  const c10::FunctionSchema& schema = handle.schema();
  const std::string name = full_name(handle.operator_name());
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    arguments.push_back(kind_of(argument.real_type()));
    is_size.push_back(is_symbolic_integer(argument.real_type()));
    takes_tensor |= is_tensor(arguments.back());
    if (arguments.back() == ArgumentKind::kDevice) device_arguments.push_back(static_cast<int>(i));
    if (argument.name() == "dtype" && arguments.back() == ArgumentKind::kDType)
      dtype_argument = static_cast<int>(i);
    if (names_dims(argument.name()) && !takes_other_dims(handle.operator_name().name))
      dim_arguments.push_back(static_cast<int>(i));
  }
  const graph::Effects effects = effects_of(handle);
  mutates = effects.mutates;
  random = effects.random;
  inplace_view = effects.inplace_view;
  result_count = static_cast<int>(schema.returns().size());
  for (const c10::Argument& result : schema.returns())
    returns_tensor |= is_tensor(kind_of(result.real_type()));
  returns_list =
      result_count == 1 && kind_of(schema.returns()[0].real_type()) == ArgumentKind::kTensors;

  // Seed and offset of the random numbers, unless a CUDA graph is being captured.
  constexpr int kSeed = 2;
  if (name == "aten::_scaled_dot_product_efficient_attention" ||
      name == "aten::_efficient_attention_forward")
    results_on_cpu = kSeed;
  keeps_unknown_size = name == "aten::mkldnn_rnn_layer";

  // What a CPU gives for it is not what its composition gives.
  const graph::InferEntry* metadata = graph::find_infer_entry(graph_name(handle.operator_name()));
  const bool has_own_kernel = metadata && handle.hasKernelForDispatchKey(DispatchKey::CPU);
  if (const RuleEntry* entry = find_rule(name)) {
    rule = entry->rule;
    what = entry->what;
  } else if (is_loop_over_lists(handle) ||
             (!has_metadata_kernel(handle) && !has_own_kernel &&
              handle.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd))) {
    rule = Rule::kComposite;
    if (!is_loop_over_lists(handle) && handle.hasKernelForDispatchKey(DispatchKey::CPU))
      composed_by = DispatchKey::Meta;
  } else if (handle.hasTag(at::Tag::data_dependent_output) ||
             handle.hasTag(at::Tag::dynamic_output_shape)) {
    rule = Rule::kEvaluate;
  }

  op = graph_op(op_with_honest_schema(name).value_or(handle));
  if (inplace_view && rule == Rule::kRecord) {
    if (auto view = view_of_inplace_view(handle)) {
      op = graph_op(*view);
    } else {
      rule = Rule::kBreak;
      what = "it changes the sizes or the memory of a tensor in place";
    }
  }
  if (auto with_number = overload_with_number(handle)) op_with_number = graph_op(*with_number);

  const HiddenKernel hidden = hidden_kernel(handle);
  kernel = hidden.kernel;
  python_kernel = hidden.only_python;
  probe_allowed = !hidden.runs_python;
  is_custom = !is_of_pytorch(name);
  uncertain_kernel = hidden.composite || !handle.hasComputedKernelForDispatchKey(DispatchKey::Meta);
  shape = find_shape_function(name);
  if (metadata && metadata->use != graph::InferUse::kPasses) infer = metadata;
  infer_always = infer && infer->use == graph::InferUse::kAlways;
  const std::string& base = handle.operator_name().name;
  unchecked = find_unchecked_call(base);
  may_refuse_data = graph::may_refuse_data(*op);
  may_refuse_dtypes = !is_custom && probe_allowed && !random && returns_tensor && !inplace_view &&
                      !op->view && (rule == Rule::kRecord || rule == Rule::kBatchNorm) &&
                      op->op_class != graph::OpClass::kFactory;
  slides_window = contains_any(base, {"conv", "pool"});
  const auto twin = twin_of_in_place(handle);
  in_place_elementwise = mutates == std::vector<int>{0} && twin &&
                         graph_op(*twin)->op_class == graph::OpClass::kPointwise;
  elementwise = op->pointwise || in_place_elementwise || base == "aten::copy_" ||
                handle.hasTag(at::Tag::pointwise) || (twin && twin->hasTag(at::Tag::pointwise));
  fills = is_one_of(
      base, {"aten::masked_fill", "aten::masked_fill_", "aten::index_fill", "aten::index_fill_"});
  of_integers =
      contains_any(base, {"bitwise", "shift", "__and__", "__or__", "__xor__", "gcd", "lcm"});
}

namespace {

// Its schema's address stands for an operator as long as no operator goes: another may get it then.
class OperatorTable : public c10::OpRegistrationListener {
 public:
  static OperatorTable& instance() {
    static auto& instance = []() -> OperatorTable& {
      auto table = std::make_unique<OperatorTable>();
      OperatorTable& result = *table;
      static auto& listening = *new c10::RegistrationHandleRAII(
          c10::Dispatcher::singleton().addRegistrationListener(std::move(table)));
      (void)listening;
      return result;
    }();
    return instance;
  }

  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle&) override {
    generation_.fetch_add(1, std::memory_order_release);
  }

  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  const OperatorInfo& find(const c10::OperatorHandle& handle, uint64_t generation) {
    std::lock_guard lock(mutex_);
    if (generation != filled_) infos_.clear();
    filled_ = generation;
    const OperatorInfo*& info = infos_[&handle.schema()];
    if (info == nullptr) info = all_.emplace_back(std::make_unique<OperatorInfo>(handle)).get();
    return *info;
  }

 private:
  std::atomic<uint64_t> generation_ = 0;
  ForkMutex mutex_;
  uint64_t filled_ = 0;
  std::unordered_map<const c10::FunctionSchema*, const OperatorInfo*> infos_;
  std::vector<std::unique_ptr<const OperatorInfo>> all_;  // a trace under way may use any
};

}  // namespace

const OperatorInfo& operator_info(const c10::OperatorHandle& handle) {
  thread_local std::unordered_map<const c10::FunctionSchema*, const OperatorInfo*> seen;
  thread_local uint64_t filled = 0;
  OperatorTable& table = OperatorTable::instance();
  if (const uint64_t now = table.generation(); now != filled) {
    seen.clear();
    filled = now;
  }
  const OperatorInfo*& info = seen[&handle.schema()];
  if (info == nullptr) info = &table.find(handle, filled);
  return *info;
}

}  // namespace braze::trace
