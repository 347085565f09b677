// What the evaluation may do with code that it does not evaluate itself.
//
// Frames: user code and libraries are evaluated, PyTorch's own too unless torch_code.h lists it;
// the standard library as well, unless torch calls it. Native callees: each is listed by identity,
// type or name with what it does to its arguments. One that is not listed and is given something
// mutable from outside is a break.
#pragma once

#include <string>
#include <string_view>

#include "capture/breaks/reason.h"
#include "cpython/ref.h"

namespace braze::capture {

enum class FramePolicy : uint8_t { kInline, kLibrary, kNative };
FramePolicy frame_policy(PyObject* globals);

// Of one function; a few differ from their module.
struct CodePolicy {
  FramePolicy frame;
  bool is_torch = false;
  bool is_stand_in = false;       // of Braze, evaluated in the place of a function of torch
  bool may_warn = false;          // a function of torch that is native but for its warnings
  const char* refused = nullptr;  // of torch: why it is not called in a trace
  bool is_random = false;         // of torch.random: not even by other code of torch
};
CodePolicy code_policy(PyCodeObject* code, PyObject* globals);

// Why a function of a library that runs natively must not run while tracing; null: it may.
struct LibraryBreak {
  BreakKind kind;
  const char* why;
};
const LibraryBreak* library_break(PyObject* globals, std::string_view qualname);

// Whether a function of a library, which it calls through a cache, gives what is only read and
// depends on its arguments alone: who has it from the cache and who works it out cannot tell.
bool gives_what_is_only_read(PyObject* globals, std::string_view name);

// Asks the interpreter for the frame that called it, where a frame under evaluation is none.
bool asks_for_caller(PyCodeObject* code);
// Classes in C whose instances have the module of who makes them: those of typing, from 3.12 on.
bool asks_for_caller(PyTypeObject* type);

// How a call at a break is made: by CPython alone; with the function's frame captured as well (its
// frames are evaluated, and it is not marked with braze.disable); or with the frame in eager and
// the calls that it makes carried out as if they were at breaks (disable(recursive=False)).
// `kStepsInside`: so is the frame of the function that this one wraps.
enum class Drive : uint8_t { kNot, kCapture, kSteps, kStepsInside };
Drive how_to_drive(PyFunctionObject* function);
bool may_drive_code(PyObject* globals);
// `__call__` of the class of an instance, if it is a Python function that a call runs; else empty.
cpython::Ref python_call_method(PyObject* instance);

// A module of torch's own Python code (also torch.nn.functional, not the user's).
bool is_torch_module_name(PyObject* name);
bool is_numpy_module_name(PyObject* name);

enum class Callee : uint8_t {
  kUnlisted,  // must not be given anything mutable from outside
  kReadOnly,  // reads its arguments, calls back into Python at most
  kBreak,
  kGraphBreak,   // braze.graph_break(msg)
  kExpect,       // braze._C.expect(condition)
  kOperand,      // braze._C.operand(value, tensor)
  kBackward,     // braze._C.run_backward
  kLate,         // braze._C.call_later
  kControlFlow,  // braze._C.branch and its companions: `CalleeRule::op` is a ControlFlowCall
  // Builtins that the evaluation carries out itself.
  kGetattr,
  kHasattr,
  kSetattr,
  kDelattr,
  kIsinstance,
  kLen,
  kIter,
  kNext,
  kReadItem,   // operator.getitem
  kWriteItem,  // operator.setitem
  kDeleteItem,
  kOperator,  // operator.add ...: `CalleeRule::op`
  kVars,
  kChangesFirst,  // changes its first argument, reads the others
  kDefer,         // made when the compiled code runs
  kBuildClass,
  kPrint,
  kWarn,
  kIdentity,        // id(), hash(): the result depends on addresses
  kElementwise,     // braze._C.elementwise
  kElementProgram,  // braze._C.element_program
};

// What torch.cond and torch.while_loop are made of in a capture (python/braze/_control_flow.py).
#define BRAZE_CONTROL_FLOW_CALLS(X)                                                           \
  X(Branch, "branch", "branch(function, arguments): (number, what it gives) of a region.")    \
  X(Parameters, "parameters", "parameters(tensors): tensors that stand for those of a turn.") \
  X(Choose, "choose", "choose(predicate, yes, no): tensors that one of the regions gives.")   \
  X(Repeat, "repeat", "repeat(condition, body, carried): tensors that a loop ends with.")     \
  X(Decline, "decline", "decline(why): the operator is a break.")
enum class ControlFlowCall : uint8_t {
#define X(id, name, text) k##id,
  BRAZE_CONTROL_FLOW_CALLS(X)
#undef X
};

struct CalleeRule {
  Callee callee = Callee::kUnlisted;
  BreakKind kind = BreakKind::kNativeCall;
  int op = 0;        // NB_... of an operator function, ControlFlowCall
  std::string text;  // kBreak: "print(): writes output"
};

// The rule for a builtin function or type, by identity; null if it is not listed.
const CalleeRule* callee_rule(PyObject* callable);
void add_rule(PyObject* callable, CalleeRule rule);

// C functions of these modules never keep or change what they are given, and depend on nothing
// else.
bool is_pure_c_module(const char* module);
// Types made in C whose instances may be made by a trace.
bool may_instantiate(PyTypeObject* type);
// dict.fromkeys, str.maketrans, ...
bool is_class_method_of_builtin(PyTypeObject* type, const char* name);

// Methods of C types, by name.
enum class MethodEffect : uint8_t { kRead, kMutate, kUnlisted };
MethodEffect container_method(const char* name);
// A method of a C type that is no container, called on an object from outside.
bool is_reading_method(PyTypeObject* type, const char* name);

// Whether a function of PyTorch's native code is a method of the object, and that has state: a
// future, a store, a piece of communication. Enumerations and sets of dispatch keys are values.
bool is_method_of_native_object(PyObject* function, PyObject* self, const char* name);

// --- torch
// Attributes of a tensor that are metadata (shape, dtype, ...), views, or stand alone.
enum class TensorAttribute : uint8_t { kMetadata, kTensor, kData, kGradient, kBreak, kOther };
TensorAttribute tensor_attribute(const char* name);
// Why a tensor method bypasses the dispatcher; null if it does not.
const char* tensor_method_break(const char* name);
// Of a function of torch, by its module and name.
struct TorchFunctionPolicy {
  const char* refused;  // why it may not be called in a trace; null if it may
  // Made in C: it tells, called without arguments, what a switch stands at.
  bool reads_a_switch;
  // Made in C and no operator: it may be given tensors of a trace. Those of torch._C that users are
  // not meant to call may do anything with them.
  bool may_see_fakes;
  // Made in Python: it may be given modules and other outside objects.
  bool takes_objects;
};
TorchFunctionPolicy torch_function_policy(const char* module, const char* name);
// Makes a tensor of lists of numbers, past the dispatcher: the data of tensors in them is read
// without a trace of it.
bool copies_data(const char* name);
// Says something to torch.compile only: nothing to do.
bool is_hint_function(const char* module, const char* name);

bool initialize_builtin_rules();

}  // namespace braze::capture
