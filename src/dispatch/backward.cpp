#include "dispatch/backward.h"

#include <ATen/ops/empty_strided.h>

#include <algorithm>

#include "cpython/ref.h"
#include "dispatch/gil.h"
#include "graph/emitter.h"
#include "graph/node_copier.h"
#include "graph/op_kind.h"
#include "graph/substitute.h"
#include "plan/memory_use.h"

namespace braze::dispatch {
namespace {

using graph::Graph;
using graph::InputKind;
using graph::OpKind;
using graph::Value;

// Where there are as many variants as this, tangents in other layouts are copied into the traced
// one.
constexpr size_t kMostVariants = 8;
// Where there are as many that compute only what is wanted, all gradients are computed.
constexpr size_t kMostOfWanted = 4;
// Sets of sizes for which a variant remembers its specialization.
constexpr size_t kMostSizes = 64;

std::vector<int64_t> evaluated(const sym::Dims& dims, std::span<const int64_t> symbols) {
  std::vector<int64_t> values;
  for (const sym::Int& dim : dims) values.push_back(sym::evaluate(dim, symbols));
  return values;
}

// Whether elements lie in the same places, whatever the strides of dimensions of size 1 and less.
bool same_places(c10::IntArrayRef sizes, c10::IntArrayRef a, c10::IntArrayRef b) {
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1 && a[i] != b[i]) return false;
  return true;
}

// The value of `input` in the dense layout of `type`. No copy comes of it: the kernels that read it
// take the elements from where they lie.
Value* in_layout(Graph& graph, Value* input, const graph::TensorType& type) {
  std::vector<int64_t> order(type.sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::ranges::stable_sort(order, std::greater(),
                           [&](int64_t i) { return type.strides[i].hint(); });
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
  graph::Emitter emit(graph, nullptr);
  Value* permuted = emit.permute(input, order);
  Value* dense = emit(OpKind::kclone, {permuted, graph::MemoryFormat::kContiguous});
  return emit.permute(dense, back);
}

// The partition has seen to the activations.
Settings without_budget(Settings settings) {
  settings.activation_memory.reset();
  return settings;
}

}  // namespace

Backward::Backward(Graph graph, std::vector<BackwardInput> inputs, const Settings& settings,
                   const std::vector<at::Tensor>& constants, std::string name)
    : graph_(std::move(graph)),
      inputs_(std::move(inputs)),
      settings_(without_budget(settings)),
      constants_(constants),
      name_(std::move(name)) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const InputKind kind = graph_.inputs()[i].kind;
    if (kind == InputKind::kSaved) kept_.push_back(inputs_[i]);
    if (kind == InputKind::kNumber) numbers_.push_back(inputs_[i].index);
    if (kind == InputKind::kTangent) tangents_.push_back(static_cast<int>(i));
  }
  flows_.assign(tangents_.size(), true);
}

std::unique_ptr<Backward> Backward::stage(passes::BackwardStage& stage,
                                          std::vector<size_t>& kept) const {
  std::vector<BackwardInput> taken;
  int tangents = 0;
  auto next = stage.inputs.begin();
  for (const graph::Input& input : stage.graph.inputs()) {
    if (input.kind == InputKind::kTangent) {
      taken.push_back({BackwardInput::Kind::kTangent, tangents++});
      continue;
    }
    const auto place = graph_.inputs().begin() + *next;
    if (input.kind == InputKind::kSaved)
      kept.push_back(static_cast<size_t>(std::count_if(
          graph_.inputs().begin(), place,
          [](const graph::Input& before) { return before.kind == InputKind::kSaved; })));
    taken.push_back(inputs_[*next++]);
  }
  auto made = std::make_unique<Backward>(std::move(stage.graph), std::move(taken), settings_,
                                         constants_, name_);
  for (size_t i = 0; i < stage.tangents.size(); ++i) made->flows_[i] = stage.tangents[i].flows;
  return made;
}

const graph::TensorType& Backward::tangent_type(size_t tangent) const {
  return graph_.inputs()[tangents_[tangent]].value->type();
}

