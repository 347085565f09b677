#include "trace/trace_state.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <ranges>
#include <utility>

#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "pytorch/nodes.h"
#include "trace/break.h"
#include "trace/kernel_scope.h"
#include "trace/shapes/common.h"
#include "trace/supported.h"
#include "trace/sym_node.h"

namespace braze::trace {
namespace {

uint32_t next_serial() {
  static std::atomic<uint32_t> serial{0};
  return ++serial;
}

c10::StorageImpl* storage_impl(const at::Tensor& real) {
  return real.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// Sets of storages, by number.
bool is_marked(const std::vector<bool>& set, int storage) {
  return storage < static_cast<int>(set.size()) && set[storage];
}

void mark(std::vector<bool>& set, int storage) {
  if (static_cast<int>(set.size()) <= storage) set.resize(storage + 1);
  set[storage] = true;
}

}  // namespace

TraceState* current_state() { return static_cast<TraceState*>(thread_state.state); }

TraceState::TraceState()
    : serial_(next_serial()),
      first_sequence_number_(at::sequence_number::peek()),
      cycles_(first_sequence_number_) {}

bool TraceState::declare(const at::Tensor& real, graph::InputKind kind, std::string name,
                         std::string* why) {
  c10::TensorImpl* impl = real.unsafeGetTensorImpl();
  if (outside_.count(impl)) return true;
  if (std::string reason = why_unsupported(real, /*check_type=*/true); !reason.empty()) {
    if (why) *why = std::move(reason);
    return false;
  }
  outside_.emplace(impl, OutsideTensor{real, kind, std::move(name), {}});
  declared_storages_.emplace(storage_impl(real), impl);
  return true;
}

bool TraceState::is_declared(const at::Tensor& real) const {
  auto found = outside_.find(real.unsafeGetTensorImpl());
  return found != outside_.end() && found->second.kind != graph::InputKind::kConstant;
}

void TraceState::bind(FakeTensorImpl* fake, graph::Value* value) {
  fake->value = value;
  fake->serial = serial_;
}

at::Tensor TraceState::another_fake(graph::Value* value) {
  at::Tensor fake = make_fake(value->type());
  as_fake(fake)->set_fake_device(pytorch::device_of(value->type().device));
  bind(as_fake(fake), value);
  return fake;
}

TraceState::KnownStorage& TraceState::known_storage(const c10::Storage& storage) {
  KnownStorage& known = known_storages_[storage.unsafeGetStorageImpl()];
  if (known.number < 0) {
    known = {graph_.new_storage(), c10::InferenceMode::is_enabled()};
    storages_.push_back(storage);
  }
  return known;
}

int TraceState::renew_storage_number(const c10::Storage& storage) {
  return known_storage(storage).number = graph_.new_storage();
}

bool TraceState::is_outside_storage(int storage) const {
  return is_marked(outside_storages_, storage);
}

c10::Storage TraceState::storage_of_real(const at::Tensor& real) {
  c10::Storage& meta = meta_of_real_storage_[storage_impl(real)];
  if (!meta) meta = meta_storage(static_cast<int64_t>(real.storage().nbytes()));
  return meta;
}

void TraceState::add_value(OutsideTensor& tensor, graph::TensorType type) {
  FakeTensorImpl* fake = as_fake(tensor.fake);
  KnownStorage& storage = known_storage(fake->unsafe_storage());
  storage.inference = tensor.real.is_inference();
  if (!is_outside_storage(storage.number)) {
    mark(outside_storages_, storage.number);
    join_memory(tensor.real, storage.number, tensor.kind == graph::InputKind::kConstant);
  }
  bind(fake, graph_.add_input(std::move(type), tensor.kind, tensor.name, storage.number));
  inputs_.push_back({tensor.real, tensor.kind});
}

void TraceState::add_input(OutsideTensor& tensor) {
  c10::TensorImpl* impl = tensor.real.unsafeGetTensorImpl();
  tensor.fake = make_fake(storage_of_real(tensor.real), *impl, tensor.real.device());
  FakeTensorImpl* fake = as_fake(tensor.fake);
  add_value(tensor, type_of(tensor.real));
  fake->outside = impl;
  if (tensor.kind == graph::InputKind::kConstant) constants_.add_literal(fake->value, tensor.real);
}

FakeTensorImpl* TraceState::touch(const at::Tensor& real) {
  c10::TensorImpl* impl = real.unsafeGetTensorImpl();
  auto found = outside_.find(impl);
  if (found != outside_.end()) {
    OutsideTensor& declared = found->second;
    if (!declared.fake.defined()) add_input(declared);
    FakeTensorImpl* fake = as_fake(declared.fake);
    // Whoever holds the real tensor has seen its sizes as numbers.
    if (fake->stands_for_input) specialised(declared.fake);
    if (!fake->value) add_value(declared, type_of(declared.fake));
    return fake;
  }
  if (std::string reason = why_unsupported(real, /*check_type=*/false); !reason.empty())
    raise_break({"tensor", "a tensor made while tracing is unsupported: " + reason, kMoveOut});
  auto declared = declared_storages_.find(storage_impl(real));
  if (declared != declared_storages_.end()) return touch_alias(real, outside_.at(declared->second));
  const std::string name = "constant" + std::to_string(inputs_.size());
  OutsideTensor& tensor =
      outside_.emplace(impl, OutsideTensor{real, graph::InputKind::kConstant, name, {}})
          .first->second;
  add_input(tensor);
  return as_fake(tensor.fake);
}

// `x.data` of a tensor from outside: a new real tensor over its memory.
FakeTensorImpl* TraceState::touch_alias(const at::Tensor& real, const OutsideTensor& declared) {
  if (control_flow.is_used())
    raise_break({"tensor", "the memory of a tensor from outside in a branch on data", kMoveOut});
  if (real.scalar_type() != declared.real.scalar_type())
    raise_break({"tensor", "a tensor made while tracing shares memory with one of another dtype",
                 kMoveOut});
  graph::Value* base = touch(declared.real)->value;
  OutsideTensor alias{real, declared.kind, declared.name,
                      make_fake(storage_of_real(real), *real.unsafeGetTensorImpl(), real.device())};
  FakeTensorImpl* fake = as_fake(alias.fake);
  graph::TensorType type = type_of(real);
  std::vector<graph::Argument> arguments{base};
  const bool same = type == base->type();
  if (!same) arguments.insert(arguments.end(), {type.sizes, type.strides, type.offset});
  const graph::Op& op = graph::op_of(same ? graph::OpKind::kdetach : graph::OpKind::kas_strided);
  graph::Node* node = graph_.add_node(op, std::move(arguments), {std::move(type)}, origin(),
                                      nullptr, {storage_number(fake->unsafe_storage())});
  bind(fake, node->result());
  fake->outside = real.unsafeGetTensorImpl();
  outside_.emplace(real.unsafeGetTensorImpl(), std::move(alias));
  return fake;
}

FakeTensorImpl* TraceState::fake_of(const at::Tensor& tensor, const graph::Op& op) {
  FakeTensorImpl* fake = as_fake(tensor);
  if (!fake) return touch(tensor);
  if (!fake->value && fake->stands_for_input && fake->serial == serial_)
    add_value(outside_.at(stood_for_.at(fake)), type_of(tensor));
  if (fake->serial != serial_ || fake->value == nullptr)
    raise_break({op.name, "a result of an earlier trace is used", kMoveOut});
  if (control_flow.is_gone(*fake->value))
    raise_break({op.name, "a tensor made in a branch is used outside of it", kMoveOut});
  return fake;
}

at::Tensor TraceState::literal(const at::Tensor& real) {
  // One that was met before may be known to others, who may write to it.
  const bool is_new = !outside_.contains(real.unsafeGetTensorImpl());
  graph::Value* constant = touch(real)->value;
  if (is_new) graph_.set_input_contents(constant, contents_of(real));
  at::Tensor result = fresh_like(real, real.scalar_type());
  static const c10::OperatorHandle clone =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  FakeTensorImpl* fake = as_fake(result);
  graph::Node* node = graph_.add_node(graph::op_of(graph::OpKind::kclone),
                                      {constant, graph::None{}}, {type_of(result)}, origin(),
                                      nullptr, {storage_number(fake->unsafe_storage())});
  bind(fake, node->result());
  constants_.add_call(clone, {real, c10::IValue()}, {{0, -1, constant}}, {node->result()});
  return result;
}

at::Tensor TraceState::constant(const at::Tensor& tensor) {
  const FakeTensorImpl* fake = as_fake(tensor);
  if (!fake || fake->serial != serial_ || !fake->value || !constants_.contains(fake->value))
    return {};
  return constants_.evaluate(fake->value);
}

bool TraceState::evaluate_nested(const OperatorInfo& info, torch::jit::Stack& stack) {
  const size_t begin = stack.size() - info.arguments.size();
  for (size_t i = begin; i < stack.size(); ++i) {
    if (stack[i].isList() && !stack[i].isIntList()) return false;
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) continue;
    FakeTensorImpl* fake = as_fake(stack[i].toTensor());
    if (!fake || fake->serial != serial_ || !fake->value || !constants_.contains(fake->value))
      return false;
  }
  for (size_t i = begin; i < stack.size(); ++i)
    if (stack[i].isTensor() && stack[i].toTensor().defined())
      stack[i] = constants_.evaluate(as_fake(stack[i].toTensor())->value);
  RealCallScope scope;
  info.handle.callBoxed(stack);
  for (size_t i = stack.size() - info.result_count; i < stack.size(); ++i)
    if (stack[i].isTensor())
      stack[i] = fresh_like(stack[i].toTensor(), stack[i].toTensor().scalar_type());
  return true;
}

graph::OriginId TraceState::origin() {
  if (backward_origin_) return *backward_origin_;
  return origin_provider ? origin_provider(graph_) : -1;
}

// Autograd makes its node before it calls what is below.
void TraceState::note_forward(graph::OriginId origin) {
  const uint64_t last = at::sequence_number::peek() - 1;
  if (forward_origins_.empty() || forward_origins_.back().first != last)
    forward_origins_.emplace_back(last, origin);
}

void TraceState::backward_of(std::optional<uint64_t> sequence_number, bool in_code) {
  backward_origin_.reset();
  if (!sequence_number) return;
  const auto behind =
      std::upper_bound(forward_origins_.begin(), forward_origins_.end(), *sequence_number,
                       [](uint64_t number, const auto& forward) { return number < forward.first; });
  backward_origin_ = behind == forward_origins_.begin() ? -1 : std::prev(behind)->second;
  if (!in_code) return;
  const graph::Origin* forward = graph_.origin(*backward_origin_);
  graph::Origin origin = forward ? *forward : graph::Origin();
  origin.is_backward = true;
  backward_origin_ = graph_.add_origin(std::move(origin));
}

// In the layout of the output where that is dense, as PyTorch's formulas give it then, else
// contiguous.
// In some order of its dimensions, for all values of the symbols.
static bool is_known_dense(const graph::TensorType& type) {
  std::vector<size_t> order(type.sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t dim) { return type.strides[dim].hint(); });
  sym::Int expected = 1;
  for (const size_t dim : order) {
    if (type.sizes[dim] == sym::Int(1)) continue;
    if (type.strides[dim] != expected) return false;
    expected = expected * type.sizes[dim];
  }
  return true;
}

