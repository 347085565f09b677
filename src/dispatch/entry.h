// What one capture of a function has given: guards, what to run where they hold, how to make the
// results.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "cpython/live_frame.h"
#include "dispatch/input_versions.h"
#include "dispatch/rollback.h"
#include "dispatch/specializations.h"
#include "dispatch/training.h"
#include "guard/guard.h"
#include "recipe/recipe.h"

namespace braze::dispatch {

enum class EntryKind : uint8_t {
  kEager,   // the original runs; `reason` says why
  kPlan,    // `specializations`
  kPython,  // `python`: what a user's backend returned
};

struct CallArguments {  // of the original function, `self` included
  PyObject* const* args;
  size_t nargsf;
  PyObject* kwnames;
};

struct Entry {
  EntryKind kind = EntryKind::kEager;
  std::unique_ptr<guard::GuardSet> guards;
  size_t input_count = 0;
  std::vector<int> dropped_gradients;  // kPlan; of these inputs: gone before it runs
  std::unique_ptr<Specializations> specializations;
  std::vector<int> floats;  // by number that the compiled code takes: which of the guards' floats
  cpython::Ref python;
  std::vector<cpython::Ref> python_constants;  // kPython: by input, empty where not a constant
  size_t python_outputs = 0;                   // kPython: how many tensors it must return
  std::vector<InputWrites> input_writes;       // kPlan
  RollbackNeeds rollback;                      // kPlan
  std::unique_ptr<Training> training;          // kPlan; where results require grad
  recipe::Recipe recipe;
  // The code and the offset at which the segment begins.
  PyCodeObject* code = nullptr;  // held by the guards
  int offset = 0;
  cpython::Ref names;  // of what kArgument sources count, for messages
  // Exit kBreak: the offsets at which CPython hands the frame back when it takes it to the break,
  // recipe.offset (the breaking instruction) among them.
  std::vector<int> leaves;
  std::unique_ptr<cpython::StopCode> path;  // made when first needed
  // Null where the segment begins with the break.
  const cpython::StopCode* path_to_break();
  capture::ExitKind exit = capture::ExitKind::kGiveUp;
  bool only_python_follows = false;
  std::optional<capture::BreakReason> reason;
  bool single_output = false;  // the recipe is nothing but "return output 0"
  int64_t calls = 0;
  int attempts = 1;  // captures that ended in an exception of the user's, this one among them
  Report report;

  // The capture ended in an exception of the user's: another call may well do better.
  bool is_worth_another_try() const {
    constexpr int kAttempts = 3;
    return ended_in_exception() && attempts < kAttempts;
  }
  bool ended_in_exception() const {
    return kind == EntryKind::kEager && reason && reason->kind == capture::BreakKind::kException;
  }

  enum class Outcome : uint8_t {
    kDone,      // done, or a Python exception is pending
    kRunEager,  // nothing has changed: run the original
    kBroken,    // as kRunEager, and this entry must not be used again; `why` says why
    // The same, but inputs may have changed, so that the original must not run on them: an
    // exception is pending.
    kBrokenHalfway,
  };
  // `bound`, `inputs`: as they were checked by the guards. exit kReturn: *result is the function's
  // result; kBreak: `values` is what the recipe's actions gave.
  Outcome run(PyFunctionObject* function, PyObject* const* bound, c10::TensorImpl* const* inputs,
              PyObject** result, std::vector<cpython::Ref>& values, std::string* why);

 private:
  // `halfway`: inputs may have changed for good by the time a step fails.
  Outcome run_plan(Specialization& specialization, c10::TensorImpl* const* inputs,
                   std::vector<at::Tensor>& outputs, std::span<int64_t> symbols,
                   std::span<const double> numbers, bool halfway, std::string* why);
  bool run_python(c10::TensorImpl* const* inputs, std::vector<cpython::Ref>& outputs);
  // `specialization`: is set to what ran.
  Outcome run_tensors(c10::TensorImpl* const* inputs, std::vector<at::Tensor>& outputs,
                      std::span<int64_t> symbols, std::span<const double> numbers,
                      std::shared_ptr<Specialization>& specialization, std::string* why);
  // Keeps the inputs alive: another thread may drop its last reference to one while the GIL is
  // free.
  std::vector<at::Tensor> hold(c10::TensorImpl* const* inputs) const;
  std::shared_ptr<Specialization> add_specialization(std::span<const int64_t> symbols,
                                                     std::string* why);
  bool has_run_for(const Specialization& specialization, std::span<const int64_t> symbols);

  // Where inputs are written to early: the values of the symbols that it has run for.
  std::set<std::vector<int64_t>> has_run_;
};

// Finds an entry that `fits`, newest first; those that CPython runs come last, because they have no
// guards on values.
template <class Fits>
bool find_newest_first(const std::vector<std::shared_ptr<Entry>>& entries,
                       std::shared_ptr<Entry>& found, Fits&& fits) {
  for (const bool eager : {false, true})
    for (size_t i = entries.size(); i-- > 0;) {
      if (i >= entries.size()) continue;  // a guard that ran code may have taken them away
      if ((entries[i]->kind == EntryKind::kEager) != eager) continue;
      found = entries[i];
      if (!found->is_worth_another_try() && fits(*found)) return true;
    }
  found.reset();
  return false;
}

// Adds an entry; one that ended in an exception takes the place of the last such one.
void publish(std::vector<std::shared_ptr<Entry>>& entries, std::shared_ptr<Entry> entry);

}  // namespace braze::dispatch
