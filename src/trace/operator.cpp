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
#include "graph/in_place.h"
#include "graph/infer/call.h"

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

// What gives the same as a new tensor.
std::optional<c10::OperatorHandle> functional_op(std::string_view in_place) {
  const std::string name = graph::functional_name(in_place);
  return name.empty() ? std::nullopt : pytorch::find_operator(name);
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

bool has_metadata_kernel(const c10::OperatorHandle& handle) {
  return handle.hasKernelForDispatchKey(DispatchKey::Meta) ||
         handle.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         handle.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

bool names_dims(std::string_view argument) {
  return is_one_of(argument, {"dim", "dims", "dim0", "dim1", "dim2"});
}

struct Listed {
  graph::CallFact fact;
  Treatment treatment;
};

// What the list says of how a call is treated; nothing: the operator's kernels and tags do.
std::optional<Treatment> listed_treatment(uint32_t facts) {
  for (const auto [fact, treatment] : {Listed{graph::kIsOneNode, Treatment::kRecord},
                                       {graph::kAsksCpuKernel, Treatment::kProbe},
                                       {graph::kTakesLiteral, Treatment::kLiteral},
                                       {graph::kResizes, Treatment::kResize},
                                       {graph::kReadsMetadata, Treatment::kMetadata},
                                       {graph::kReadsData, Treatment::kEvaluate}})
    if ((facts & fact) != 0) return treatment;
  return std::nullopt;
}

}  // namespace

OperatorInfo::OperatorInfo(const c10::OperatorHandle& operator_handle) : handle(operator_handle) {
  const c10::FunctionSchema& schema = handle.schema();
  const std::string name = graph_name(handle.operator_name());
  const graph::CallFacts listed = graph::find_call_facts(name);
  facts = listed.facts;
  rules = find_rules(name);
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    arguments.push_back(kind_of(argument.real_type()));
    is_size.push_back(is_symbolic_integer(argument.real_type()));
    takes_tensor |= is_tensor(arguments.back());
    if (arguments.back() == ArgumentKind::kDevice) device_arguments.push_back(static_cast<int>(i));
    if (argument.name() == "dtype" && arguments.back() == ArgumentKind::kDType)
      dtype_argument = static_cast<int>(i);
    if (names_dims(argument.name()) && !has(graph::kNamesOtherDims))
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

  // What a CPU gives for it is not what its composition gives.
  const graph::InferEntry* inferred = graph::find_infer_entry(name);
  const bool has_own_kernel = inferred && handle.hasKernelForDispatchKey(DispatchKey::CPU);
  const bool loops = has(graph::kLoopsOverLists) &&
                     handle.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
  if (listed.why_refused) {
    treatment = Treatment::kBreak;
    what = listed.why_refused;
  } else if (const auto found = listed_treatment(facts)) {
    treatment = *found;
  } else if (rules.metadata) {
    treatment = Treatment::kRecord;
  } else if (loops || (!has_metadata_kernel(handle) && !has_own_kernel &&
                       handle.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd))) {
    treatment = Treatment::kComposite;
    if (!loops && handle.hasKernelForDispatchKey(DispatchKey::CPU)) composed_by = DispatchKey::Meta;
  } else if (handle.hasTag(at::Tag::data_dependent_output) ||
             handle.hasTag(at::Tag::dynamic_output_shape)) {
    treatment = Treatment::kEvaluate;
  }

  const std::string_view honest = graph::op_with_honest_schema(name);
  op = graph_op(honest.empty() ? handle : *pytorch::find_operator(honest));
  if (inplace_view && treatment == Treatment::kRecord) {
    if (auto view = view_of_inplace_view(handle)) {
      op = graph_op(*view);
    } else {
      treatment = Treatment::kBreak;
      what = "it changes the sizes or the memory of a tensor in place";
    }
  }
  // Of two operators with the same kernel, the one whose schema hides what it writes.
  if (op->has(graph::kRunningStatistics) && mutates.empty()) treatment = Treatment::kBatchNorm;
  if (auto with_number = overload_with_number(handle)) op_with_number = graph_op(*with_number);

  const HiddenKernel hidden = hidden_kernel(handle);
  kernel = hidden.kernel;
  python_kernel = hidden.only_python;
  probe_allowed = !hidden.runs_python;
  is_custom = !is_of_pytorch(handle.operator_name().name);
  uncertain_kernel = hidden.composite || !handle.hasComputedKernelForDispatchKey(DispatchKey::Meta);
  if (inferred && inferred->use != graph::InferUse::kPasses) infer = inferred;
  infer_always = infer && infer->use == graph::InferUse::kAlways;
  may_refuse_data = graph::may_refuse_data(*op);
  may_refuse_dtypes = !is_custom && probe_allowed && !random && returns_tensor && !inplace_view &&
                      !op->view && !has(graph::kTrustsSizes) &&
                      (treatment == Treatment::kRecord || treatment == Treatment::kBatchNorm) &&
                      op->op_class != graph::OpClass::kFactory;
  const auto functional = functional_op(name);
  in_place_elementwise = mutates == std::vector<int>{0} && functional &&
                         graph_op(*functional)->op_class == graph::OpClass::kPointwise;
  elementwise = op->pointwise || in_place_elementwise || has(graph::kMovesBetweenDevices) ||
                handle.hasTag(at::Tag::pointwise) ||
                (functional && functional->hasTag(at::Tag::pointwise));
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

void watch_operators() { OperatorTable::instance(); }

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