at::Tensor TraceState::add_tangent(const at::Tensor& output, std::string name) {
  graph::TensorType type = type_of(output);
  bool is_static = true;
  for (sym::Dims* dims : {&type.sizes, &type.strides})
    for (sym::Int& dim : *dims) {
      dim = shapes.normal(dim);
      is_static &= dim.is_constant();
    }
  at::Tensor tangent = (is_static ? graph::is_dense(type) : is_known_dense(type))
                           ? make_fake(type)
                           : fresh(output.sym_sizes(), output.scalar_type());
  FakeTensorImpl* fake = as_fake(tangent);
  fake->set_fake_device(as_fake(output)->fake_device());
  const int storage = known_storage(fake->unsafe_storage()).number;
  bind(fake,
       graph_.add_input(type_of(tangent), graph::InputKind::kTangent, std::move(name), storage));
  return tangent;
}

// So that the graph alone says through what gradients flow.
void TraceState::detach_what_has_no_history() {
  const graph::Op& detach = graph::op_of(graph::OpKind::kdetach);
  const std::set<graph::Node*> nodes(without_history_.begin(), without_history_.end());
  for (auto place = graph_.nodes().begin(); place != graph_.nodes().end();) {
    graph::Node* node = place->get();
    graph::Node* next = ++place == graph_.nodes().end() ? nullptr : place->get();
    if (!nodes.contains(node)) continue;
    if (!node->mutated_arguments().empty()) {
      write_to_detached(node);
      continue;
    }
    for (graph::Value* result : node->results()) {
      if (!result) continue;
      graph::Node* made = graph_.add_node(detach, {graph::None{}}, {result->type()}, node->origin(),
                                          next, {result->storage()});
      graph_.replace_all_uses(result, made->result());
      made->set_arg(0, result);
    }
  }
}