// Where there are too many ways already, or sizes are symbols, tangents are brought into the
// traced layout here.
Backward::Form Backward::form_of(std::vector<at::Tensor>& tangents,
                                 std::span<const int64_t> symbols) {
  Form form;
  bool is_full = false;
  {
    std::lock_guard lock(mutex_);
    is_full = variants_.size() >= kMostVariants;
  }
  for (size_t i = 0; i < tangents.size(); ++i) {
    at::Tensor& tangent = tangents[i];
    if (!tangent.defined()) {
      form.push_back(-1);
      continue;
    }
    const std::vector<int64_t> strides = evaluated(tangent_type(i).strides, symbols);
    if (same_places(tangent.sizes(), tangent.strides(), strides)) {
      form.push_back(0);
    } else if (is_full || graph_.is_symbolic()) {
      tangent = at::empty_strided(tangent.sizes(), strides, tangent.options()).copy_(tangent);
      form.push_back(0);
    } else {
      form.push_back(1);
      form.insert(form.end(), tangent.strides().begin(), tangent.strides().end());
    }
  }
  return form;
}

// Which values a variant computes. A backward is linear in its tangents: what only absent ones flow
// into is zero, is not computed, and is left out of sums.
struct Backward::Flow {
  Flow(const Graph& graph, const std::vector<int>& tangents, const std::vector<bool>& flows,
       const Form& form, const Wanted& wanted = {})
      : absent(graph.value_count()), needed(graph.value_count()) {
    std::vector<bool> reached(graph.value_count());
    size_t place = 0;
    for (size_t i = 0; i < tangents.size(); ++i) {
      const Value* tangent = graph.inputs()[tangents[i]].value;
      reached[tangent->id()] = flows[i];
      absent[tangent->id()] = form[place] < 0;
      place += form[place] > 0 ? 1 + tangent->type().strides.size() : 1;
    }
    for (const auto& node : graph.nodes()) {
      bool is_reached = false, is_absent = true;
      for (const Value* operand : node->operands()) {
        if (!reached[operand->id()]) continue;
        is_reached = true;
        is_absent = is_absent && absent[operand->id()];
      }
      for (const Value* result : node->results()) {
        if (!result) continue;
        reached[result->id()] = is_reached;
        absent[result->id()] = is_reached && is_absent;
      }
    }
    for (size_t i = 0; i < graph.outputs().size(); ++i)
      if (const int id = graph.outputs()[i]->id(); !absent[id] && (wanted.empty() || wanted[i]))
        needed[id] = true;
    for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
      if (!computes(**node)) continue;
      const Value* term = only_term(**node);
      for (const Value* operand : (*node)->operands())
        needed[operand->id()] = needed[operand->id()] || !term || operand == term;
    }
  }

  bool computes(const graph::Node& node) const {
    return std::ranges::any_of(node.results(), [&](const Value* result) {
      return result && needed[result->id()] && !absent[result->id()];
    });
  }

  // The term that is not absent, where it is the whole sum. Null: the node is no such sum.
  const Value* only_term(const graph::Node& node) const {
    if (node.op().kind != OpKind::kadd_Tensor || node.operands().size() != 2) return nullptr;
    const Value *a = node.operands()[0], *b = node.operands()[1];
    if (absent[a->id()]) std::swap(a, b);
    if (absent[a->id()] || !absent[b->id()]) return nullptr;
    const bool is_plain =
        a->type() == node.result()->type() && node.args()[2] == graph::Argument(sym::Int(1));
    return is_plain ? a : nullptr;
  }

  std::vector<bool> absent, needed;  // by value
};

std::vector<bool> Backward::reached_by(size_t tangent) const {
  Form form(tangents_.size(), -1);
  form[tangent] = 0;
  const Flow flow(graph_, tangents_, flows_, form);
  std::vector<bool> reached;
  for (const Value* output : graph_.outputs()) reached.push_back(!flow.absent[output->id()]);
  return reached;
}

bool Backward::takes_kept(size_t tangent) const {
  Form form(tangents_.size(), -1);
  form[tangent] = 0;
  const Flow flow(graph_, tangents_, flows_, form);
  return std::ranges::any_of(graph_.inputs(), [&](const graph::Input& input) {
    return input.kind == InputKind::kSaved && flow.needed[input.value->id()];
  });
}

