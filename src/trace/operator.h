// What the recording needs to know of an ATen operator, worked out once per process.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "graph/call_facts.h"
#include "graph/op.h"
#include "pytorch/operators.h"
#include "trace/rules/rules.h"

namespace braze::graph {
struct InferEntry;
}

namespace braze::trace {

// How a call of the operator is treated.
enum class Treatment : uint8_t {
  kRecord,     // metadata, fakes, a node
  kComposite,  // decomposed by PyTorch's own kernel; what it calls comes back
  kEvaluate,   // reads data: run for real on constants of the trace, else a break
  kMetadata,   // reads metadata only: run as is, nothing recorded
  kLiteral,    // lift_fresh: a tensor made from Python numbers
  kBatchNorm,  // native_batch_norm: writes to arguments without saying so in its schema
  kResize,     // resize_
  kProbe,      // recorded; the CPU's kernel is run on zeros for its results' metadata
  kBreak,
};

enum class ArgumentKind : uint8_t {
  kTensor,
  kTensors,
  kOptionalTensors,
  kInt,
  kFloat,
  kBool,
  kScalar,
  kString,
  kInts,
  kFloats,
  kBools,
  kScalars,
  kDType,
  kDevice,
  kMemoryFormat,
  kLayout,
  kUnsupported,
};

struct OperatorInfo {
  explicit OperatorInfo(const c10::OperatorHandle& handle);

  c10::OperatorHandle handle;
  Treatment treatment = Treatment::kRecord;
  uint32_t facts = 0;  // of graph::CallFact
  Rules rules;
  // kComposite: where its kernel for composing is found. A kernel of the CPU's own, which some
  // operators have beside it (`mish_backward`), reads data.
  c10::DispatchKey composed_by = c10::DispatchKey::CPU;
  const char* what = nullptr;     // kBreak: why
  const graph::Op* op = nullptr;  // as recorded; an in-place view op is recorded as the view op
  // The overload that takes a number where this one takes tensor argument 1; null: none.
  const graph::Op* op_with_number = nullptr;
  std::vector<ArgumentKind> arguments;
  std::vector<bool> is_size;  // an argument: sizes are symbols in the schema, dimensions are not
  std::vector<int> device_arguments;
  std::vector<int> mutates;  // positions of tensor arguments written to
  int dtype_argument = -1;   // named "dtype"
  // That name dimensions of argument 0, which must have them.
  std::vector<int> dim_arguments;
  int result_count = 0;
  bool returns_tensor = false;
  bool returns_list = false;  // its one result is a list of tensors
  bool takes_tensor = false;
  bool random = false;
  bool inplace_view = false;
  // Metadata: a rule of trace/rules/; else one of graph/infer/; else a C++ kernel; else what the
  // dispatcher has for Meta.
  const graph::InferEntry* infer = nullptr;
  bool infer_always = false;  // with numbers for sizes too
  const c10::KernelFunction* kernel = nullptr;
  bool python_kernel = false;  // only a Python function serves Meta
  bool is_custom = false;      // not of PyTorch's own namespaces: its Python kernel is the user's
  bool probe_allowed = true;   // false: its kernel is Python code and must not run while tracing
  bool uncertain_kernel = false;   // composite: what it calls may have no kernel for metadata
  bool may_refuse_data = false;    // graph/data_errors.h
  bool may_refuse_dtypes = false;  // trace/dtype_errors.h
  bool elementwise = false;  // a result's element follows from the operands' elements of its place
  bool in_place_elementwise = false;  // its operands have the sizes of argument 0, or fewer

  bool has(graph::CallFact fact) const { return (facts & fact) != 0; }
};

using pytorch::graph_name;

const OperatorInfo& operator_info(const c10::OperatorHandle& handle);
// Hears of operators that go, from now on. Once a process, with its import: PyTorch goes through
// all of its operators for it, as it does for a fallback.
void watch_operators();

// hidden_kernels.cpp
struct HiddenKernel {
  const c10::KernelFunction* kernel = nullptr;
  bool composite = false;
  bool only_python = false;  // no C++ kernel gives metadata
  bool runs_python = false;  // the operator itself is a Python function, with effects unknown
};
HiddenKernel hidden_kernel(const c10::OperatorHandle& handle);

}  // namespace braze::trace