// What is written keeps the history that it had.
void TraceState::write_to_detached(graph::Node* node) {
  for (const int position : node->mutated_arguments()) {
    auto* target = std::get_if<graph::Value*>(&node->args()[position]);
    if (!target) continue;
    graph::Value* written = *target;
    graph::Node* made =
        graph_.add_node(graph::op_of(graph::OpKind::kdetach), {written}, {written->type()},
                        node->origin(), node, {written->storage()});
    node->set_arg(position, made->result());
  }
}

std::string TraceState::differentiate(const std::vector<at::Tensor>& outputs) {
  detach_what_has_no_history();
  take_up_versions();
  return trace::differentiate(*this, outputs, first_sequence_number_, gradients_, joint_);
}

std::string TraceState::run_backward(const BackwardCall& call, BackwardResult& result) {
  return trace::run_backward(*this, call, first_sequence_number_, result);
}

void TraceState::note_used_up(torch::autograd::Node& node) {
  used_up_.emplace(&node, std::make_shared<pytorch::NodePtr>(node.getptr()));
}

void TraceState::watch_autograd(std::vector<at::Tensor> results) {
  settle_autograd();
  const auto is_view = [](const at::Tensor& result) { return result.is_view(); };
  if (!needs_autograd_ || std::ranges::any_of(results, is_view))
    autograd_candidates_ = std::move(results);
}

