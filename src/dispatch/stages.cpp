#include "dispatch/stages.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "cpython/ref.h"
#include "dispatch/gil.h"
#include "dispatch/tensors.h"
#include "runtime/extern_call.h"

namespace braze::dispatch {
namespace {

// Whether all symbols of an expression are.
bool all_known(sym::Int value, const std::vector<bool>& known) {
  if (value.is_constant()) return true;
  const sym::Expr* e = value.expr();
  if (e->kind == sym::ExprKind::kSymbol) return known[e->symbol];
  return all_known(e->a, known) && all_known(e->b, known) &&
         std::all_of(e->terms.begin(), e->terms.end(),
                     [&](const auto& term) { return all_known(sym::Int(term.first), known); });
}

bool all_known(const sym::Condition& condition, const std::vector<bool>& known) {
  return all_known(condition.a, known) && all_known(condition.b, known);
}

int64_t integer_in(const at::Tensor& tensor) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return tensor.item().toLong();
}

bool truth_of(const at::Tensor& tensor) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return tensor.item().toBool();
}

// What the code behind was made for.
bool has_layout(const at::Tensor& tensor, const graph::TensorType& type,
                std::span<const int64_t> symbols) {
  if (tensor.dim() != type.rank()) return false;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) != sym::evaluate(type.sizes[dim], symbols)) return false;
    if (tensor.size(dim) > 1 && tensor.numel() > 0 &&
        tensor.stride(dim) != sym::evaluate(type.strides[dim], symbols))
      return false;
  }
  return true;
}

// A loop without end can be interrupted.
void check_signals() {
  if (PyErr_CheckSignals() < 0) throw Interrupted();
}

}  // namespace

Stages::~Stages() = default;

Stages::Stages(const graph::Graph& graph, std::span<const int> data_symbols,
               std::vector<sym::Condition> assertions, const Settings& settings,
               std::vector<at::Tensor> constants, std::string name)
    : staged_(graph::split_at_data(graph, data_symbols)),
      assertions_(std::move(assertions)),
      constants_(std::move(constants)) {
  for (size_t i = 0; i < graph.symbols().size(); ++i)
    ranges_.push_back(graph.arena()->range(static_cast<int>(i)));
  std::vector<bool> known(graph.symbols().size(), true);
  for (int symbol : data_symbols) known[symbol] = false;
  for (graph::Stage& stage : staged_.stages) {
    std::vector<at::Tensor> own;
    for (int source : stage.inputs) {
      auto input = std::find(staged_.inputs.begin(), staged_.inputs.end(), source);
      own.push_back(input == staged_.inputs.end() ? at::Tensor()
                                                  : constants_[input - staged_.inputs.begin()]);
    }
    programs_.push_back(stage.empty() ? nullptr
                                      : std::make_unique<Programs>(std::move(stage.graph), settings,
                                                                   std::move(own), name));
    readers_.emplace_back();
    if (stage.read) add_reader(*stage.read, known);
    Control& control = controls_.emplace_back();
    if (stage.cond) {
      control.first = inner(std::move(stage.cond->yes), settings, name);
      control.second = inner(std::move(stage.cond->no), settings, name);
    } else if (stage.loop) {
      control.first = inner(std::move(stage.loop->condition), settings, name);
      control.second = inner(std::move(stage.loop->body), settings, name);
    }
  }
}

Stages::Inner Stages::inner(graph::Region region, const Settings& settings,
                            const std::string& name) {
  std::vector<at::Tensor> constants(region.graph.inputs().size());
  return {.stages = std::make_unique<Stages>(region.graph, std::span<const int>(),
                                             std::vector<sym::Condition>(), settings,
                                             std::move(constants), name),
          .inputs = std::move(region.inputs)};
}

void Stages::add_reader(const graph::Stage::Read& read, std::vector<bool>& known) {
  std::vector<bool> before = known;
  for (const auto& size : read.symbols) known[size.symbol] = true;
  Reader& reader = readers_.back();
  for (size_t i = 0; i < assertions_.size(); ++i)
    if (all_known(assertions_[i], known) && !all_known(assertions_[i], before))
      reader.assertions.push_back(i);
  if (read.op == "braze.item") return;
  reader.function.slots.resize(staged_.register_count);
  for (plan::Slot& slot : reader.function.slots) slot.kind = plan::SlotKind::kExtern;
  reader.function.steps.emplace_back(
      plan::ExternStep{.op = read.op, .args = read.args, .results = read.results});
}

void Stages::build(std::span<const int64_t> symbols, Report* report) {
  for (const std::unique_ptr<Programs>& programs : programs_) {
    if (!programs) continue;
    Report own;
    const std::shared_ptr<Program> program = programs->add(symbols, report ? &own : nullptr);
    if (programs == programs_.back()) writes_inputs_early_ = program->writes_inputs_early;
    if (report) report->add(own);
  }
  for (Control& control : controls_)
    for (std::optional<Inner>* region : {&control.first, &control.second})
      if (*region) (*region)->stages->build(symbols, report);
  for (Reader& reader : readers_) {
    if (reader.function.steps.empty()) continue;
    reader.binder = std::make_unique<plan::Binder>(reader.function);
    reader.call = std::make_unique<runtime::ExternCall>(
        reader.function, std::get<plan::ExternStep>(reader.function.steps[0]));
  }
}