std::unique_ptr<Backward::Variant> Backward::make_variant(const Form& form,
                                                          const Wanted& wanted) const {
  const Flow flow(graph_, tangents_, flows_, form, wanted);
  const Flow of_all(graph_, tangents_, flows_, form);
  auto variant = std::make_unique<Variant>();
  variant->form = form;
  variant->wanted = wanted;
  Graph graph;
  graph::NodeCopier copier(graph_, graph);
  std::vector<at::Tensor> constants;
  std::vector<std::pair<const Value*, Value*>> strided;
  size_t place = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const graph::Input& input = graph_.inputs()[i];
    const bool is_needed = flow.needed[input.value->id()];
    if (input.kind == InputKind::kSaved) {
      variant->takes.push_back(is_needed);
      variant->unpacks.push_back(of_all.needed[input.value->id()]);
      if (!is_needed) continue;
      copier.add_input(input);
    } else if (input.kind == InputKind::kTangent) {
      const int64_t how = form[place++];
      if (how < 0) continue;
      Value* copy = copier.add_input(input);
      if (how > 0) {
        graph::TensorType type = input.value->type();
        for (sym::Int& stride : type.strides) stride = form[place++];
        copy->set_type(std::move(type));
        strided.emplace_back(input.value, copy);
      }
    } else {
      copier.add_input(input);
    }
    const bool is_constant = input.kind == InputKind::kConstant;
    constants.push_back(is_constant ? constants_[inputs_[i].index] : at::Tensor());
  }
  graph.set_symbols(graph_.arena(), graph_.symbols());
  graph.set_conditions(graph_.conditions());
  for (const auto& [traced, copy] : strided)
    copier.set(traced, in_layout(graph, copy, traced->type()));
  for (const auto& node : graph_.nodes()) {
    if (!flow.computes(*node)) continue;
    if (const Value* term = flow.only_term(*node)) {
      copier.set(node->result(), copier.at(term));
      continue;
    }
    for (const Value* operand : node->operands())
      if (flow.absent[operand->id()] && !copier.has(operand))
        copier.set(operand, graph::Emitter(graph, nullptr).full(operand->type(), 0.0));
    copier.add(*node);
  }
  std::vector<Value*> outputs;
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const Value* output = graph_.outputs()[i];
    variant->absent.push_back(flow.absent[output->id()] || (!wanted.empty() && !wanted[i]));
    if (!variant->absent.back()) outputs.push_back(copier.at(output));
  }
  std::vector<graph::OutputRole> roles(outputs.size(), {graph::OutputKind::kGradient, {}});
  graph.set_outputs(std::move(outputs), std::move(roles));
  graph::take_own_arena(graph);
  Graph for_aten = graph.clone();
  graph::take_own_arena(for_aten);
  Settings aten = settings_;
  aten.backend = compile::Backend::kAten;
  const std::string name = "backward of " + name_;
  variant->specializations = std::make_unique<Specializations>(
      std::move(graph), graph::DataSymbols{}, settings_, constants, name);
  variant->aten = std::make_unique<Specializations>(std::move(for_aten), graph::DataSymbols{}, aten,
                                                    std::move(constants), name);
  return variant;
}

Backward::Variant& Backward::variant_for(const Form& form, const Wanted& wanted) {
  const auto find = [&]() -> Variant* {
    for (const auto& variant : variants_)
      if (variant->form == form && variant->wanted == wanted) return variant.get();
    return nullptr;
  };
  bool is_full = false;
  {
    std::lock_guard lock(mutex_);
    if (Variant* known = find()) return *known;
    const auto computes_a_part = [](const auto& variant) { return !variant->wanted.empty(); };
    is_full = std::ranges::count_if(variants_, computes_a_part) >= std::ptrdiff_t{kMostOfWanted};
  }
  if (is_full && !wanted.empty()) return variant_for(form, {});
  std::unique_ptr<Variant> made = make_variant(form, wanted);
  std::lock_guard lock(mutex_);
  if (Variant* known = find()) return *known;  // of another thread
  variants_.push_back(std::move(made));
  return *variants_.back();
}