// Autograd marks the results after the fallback has returned them.
void TraceState::settle_autograd() {
  for (const at::Tensor& tensor : autograd_candidates_) {
    needs_autograd_ |= tensor.requires_grad();
    cycles_.note(tensor);
  }
  autograd_candidates_.clear();
}

bool TraceState::needs_autograd() {
  settle_autograd();
  return needs_autograd_;
}

void TraceState::join_memory(const at::Tensor& real, int storage, bool is_constant) {
  const std::vector<int> numbers =
      outside_memory_.add(pytorch::extent_of(*storage_impl(real)), storage);
  if (numbers.size() > 1 && is_constant)
    raise_break(
        {"tensor", "a tensor made while tracing shares memory with one from outside", kMoveOut});
  for (size_t i = 1; i < numbers.size(); ++i) rename_storage(numbers[i], numbers[0]);
}

void TraceState::rename_storage(int from, int to) {
  for (const graph::Input& input : graph_.inputs())
    if (input.value->storage() == from) input.value->set_storage(to);
  for (const auto& node : graph_.nodes())
    for (graph::Value* result : node->results())
      if (result && result->storage() == from) result->set_storage(to);
  known_storages_.for_each_value([&](KnownStorage& storage) {
    if (storage.number == from) storage.number = to;
  });
  if (is_marked(written_storages_, from)) mark(written_storages_, to);
}

