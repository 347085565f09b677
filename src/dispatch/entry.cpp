#include "dispatch/entry.h"

#include <c10/util/SmallVector.h>

#include "dispatch/gil.h"
#include "dispatch/output_states.h"
#include "dispatch/tensors.h"
#include "torch_python/errors.h"

namespace braze::dispatch {
namespace {

using cpython::Ref;

// Runs compiled code and tells defects of Braze from the user's errors (an index out of range, no
// memory), which eager raises where they belong.
template <class Run>
Entry::Outcome outcome_of(bool halfway, std::string* why, Run&& run) {
  try {
    run();
    return Entry::Outcome::kDone;
  } catch (const runtime::NeedsEager&) {
    return Entry::Outcome::kRunEager;
  } catch (const InternalError& error) {
    *why = error.what();
    if (!halfway) return Entry::Outcome::kBroken;
    PyErr_Format(PyExc_RuntimeError,
                 "braze: internal error in compiled code that had written to its inputs: %s",
                 error.what());
    return Entry::Outcome::kBrokenHalfway;
  } catch (const std::exception&) {  // c10::Error, and what PyTorch throws besides
    if (!halfway) return Entry::Outcome::kRunEager;
    throw;
  }
}

}  // namespace

std::vector<at::Tensor> Entry::hold(c10::TensorImpl* const* inputs) const {
  std::vector<at::Tensor> held;
  held.reserve(input_count);
  for (size_t i = 0; i < input_count; ++i)
    if (inputs[i]) held.push_back(borrow(inputs[i]));
  return held;
}

std::shared_ptr<Specialization> Entry::add_specialization(std::span<const int64_t> symbols,
                                                          std::string* why) {
  try {
    return specializations->add(symbols, nullptr);
  } catch (const std::exception& error) {
    *why = error.what();
    return nullptr;
  }
}

Entry::Outcome Entry::run_plan(Specialization& specialization, c10::TensorImpl* const* inputs,
                               std::vector<at::Tensor>& outputs, std::span<int64_t> symbols,
                               std::span<const double> numbers, bool halfway, std::string* why) {
  const std::vector<at::Tensor> held =
      specialization.releases_gil ? hold(inputs) : std::vector<at::Tensor>();
  return outcome_of(halfway, why, [&] {
    GilRelease gil(specialization.releases_gil);
    try {
      specialization.executable->run({inputs, input_count}, outputs, symbols, numbers);
    } catch (const Interrupted&) {  // done, with an exception pending
    }
  });
}

// kDone with an exception pending where inputs have changed by the time a step fails.
Entry::Outcome Entry::run_tensors(c10::TensorImpl* const* inputs, std::vector<at::Tensor>& outputs,
                                  std::span<int64_t> symbols, std::span<const double> numbers,
                                  std::shared_ptr<Specialization>& specialization,
                                  std::string* why) {
  Outcome outcome = Outcome::kDone;
  std::vector<at::Tensor> held;
  for (const InputWrites& write : input_writes)  // counted at the end
    if (inputs[write.input]) held.push_back(borrow(inputs[write.input]));
  specialization = specializations->find(symbols);
  if (!specialization) {
    held = hold(inputs);
    specialization = add_specialization(symbols, why);
  }
  if (!specialization) return Outcome::kBroken;
  outputs.reserve(specialization->executable->function().outputs.size());
  const bool writes_early = specialization->writes_inputs_early;
  const bool first = writes_early && !has_run_for(*specialization, symbols);
  Rollback saved(rollback, inputs, writes_early, first);
  const bool halfway = !saved.is_complete();
  const auto run = [&] {
    outcome = run_plan(*specialization, inputs, outputs, symbols, numbers, halfway, why);
  };
  if (halfway)
    torch_python::translate_exceptions(run);
  else
    run();
  if (outcome == Outcome::kRunEager || outcome == Outcome::kBroken) saved.undo();
  if (outcome == Outcome::kDone && first) has_run_.emplace(symbols.begin(), symbols.end());
  if (outcome == Outcome::kDone || outcome == Outcome::kBrokenHalfway)
    add_versions(input_writes, inputs);
  return outcome;
}

// Never of code that reads sizes from data.
bool Entry::has_run_for(const Specialization& specialization, std::span<const int64_t> symbols) {
  constexpr size_t kMost = 64;
  if (specialization.executable->has_control()) return false;
  if (has_run_.size() > kMost) has_run_.clear();
  return has_run_.contains({symbols.begin(), symbols.end()});
}

// What a user's backend returned is run. False with an exception set.
bool Entry::run_python(c10::TensorImpl* const* inputs, std::vector<Ref>& outputs) {
  std::vector<PyObject*> arguments;
  std::vector<Ref> owned;
  for (size_t i = 0; i < input_count; ++i) {
    owned.push_back(inputs[i] ? Ref::steal(wrap(borrow(inputs[i]))) : python_constants[i]);
    if (!owned.back()) return false;
    arguments.push_back(owned.back().get());
  }
  const Ref returned =
      Ref::steal(PyObject_Vectorcall(python.get(), arguments.data(), arguments.size(), nullptr));
  if (!returned) return false;
  const bool is_sequence = PyTuple_Check(returned.get()) || PyList_Check(returned.get());
  const Py_ssize_t count = is_sequence ? PySequence_Fast_GET_SIZE(returned.get()) : 0;
  bool fits = is_sequence && static_cast<size_t>(count) == python_outputs;
  for (Py_ssize_t i = 0; i < count && fits; ++i) {
    outputs.push_back(Ref::borrow(PySequence_Fast_GET_ITEM(returned.get(), i)));
    fits = is_tensor(outputs.back().get());
  }
  if (!fits)
    PyErr_Format(PyExc_TypeError,
                 "what the backend returned must give a tuple of %zu tensors, as the graph does, "
                 "not %R [E115]",
                 python_outputs, returned.get());
  return fits;
}

void publish(std::vector<std::shared_ptr<Entry>>& entries, std::shared_ptr<Entry> entry) {
  if (entry->ended_in_exception())
    std::erase_if(entries, [&](const std::shared_ptr<Entry>& known) {
      if (!known->ended_in_exception()) return false;
      entry->attempts += known->attempts;
      return true;
    });
  entries.push_back(std::move(entry));
}

const cpython::StopCode* Entry::path_to_break() {
  if (!path && recipe.offset != offset)
    path = std::make_unique<cpython::StopCode>(code, cpython::with_generator_exits(code, leaves));
  return path.get();
}

Entry::Outcome Entry::run(PyFunctionObject* function, PyObject* const* bound,
                          c10::TensorImpl* const* inputs, PyObject** result,
                          std::vector<Ref>& values, std::string* why) {
  ++calls;
  *result = nullptr;
  if (kind == EntryKind::kEager) return Outcome::kRunEager;
  std::vector<Ref> outputs;
  // A copy: other threads may check the guards meanwhile.
  const std::span<const int64_t> checked = guards->symbols();
  std::vector<int64_t> symbols(checked.begin(), checked.end());
  if (kind == EntryKind::kPlan) {
    std::vector<at::Tensor> tensors;
    c10::SmallVector<double, 8> numbers;
    for (int number : floats) numbers.push_back(guards->floats()[number]);
    // The backward's node is made from the inputs after the run, during which the GIL may be free.
    const std::vector<at::Tensor> held = training ? hold(inputs) : std::vector<at::Tensor>();
    std::shared_ptr<const pytorch::GeneratorState> drawn_from;
    if (training && training->draws())
      drawn_from = std::make_shared<const pytorch::GeneratorState>(training->gpu());
    for (const int input : dropped_gradients)
      if (inputs[input]->grad().defined()) inputs[input]->mutable_grad().reset();
    std::shared_ptr<Specialization> specialization;
    const Outcome outcome = run_tensors(inputs, tensors, symbols, numbers, specialization, why);
    if (outcome != Outcome::kDone || PyErr_Occurred()) return outcome;
    std::vector<at::Tensor> kept;
    if (training) kept = training->take_kept(tensors);
    take_states(tensors, specialization->executable->outputs(), {inputs, input_count});
    if (training)
      training->give_history(inputs, tensors, std::move(kept), symbols, numbers,
                             std::move(drawn_from));
    if (single_output) {
      *result = wrap(std::move(tensors[0]));
      return Outcome::kDone;
    }
    for (at::Tensor& tensor : tensors) {
      outputs.push_back(Ref::steal(wrap(std::move(tensor))));
      if (!outputs.back()) return Outcome::kDone;
    }
  } else if (!run_python(inputs, outputs)) {
    return Outcome::kDone;
  }
  std::vector<PyObject*> raw;
  raw.reserve(outputs.size());
  for (const Ref& output : outputs) raw.push_back(output.get());
  if (recipe.run(reinterpret_cast<PyObject*>(function), bound, raw, symbols, values) &&
      exit == capture::ExitKind::kReturn)
    *result = values.at(static_cast<size_t>(recipe.result)).release();
  return Outcome::kDone;
}

}  // namespace braze::dispatch
