// One compiled specialisation of a function: guards, what to run, how to make the results.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "capture/capture.h"
#include "guard/guard.h"
#include "runtime/executable.h"

namespace braze::dispatch {

struct Report {  // texts and times of one compile, for explain and logs
  std::string graph, schedule, plan, code;
  double capture = 0, trace = 0, passes = 0, lower = 0, schedule_time = 0, codegen = 0, build = 0,
         total = 0;
  bool from_cache = false;
  int64_t bytecodes = 0, nodes = 0, guard_count = 0;
};

enum class EntryKind : uint8_t {
  kEager,   // the original runs; `reason` says why
  kPlan,    // `executable`
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
  std::unique_ptr<runtime::Executable> executable;
  cpython::Ref python;
  std::vector<cpython::Ref> python_constants;  // kPython: by input, empty where not a constant
  capture::Recipe recipe;
  capture::ExitKind exit = capture::ExitKind::kGiveUp;
  std::optional<capture::BreakReason> reason;
  bool single_output = false;  // the recipe is nothing but "return output 0"
  bool releases_gil = false;
  bool writes_inputs_early = false;  // inputs may have changed by the time a step fails
  int64_t calls = 0;
  Report report;

  enum class Outcome : uint8_t {
    kDone,      // result is set, or null with a Python exception pending
    kRunEager,  // nothing has changed: run the original
    kBroken,    // as kRunEager, and this entry must not be used again; `why` says why
  };
  Outcome run(PyFunctionObject* function, PyObject* const* bound, const CallArguments& call,
              c10::TensorImpl* const* inputs, PyObject** result, std::string* why);

 private:
  Outcome run_plan(c10::TensorImpl* const* inputs, std::vector<at::Tensor>& outputs,
                   std::string* why);
  PyObject* finish(PyFunctionObject* function, PyObject* const* bound, const CallArguments& call,
                   std::span<PyObject* const> outputs) const;
};

}  // namespace braze::dispatch