OutsideMemory::Sharing TraceState::sharing_of_written(int storage) const {
  return is_marked(written_storages_, storage) ? outside_memory_.sharing(storage)
                                               : OutsideMemory::Sharing::kNone;
}

void TraceState::note_write(int storage) {
  mark(written_storages_, storage);
  for (const auto& [impl, tensor] : outside_)
    if (tensor.fake.defined() && as_fake(tensor.fake)->value &&
        as_fake(tensor.fake)->value->storage() == storage && !tensor.real.is_inference())
      versions_.emplace_back(tensor.real, tensor.real._version());
}

void TraceState::restore_versions() {
  for (size_t i = versions_.size(); i-- > 0;) {
    c10::VariableVersion counter = versions_[i].first.unsafeGetTensorImpl()->version_counter();
    traced_versions_.emplace_back(versions_[i].first, counter.current_version());
    counter.set_version(versions_[i].second);
  }
  versions_.clear();
}

// What autograd has saved and the trace has written to since is to be known as such.
void TraceState::take_up_versions() {
  for (const auto& [tensor, version] : std::exchange(traced_versions_, {})) {
    c10::VariableVersion counter = tensor.unsafeGetTensorImpl()->version_counter();
    versions_.emplace_back(tensor, counter.current_version());
    counter.set_version(std::max<int64_t>(version, counter.current_version()));
  }
}

void TraceState::leave_stand_ins_out() {
  if (stand_ins_.empty()) return;
  const auto stands_in = [&](const graph::Value* value) {
    return std::ranges::any_of(stand_ins_, [&](const auto& ids) {
      return ids.first <= value->id() && value->id() < ids.second;
    });
  };
  std::vector<graph::Node*> nodes;
  for (const auto& node : graph_.nodes()) nodes.push_back(node.get());
  for (graph::Node* node : std::views::reverse(nodes)) {
    const auto is_unneeded = [&](const graph::Value* value) {
      return !value || (stands_in(value) && !graph_.has_uses(value));
    };
    if (node->op().effects.pure() && !node->results().empty() &&
        std::ranges::all_of(node->results(), is_unneeded))
      graph_.erase(node);
  }
}

Trace TraceState::finish(const std::vector<at::Tensor>& outputs) {
  settle_autograd();
  std::vector<graph::Value*> values;
  for (const at::Tensor& output : outputs) {
    BRAZE_CHECK(output.defined(), "an undefined tensor as output");
    FakeTensorImpl* fake = as_fake(output);
    if (fake && fake->stands_for_input) fake_of(output, graph::Op{});
    BRAZE_CHECK(!fake || (fake->serial == serial_ && fake->value), "a fake of another trace");
    values.push_back((fake ? fake : touch(output))->value);
  }
  std::vector<graph::OutputRole> roles(values.size());
  for (const at::Tensor& gradient : gradients_) {
    FakeTensorImpl* fake = as_fake(gradient);
    values.push_back((fake ? fake : touch(gradient))->value);
    roles.push_back({graph::OutputKind::kGradient, {}});
  }
  graph_.set_outputs(std::move(values), std::move(roles));
  leave_stand_ins_out();
  graph_.move_inputs_to_end(graph::InputKind::kTangent);
  Trace trace{.graph = std::move(graph_), .inputs = std::move(inputs_), .joint = std::move(joint_)};
  settle_symbols(trace);
  return trace;
}

}  // namespace braze::trace
