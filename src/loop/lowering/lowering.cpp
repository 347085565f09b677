#include "loop/lowering/lowering.h"

#include <algorithm>

#include "graph/data_errors.h"
#include "graph/devices.h"
#include "loop/checks.h"
#include "loop/linear_form.h"

namespace braze::loop::lowering {
namespace {

constexpr int kMaxInlined = 64;        // nodes of an expression that is not stored
constexpr int kPlaceholder = 1 << 20;  // axis numbers that no kernel has
constexpr size_t kMaxLabel = 48;

// Ops whose result has its operand's elements: a use of the result is a use of the operand.
bool passes_through(const graph::Op& op) { return op.view || op.has(graph::kCopies); }

Handler handler_for(graph::OpKind kind) {
  for (auto family :
       {unary_handler, arithmetic_handler, comparison_handler, factory_handler, random_handler,
        view_handler, indexing_handler, concatenation_handler, reduction_handler, scan_handler,
        scatter_handler, normalization_handler, loss_handler, pooling_handler, resampling_handler})
    if (Handler handler = family(kind)) return handler;
  return nullptr;
}

int64_t numel(const Value* value) { return value->type().numel().hint(); }

}  // namespace

sym::Dims sizes_of(const Value* value) { return value->type().sizes; }
sym::Dims strides_of(const Value* value) { return value->type().strides; }

sym::Int count_of(std::span<const sym::Int> sizes) { return sym::product(sizes); }

bool never_empty(std::span<const sym::Int> sizes) {
  return std::ranges::all_of(sizes, [](sym::Int size) { return sym::known_positive(size); });
}

bool is_index(const Value* value) {
  return value->type().dtype == DType::kInt64 || value->type().dtype == DType::kInt32;
}

ExprRef number_of(ExprPool& pool, sym::Int count, DType dtype) {
  if (count.is_constant()) return pool.constant(dtype, static_cast<double>(count.constant()));
  return pool.cast(pool.index(count), dtype);
}

std::optional<sym::Int> slice_start(sym::Int start, sym::Int size) {
  if (sym::known_less(start, 0))
    start = start + size;
  else if (!sym::known_at_least(start, 0))
    return std::nullopt;
  return sym::max(sym::min(start, size), 0);
}

ExprRef dot(ExprPool& pool, IndexView index, std::span<const sym::Int> strides) {
  BRAZE_CHECK(index.size() == strides.size(), "an index of ", index.size(), " dims for ",
              strides.size());
  ExprRef sum = pool.integer(0);
  for (size_t i = 0; i < index.size(); ++i) sum = pool.add(sum, pool.mul(index[i], strides[i]));
  return sum;
}

std::string short_name(const graph::Op& op) {
  size_t begin = op.name.find('.') + 1;  // 0 where there is no dot
  size_t end = op.name.find('.', begin);
  return op.name.substr(begin, end == std::string::npos ? end : end - begin);
}

Lowering::Lowering(const graph::Graph& graph, const target::Target& target, bool deterministic)
    : graph_(graph),
      device_(device_type(target)),
      deterministic_(deterministic),
      costs_(target::costs_of(target)),
      known_(graph.value_count()),
      uses_(graph.value_count()) {
  program_.origins = graph.origins();
  program_.arena = graph.arena();
}

Program Lowering::run() {
  count_uses();
  add_inputs();
  for (const auto& node : graph_.nodes()) lower(*node);
  for (Value* value : refusing_)
    if (const Known& known = known_[value->id()]; known.at && !known.evaluated) realise(value);
  finish_outputs();
  return std::move(program_);
}

void Lowering::count_uses() {
  for (Value* value : graph_.outputs())
    if (value) ++uses_[value->id()];
  for (const graph::Mutation& mutation : graph_.mutations()) ++uses_[mutation.source->id()];
  for (auto node = graph_.nodes().rbegin(); node != graph_.nodes().rend(); ++node) {
    int count = 1;
    if (passes_through((*node)->op())) {
      count = 0;
      for (const Value* result : (*node)->results())
        if (result) count += uses_[result->id()];
    }
    std::vector<Value*> operands = (*node)->operands();
    std::ranges::sort(operands, {}, &Value::id);
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    for (const Value* operand : operands) uses_[operand->id()] += count;
  }
}

int Lowering::add_buffer(Buffer buffer) {
  program_.buffers.push_back(std::move(buffer));
  return static_cast<int>(program_.buffers.size()) - 1;
}

// A GPU does not read where the caller holds a number.
bool Lowering::takes_by_value(const graph::Input& input) const {
  return on_gpu() && input.kind == graph::InputKind::kNumber;
}

void Lowering::add_inputs() {
  int number = 0;
  for (const graph::Input& input : graph_.inputs()) {
    known_[input.value->id()].buffer = add_buffer({.kind = Buffer::Kind::kInput,
                                                   .type = input.value->type(),
                                                   .input = number++,
                                                   .by_value = takes_by_value(input),
                                                   .value = input.value});
  }
}

// Numbers of the call, and what follows from them, are on the CPU: kernels of a GPU compute them
// from those that they are given by value, operators of PyTorch get them as tensors.
bool Lowering::is_host_number(const Value* value) const {
  const Known& known = known_[value->id()];
  return known.on_host || (known.buffer >= 0 && program_.buffers[known.buffer].by_value);
}

bool Lowering::is_host_arithmetic(const Node& node) const {
  if (!on_gpu() || !node.op().pointwise || node.results().size() != 1) return false;
  const std::vector<Value*> operands = node.operands();
  const graph::TensorType& type = node.result()->type();
  return !operands.empty() && type.rank() == 0 && type.device.type == graph::Device::Type::kCPU &&
         std::ranges::all_of(operands, [this](const Value* v) { return is_host_number(v); });
}

void Lowering::define_on_host(const Node& node, Known& known) {
  known.on_host = !known.traits.heavy && known.traits.size <= kMaxInlined;
  if (known.on_host) return;
  known.at = nullptr;
  call_extern(node);
}

// A kernel reaches the memory of one device, and what it is given by value. Those of a GPU refuse
// no data but indices, and accumulate in no order.
bool Lowering::is_supported(const Node& node) const {
  const graph::OpKind kind = node.op().kind;
  const bool scatters = scatter_handler(kind) != nullptr;
  const bool refuses =
      graph::may_refuse_data(node) && !indexing_handler(kind) && !loss_handler(kind) && !scatters;
  if (on_gpu() && (refuses || (scatters && deterministic_))) return false;
  if (is_host_arithmetic(node)) return true;
  const Value* first = nullptr;
  auto fits = [&](const Value* value) {
    if (!value) return true;
    if (is_host_number(value)) return true;
    if (!first) first = value;
    const graph::TensorType& type = value->type();
    return !graph::is_complex(type.dtype) && type.device.type == device_ &&
           graph::same_device(type.device, first->type().device);
  };
  return std::ranges::all_of(node.operands(), fits) && std::ranges::all_of(node.results(), fits);
}

void Lowering::lower(const Node& node) {
  BRAZE_CHECK(node.mutated_arguments().empty(),
              "a node that mutates after functionalisation: ", graph::to_string(node));
  const bool used = std::ranges::any_of(
      node.results(), [&](const Value* result) { return result && uses_[result->id()] > 0; });
  const bool refuses = graph::may_refuse_data(node);
  if (!used && node.op().effects.pure() && !refuses) return;
  realise_unread(node);
  Value* checked = refuses && !node.results().empty() ? node.result() : nullptr;
  if (checked && !used) uses_[checked->id()] = 1;  // for what it is checked for
  if (is_supported(node)) {
    Handler handler = handler_for(node.op().kind);
    try {
      if (handler && handler(*this, node)) {
        // What nobody reads is computed here, where its operands are at hand.
        if (checked && !used && known_[checked->id()].at)
          realise(checked);
        else if (checked)
          refusing_.push_back(checked);
        return;
      }
    } catch (const sym::NotConstant&) {
      // An argument is a symbol where the handler takes numbers.
    }
  }
  if (checked && !used) uses_[checked->id()] = 0;
  call_extern(node);
}

bool Lowering::has_checks(const Value* value) const {
  const Known* known = &known_[value->id()];
  while (known->base) known = &known_[known->base->id()];
  return known->buffer < 0 && known->traits.checked;
}

// Realises operands with index checks whose elements nobody reads where the result is empty.
void Lowering::realise_unread(const Node& node) {
  for (Value* operand : node.operands()) {
    if (!has_checks(operand)) continue;
    for (const Value* result : node.results())
      if (result && sizes_of(result) != sizes_of(operand) && !never_empty(sizes_of(result)))
        realise_checked(operand);
  }
}

ExprRef Lowering::checked(ExprRef index, sym::Int size) {
  ExprRef result = pool().binary(ExprKind::kCheckIndex, index, pool().index(size));
  if (result->kind == ExprKind::kCheckIndex) checks_.push_back(result);
  return result;
}

// `value`, extended by the checks that were asked for since number `first`.
ExprRef Lowering::keep_checks(ExprRef value, size_t first) {
  for (size_t i = first; i < checks_.size(); ++i) value = pool().after(checks_[i], value);
  checks_.resize(first);
  return value;
}

ExprRef Lowering::element(Value* value, IndexView index) {
  Known& known = known_[value->id()];
  if (known.last && std::ranges::equal(known.last_index, index)) {
    checks_.insert(checks_.end(), known.last_checks.begin(), known.last_checks.end());
    return known.last;
  }
  const size_t first_check = checks_.size();
  ExprRef result;
  if (known.buffer >= 0 && !known.base && !known.on_host) {
    result = pool().load(known.buffer, value->type().dtype, dot(pool(), index, strides_of(value)));
  } else {
    BRAZE_CHECK(known.at, "use of %", value->id(), " before its definition");
    result = known.at(index);
    known.evaluated = true;
    BRAZE_CHECK(result->dtype == value->type().dtype, "%", value->id(), " lowered to ",
                graph::to_string(result->dtype));
  }
  known.last_index.assign(index.begin(), index.end());
  known.last = result;
  known.last_checks.assign(checks_.begin() + static_cast<ptrdiff_t>(first_check), checks_.end());
  return result;
}

ExprRef Lowering::broadcast_element(Value* value, IndexView index) {
  const sym::Dims& sizes = value->type().sizes;
  BRAZE_CHECK(sizes.size() <= index.size(), "%", value->id(), " does not broadcast");
  IndexView tail = index.last(sizes.size());
  Index own(tail.begin(), tail.end());
  for (size_t i = 0; i < own.size(); ++i)
    if (sizes[i] == sym::Int(1)) own[i] = pool().integer(0);
  return element(value, own);
}

// Placeholder axes with the narrow range let the simplifier undo flattened indices; then the index
// itself takes their place.
ExprRef Lowering::element_within(Value* value, IndexView index, std::span<const sym::Int> extents) {
  Index narrow(index.begin(), index.end());
  Substitution memo;
  const int before = placeholders_;
  for (size_t i = 0; i < narrow.size(); ++i) {
    if (lies_within(narrow[i], extents[i])) continue;
    narrow[i] = pool().axis(kPlaceholder + placeholders_++, extents[i]);
    if (!narrow[i]->is_constant()) memo.emplace(narrow[i], index[i]);  // constant: no other place
  }
  const size_t first_check = checks_.size();
  ExprRef result = keep_checks(element(value, narrow), first_check);  // under the mask
  placeholders_ = before;
  if (memo.empty()) return result;
  return rewrite(pool(), result, memo, [](ExprRef) { return nullptr; });
}

Traits Lowering::traits(Value* value) const {
  const Known& known = known_[value->id()];
  if (known.base) return traits(known.base);
  return known.buffer >= 0 ? Traits{.size = 1, .loads = true} : known.traits;
}

Traits Lowering::traits_over(const Node& node, std::span<Value* const> operands, int size,
                             bool heavy) const {
  Traits all{.size = size, .math = size > 0, .heavy = heavy};
  for (Value* operand : operands) {
    Traits own = traits(operand);
    all.size += own.size;
    all.math |= own.math;
    all.loads |= own.loads;
    all.heavy |= own.heavy;
    all.checked |= own.checked;
    if (!own.label.empty() && all.label.find(own.label) == std::string::npos &&
        all.label.size() + own.label.size() < kMaxLabel)
      all.label += (all.label.empty() ? "" : "_") + own.label;
  }
  if (size > 0) {
    std::string name = short_name(node.op());
    if (!all.label.ends_with(name) && all.label.size() < kMaxLabel)
      all.label += (all.label.empty() ? "" : "_") + name;
  }
  if (!all.loads && !all.heavy && all.size <= costs_.index_only_nodes) all.math = false;
  return all;
}

void Lowering::define(const Node& node, int result, Traits traits, ElementFunction at) {
  Value* value = node.result(result);
  if (!value || uses_[value->id()] == 0) return;
  Known& known = known_[value->id()];
  known.at = std::move(at);
  known.traits = std::move(traits);
  known.node = &node;
  if (is_host_arithmetic(node)) return define_on_host(node, known);
  if (inlines_) return;
  const bool shared = known.traits.math && uses_[value->id()] > 1;
  bool recomputed = false;
  if (known.traits.heavy && !shared)
    for (const Node* user : value->users())
      for (const Value* other : user->results())
        recomputed |= other && numel(other) >= costs_.heavy_repeats * numel(value);
  if (shared || recomputed || known.traits.size > kMaxInlined) realise(value);
}

void Lowering::define_view(const Node& node, int result, Value* base, sym::Int offset,
                           ElementFunction at) {
  Value* value = node.result(result);
  if (!value || uses_[value->id()] == 0) return;
  Known& known = known_[value->id()];
  known.at = std::move(at);
  known.base = base;
  known.view_offset = offset;
  known.node = &node;
}

void Lowering::realise(Value* value) {
  Known& known = known_[value->id()];
  if (known.on_host) return call_extern(*known.node);
  std::string label =
      known.traits.label.empty() ? short_name(known.node->op()) : known.traits.label;
  sym::Dims sizes = sizes_of(value);
  KernelBuilder kernel(*this, known.node->origin(), "fused_" + label, sizes);
  ExprRef expr = element(value, kernel.outer());
  kernel.store(value, kernel.outer(), expr);
  kernel.finish();
  known.at = nullptr;
  known.base = nullptr;
  known.last = nullptr;
}

int Lowering::view_buffer(Value* value) {
  Known& known = known_[value->id()];
  int base = buffer_of(known.base);
  const Buffer& buffer = program_.buffers[base];
  Buffer view{.kind = Buffer::Kind::kView, .type = value->type(), .base = base, .value = value};
  view.view_offset = known.view_offset;
  if (buffer.kind == Buffer::Kind::kView) {
    view.base = buffer.base;
    view.view_offset = view.view_offset + buffer.view_offset;
  }
  view.type.offset = view.view_offset;
  return known.buffer = add_buffer(std::move(view));
}

int Lowering::buffer_of(Value* value) {
  Known& known = known_[value->id()];
  if (known.buffer >= 0) return known.buffer;
  if (known.base) return view_buffer(value);
  realise(value);
  return known.buffer;
}

void Lowering::realise_math(Value* value) {
  if (!inlines_ && traits(value).math && !is_host_number(value)) buffer_of(value);
}

void Lowering::realise_checked(Value* value) {
  if (inlines_ || !traits(value).checked) return;
  while (known_[value->id()].base) value = known_[value->id()].base;
  buffer_of(value);
}

void Lowering::realise_heavy(Value* value) {
  if (inlines_ || is_host_number(value)) return;
  Traits own = traits(value);
  if (!own.heavy && own.size <= costs_.repeated_nodes) return;
  while (known_[value->id()].base) value = known_[value->id()].base;
  buffer_of(value);
}

void Lowering::call_extern(const Node& node) {
  ExternCall call;
  call.op = node.op().name;
  call.origin = node.origin();
  call.effects = node.op().effects;
  for (const graph::Argument& argument : node.args()) {
    call.args.push_back(std::visit(
        [&](const auto& arg) -> graph::BasicArgument<int> {
          using T = std::decay_t<decltype(arg)>;
          if constexpr (std::is_same_v<T, Value*>) {
            return buffer_of(arg);
          } else if constexpr (std::is_same_v<T, std::vector<Value*>>) {
            std::vector<int> buffers;
            for (Value* value : arg) buffers.push_back(buffer_of(value));
            return buffers;
          } else if constexpr (std::is_same_v<T, graph::OptionalRefs<Value*>>) {
            graph::OptionalRefs<int> buffers;
            for (const auto& value : arg.refs)
              buffers.refs.push_back(value ? std::optional(buffer_of(*value)) : std::nullopt);
            return buffers;
          } else {
            return arg;
          }
        },
        argument));
  }
  for (Value* result : node.results()) {
    if (!result || uses_[result->id()] == 0) {
      call.results.push_back(-1);
      continue;
    }
    Known& known = known_[result->id()];
    known.buffer =
        add_buffer({.kind = Buffer::Kind::kExtern, .type = result->type(), .value = result});
    call.results.push_back(known.buffer);
  }
  program_.items.push_back(std::move(call));
}

void Lowering::finish_outputs() {
  for (Value* value : graph_.outputs()) program_.outputs.push_back(buffer_of(value));
  for (const graph::Mutation& mutation : graph_.mutations()) {
    const int target = buffer_of(mutation.target);
    program_.mutations.emplace_back(target, mutation_source(mutation.source, mutation.target));
  }
}

// The buffer from which a mutation copies. The copies at the end run one after another, so a source
// that lies in the memory of an input that is itself overwritten is saved first.
int Lowering::mutation_source(Value* source, Value* target) {
  const int buffer = buffer_of(source);
  const Buffer& memory = program_.buffers[buffer];
  const int root = memory.kind == Buffer::Kind::kView ? memory.base : buffer;
  const bool overwritten =
      std::ranges::any_of(graph_.mutations(), [&](const graph::Mutation& mutation) {
        return known_[mutation.target->id()].buffer == root;
      });
  if (!overwritten || source == target) return buffer;
  graph::TensorType type = source->type();
  const sym::Dims sizes = sizes_of(source), strides = sym::contiguous_strides(sizes);
  type.strides = strides;
  type.offset = 0;
  const int copy = add_buffer({.type = type, .value = source});
  KernelBuilder kernel(*this, -1, "fused_copy", sizes);
  kernel.store(copy, strides, kernel.outer(), element(source, kernel.outer()));
  kernel.finish();
  return copy;
}

}  // namespace braze::loop::lowering

namespace braze::loop {

Program lower(const graph::Graph& graph, const target::Target& target, bool deterministic) {
  return lowering::Lowering(graph, target, deterministic).run();
}

graph::Device::Type device_type(const target::Target& target) {
  return std::holds_alternative<target::Cpu>(target) ? graph::Device::Type::kCPU
                                                     : graph::Device::Type::kCUDA;
}

}  // namespace braze::loop