std::shared_ptr<Specialization> Backward::specialization_for(Variant& variant,
                                                             std::span<const int64_t> symbols) {
  {
    std::lock_guard lock(variant.mutex);
    for (const auto& [values, specialization] : variant.by_symbols)
      if (std::ranges::equal(values, symbols)) return specialization;
  }
  std::shared_ptr<Specialization> specialization;
  {
    const Gil gil;
    specialization = variant.specializations->find(symbols);
    if (!specialization) specialization = variant.specializations->add(symbols, nullptr);
  }
  std::lock_guard lock(variant.mutex);
  if (variant.by_symbols.size() >= kMostSizes) variant.by_symbols.clear();
  variant.by_symbols.emplace_back(std::vector<int64_t>(symbols.begin(), symbols.end()),
                                  specialization);
  return specialization;
}

std::string Backward::cuda_graphs() {
  std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& variant : variants_) {
    const std::string graphs = variant->specializations->cuda_graphs();
    if (!graphs.empty()) text += (text.empty() ? "" : "; ") + graphs;
  }
  return text;
}

int64_t Backward::planned_peak(const std::vector<int64_t>& kept_bytes) const {
  const std::unique_ptr<Variant> variant = make_variant(Form(tangents_.size(), 0), {});
  int64_t beside = 0;  // kept, but not for this variant
  std::vector<bool> handed_over;
  size_t next = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const bool is_saved = graph_.inputs()[i].kind == InputKind::kSaved;
    const int64_t bytes =
        inputs_[i].kind == BackwardInput::Kind::kOutput ? kept_bytes[inputs_[i].index] : 0;
    if (is_saved && !variant->takes[next++])
      beside += bytes;
    else
      handed_over.push_back(is_saved && bytes > 0);
  }
  return beside + plan::memory_use(variant->specializations->plan(), handed_over).peak;
}

std::vector<at::Tensor> Backward::run(const Saved& saved, std::vector<at::Tensor> tangents,
                                      std::span<const int64_t> symbols,
                                      std::span<const double> numbers, const Wanted& wanted) {
  const bool wants_all = std::ranges::find(wanted, false) == wanted.end();
  Variant& variant = variant_for(form_of(tangents, symbols), wants_all ? Wanted() : wanted);
  std::vector<c10::TensorImpl*> inputs;
  std::vector<at::Tensor> taken;  // by input
  size_t next = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    at::Tensor tensor;
    switch (graph_.inputs()[i].kind) {
      case InputKind::kTangent:
        tensor = std::move(tangents[inputs_[i].index]);
        if (!tensor.defined()) continue;
        break;
      case InputKind::kSaved:
        if (!variant.unpacks[next++]) continue;
        tensor = saved.unpack(next - 1);
        if (!variant.takes[next - 1]) continue;
        break;
      default:  // bound for good, or given by value
        break;
    }
    inputs.push_back(tensor.defined() ? tensor.unsafeGetTensorImpl() : nullptr);
    taken.push_back(std::move(tensor));
  }
  std::vector<int64_t> values(symbols.begin(), symbols.end());
  std::vector<at::Tensor> gradients;
  std::shared_ptr<Specialization> specialization = specialization_for(variant, symbols);
  const std::span<at::Tensor> handed_over =
      saved.let_go() ? std::span(taken) : std::span<at::Tensor>();
  const auto run = [&](runtime::Executable& executable) {
    executable.run(inputs, gradients, values, numbers, handed_over);
  };
  try {
    run(*specialization->executable);
  } catch (const runtime::NeedsEager&) {
    // What is freed by now cannot be had back.
    for (size_t i = 0; i < inputs.size(); ++i)
      TORCH_CHECK_INDEX(!inputs[i] || taken[i].defined(), "index out of range in the backward of ",
                        name_);
    // PyTorch's operators know what is wrong, if anything is.
    gradients.clear();
    {
      const Gil gil;
      specialization = variant.aten->find(symbols);
      if (!specialization) specialization = variant.aten->add(symbols, nullptr);
    }
    run(*specialization->executable);
  }
  for (size_t i = 0; i < variant.absent.size(); ++i)
    if (variant.absent[i]) gradients.insert(gradients.begin() + i, at::Tensor());
  return gradients;
}

}  // namespace braze::dispatch