void Stages::run_stage(size_t number, std::vector<at::Tensor>& registers,
                       std::span<const int64_t> symbols) {
  Programs* programs = programs_[number].get();
  if (!programs) return;
  std::shared_ptr<Program> program = programs->find(symbols);
  if (!program) program = programs->add(symbols, nullptr);
  const graph::Stage& stage = staged_.stages[number];
  std::vector<c10::TensorImpl*> inputs;
  for (int source : stage.inputs) inputs.push_back(registers[source].unsafeGetTensorImpl());
  std::vector<at::Tensor> outputs;
  {
    GilRelease gil(program->releases_gil);
    program->executable->run(inputs, outputs, symbols);
  }
  for (size_t i = 0; i < outputs.size(); ++i) registers[stage.outputs[i]] = std::move(outputs[i]);
}

void Stages::read(size_t number, std::vector<at::Tensor>& registers, std::span<int64_t> symbols) {
  const graph::Stage::Read& read = *staged_.stages[number].read;
  const Reader& reader = readers_[number];
  {
    GilRelease gil(true);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    if (reader.call)
      reader.call->run(registers, {}, runtime::Shapes(*reader.binder, reader.numbers),
                       /*check=*/false);
    for (const auto& size : read.symbols) {
      int64_t& value = symbols[size.symbol];
      value = size.result < 0 ? integer_in(registers[std::get<int>(read.args[0])])
                              : registers[read.results[size.result]].size(size.dim);
    }
  }
  // What is out of range is nothing that the code was traced for.
  for (const auto& size : read.symbols) {
    const int64_t value = symbols[size.symbol];
    if (value < ranges_[size.symbol].low || value > ranges_[size.symbol].high)
      throw runtime::NeedsEager();
  }
  for (size_t i = 0; i < read.results.size(); ++i)
    if (read.results[i] >= 0 && !has_layout(registers[read.results[i]], read.types[i], symbols))
      throw runtime::NeedsEager();
  for (size_t assertion : reader.assertions)
    if (!sym::holds(assertions_[assertion], symbols)) throw runtime::NeedsEager();
}

std::vector<at::Tensor> Stages::Inner::run(std::span<const at::Tensor> registers,
                                           std::span<const at::Tensor> parameters,
                                           std::span<int64_t> symbols) const {
  std::vector<c10::TensorImpl*> given;
  for (int source : inputs)
    given.push_back(
        (source >= 0 ? registers[source] : parameters[-1 - source]).unsafeGetTensorImpl());
  std::vector<at::Tensor> outputs;
  stages->run(given, outputs, symbols);
  return outputs;
}

void Stages::decide(size_t number, std::vector<at::Tensor>& registers, std::span<int64_t> symbols) {
  const graph::Stage::Cond& cond = *staged_.stages[number].cond;
  const Control& control = controls_[number];
  const Inner& chosen = truth_of(registers[cond.predicate]) ? *control.first : *control.second;
  std::vector<at::Tensor> outputs = chosen.run(registers, {}, symbols);
  for (size_t i = 0; i < outputs.size(); ++i) registers[cond.results[i]] = std::move(outputs[i]);
}

void Stages::loop(size_t number, std::vector<at::Tensor>& registers, std::span<int64_t> symbols) {
  const graph::Stage::Loop& loop = *staged_.stages[number].loop;
  const Control& control = controls_[number];
  std::vector<at::Tensor> carried;
  for (int source : loop.carried) carried.push_back(registers[source]);
  bool entered = false;
  while (truth_of(control.first->run(registers, carried, symbols).at(0))) {
    carried = control.second->run(registers, carried, symbols);
    entered = true;
    check_signals();
  }
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (size_t i = 0; i < carried.size(); ++i)
    registers[loop.results[i]] = entered ? std::move(carried[i]) : carried[i].clone();
}

void Stages::run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs,
                 std::span<int64_t> symbols) {
  std::vector<at::Tensor> registers(staged_.register_count);
  for (size_t i = 0; i < inputs.size(); ++i)
    registers[staged_.inputs[i]] = inputs[i] ? borrow(inputs[i]) : constants_[i];
  for (size_t i = 0; i < staged_.stages.size(); ++i) {
    run_stage(i, registers, symbols);
    const graph::Stage& stage = staged_.stages[i];
    if (stage.read) read(i, registers, symbols);
    if (stage.cond) decide(i, registers, symbols);
    if (stage.loop) loop(i, registers, symbols);
  }
  for (int output : staged_.outputs) outputs.push_back(registers[output]);
}

}  // namespace braze::dispatch
