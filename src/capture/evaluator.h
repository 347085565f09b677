// The symbolic evaluator: CPython's instructions over real objects.
//
// One Evaluator carries out one trace. Tensors from outside stay the real objects; results of torch
// ops are fakes. Every read of something that existed before is guarded and every write to it is
// logged, through `World`. Python code that native code calls back into comes to `hook_frame`.
// A break is a pending Python exception (`Breaks`).
//
// Conventions: an empty Slot, a false or a null means that an exception is pending.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "capture/capture.h"
#include "capture/frames/frame.h"
#include "capture/objects/memo.h"
#include "capture/policy/policy.h"
#include "capture/world/world.h"
#include "cpython/code.h"
#include "cpython/frame.h"

namespace braze::capture {

// What functions marked with assume_constant_result gave: each is called once in a capture, whose
// traces make the same calls.
struct ConstantResult {
  Ref function, result;
};
using ConstantResults = std::vector<ConstantResult>;

class Evaluator {
 public:
  Evaluator(PyFunctionObject* root, PyObject* parameter_names, const Options& options);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;

  // Evaluates the root function on bound parameters. `stop_at`: the number of instructions of the
  // root frame before which to stop (`stopped_frame` then holds its state), or -1.
  Slot run_root(PyObject* const* args, int64_t stop_at);

  World& world() { return world_; }
  Breaks& breaks() { return breaks_; }
  Recording& recording() { return recording_; }
  Draft::Statistics& statistics() { return statistics_; }
  const std::unique_ptr<Frame>& stopped_frame() const { return stopped_frame_; }
  // Where in the root frame the break happened: instructions executed, the breaking one included.
  int64_t break_at() const { return break_at_; }
  // The instruction where it happened (index), and those of the root frame that were carried out.
  int break_index() const { return break_index_; }
  const std::vector<bool>& path() const { return path_; }
  bool made_class() const { return made_class_; }
  int64_t recorded_nodes() const { return recorded_nodes_; }
  // As break_at, of the outermost exception that the root frame is handling, or handled last; -1:
  // none.
  int64_t handling_since() const { return handling_.empty() ? last_handled_ : handling_.front(); }
  // Objects of torch made by the traced code that put torch's state back when they end.
  const std::vector<Ref>& state_guards() const { return state_guards_; }
  bool is_state_guard(PyObject* object) const {
    for (const Ref& guard : state_guards_)
      if (guard.get() == object) return true;
    return false;
  }
  struct DeferredCall {
    Slot callable;
    std::vector<Slot> args;
    Ref kwnames;
  };
  const std::vector<DeferredCall>& deferred() const { return deferred_; }
  Ref torch_calls() const { return torch_calls_; }
  bool context_changed() const;
  // Where the exception that left the root frame was raised.
  const std::vector<StackEntry>& error_stack() const { return error_stack_; }
  // KeyboardInterrupt or the like is pending: passed through.
  bool interrupted() const { return interrupted_; }
  void release_frames();
  // The trace is over: generators that it leaves end without their handlers.
  void end() {
    stopped_ = true;
    release_frames();
  }
  const std::vector<Ref>& addresses() const { return addresses_; }

  // --- frames/evaluate.cpp, frames/hook.cpp: frames
  Slot start(std::unique_ptr<Frame> frame);
  Status run(Frame& frame, Slot& result, bool throwing);
  Status run_instructions(Frame& frame, Slot& result, bool raised);
  std::unique_ptr<Frame> new_frame(const CodeInfo& info);
  void recycle(std::unique_ptr<Frame> frame);
  Frame* top() { return top_; }
  static PyObject* hook(void* context, PyThreadState* thread, cpython::FrameView view,
                        bool throwing);

  // --- objects/operators.cpp, objects/iteration.cpp
  Slot binary(int op, Slot a, Slot b);
  Slot unary(cpython::Opcode op, const Slot& a);
  Slot compare(const Slot& a, const Slot& b, int op, bool to_bool);
  int truth(const Slot& value);  // -1: error
  int contains(const Slot& container, const Slot& value);
  Slot format(const Slot& value, const Slot& spec, int conversion);
  Slot get_iter(const Slot& iterable);
  // `keep_stop`: a StopIteration that the iterator itself has raised stays pending.
  Slot next(const Slot& iterator, bool& exhausted, bool keep_stop = false);
  Slot is_same(const Slot& a, const Slot& b, bool negate);
  bool unpack(Frame& frame, int before, int after, bool starred);
  // An iterator whose state Python code does not hold, from outside: advancing it cannot be undone.
  bool is_foreign_iterator(PyObject* object);
  Ref take_from(const Slot& iterable, int limit);
  // What native code does with its arguments: keeps them for later, iterates over them and calls
  // what it is given, gives what containers hold at any depth to others, or looks at it itself
  // (comparison, text).
  enum class Look : uint8_t { kKeeps, kItems, kHandsOn, kDeep };
  static bool reflects_in_a_library(PyObject* operand, int op);
  bool read_operand(const Slot& operand, const char* what, Look look = Look::kDeep);
  static bool names_its_address(PyObject* object);
  static PyObject* operator_callable(const char* name);  // from the module `operator`
  static bool holds_tensor(PyObject* container, int depth = 0);
  Slot length_of(const Slot& object);
  // The contents of any iterable as a list.
  Ref to_list(const Slot& iterable);

  // --- objects/attributes.cpp
  // With `self`: may give an unbound method and set *self, for a call.
  Slot getattr(const Slot& object, PyObject* name, Slot* self = nullptr);
  bool setattr(const Slot& object, PyObject* name, const Slot& value);  // empty value: delete
  Slot super_attribute(const Slot& cls, const Slot& self, PyObject* name, Slot* method_self);
  Slot special_method(const Slot& object, PyObject* name);
  Slot generic_getattr(const Slot& object, PyObject* name, Slot* self, bool quiet);
  bool set_tensor_attribute(const Slot& tensor, PyObject* name, const Slot& value);
  bool generic_setattr(const Slot& object, PyObject* name, const Slot& value);

  // --- objects/items.cpp
  Slot getitem(const Slot& object, const Slot& key);
  bool may_index_tensor(PyObject* object);
  bool setitem(const Slot& object, const Slot& key, const Slot& value);  // empty value: delete
  Slot load_global(Frame& frame, PyObject* name);
  Slot read_global(Frame& frame, PyObject* name);
  bool store_global(Frame& frame, PyObject* name, const Slot& value);
  Slot load_deref(Frame& frame, int index);
  bool store_deref(Frame& frame, int index, Slot value);
  bool copy_free_vars(Frame& frame, int count);
  Slot call_getter(const Slot& getter, const Slot& object, bool& done);
  Slot import_name(Frame& frame, PyObject* name, const Slot& from_list, const Slot& level);
  void rely_on_import(PyObject* name, const Slot& from_list, PyObject* module);
  Slot import_from(const Slot& module, PyObject* name);

  // --- objects/match.cpp
  Slot match_key(const Slot& subject, const Slot& key, bool& found);
  Slot match_keys(const Slot& subject, const Slot& keys);
  Slot match_class(const Slot& subject, const Slot& cls, const Slot& names, int count);

  // --- objects/class_statements.cpp: class statements
  bool run_class_instruction(Frame& frame, const cpython::Instruction& in);
  Slot build_class(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  void note_class(PyObject* made);
  Slot load_name(Frame& frame, PyObject* name);
  Slot name_in(Frame& frame, PyObject* name);

  // --- calls/output.cpp: calls that only write text, made when the compiled code runs
  Slot print(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  bool handles_warnings() const;
  bool some_warning_raises();
  Slot warn(Slot* args, size_t count, PyObject* kwnames);
  Slot log(const Slot& logger, PyObject* method, Slot* args, size_t count, PyObject* kwnames);
  void put_off(DeferredCall call);
  Slot defer(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);

  // --- calls/calls.cpp, calls/builtins.cpp, calls/methods.cpp, calls/torch.cpp
  Slot call(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  Slot call_ex(const Slot& callable, PyObject* args, PyObject* kwargs);
  // What a native callee gave: checked for a swallowed break and for things from nowhere.
  Slot result_of_native(Ref result);
  // An exception of a torch op is pending. It stays pending if the call, given tensors of zeros of
  // the same sizes, raises the like on real tensors; else it becomes a break.
  Slot torch_failed(PyObject* callable = nullptr, const Slot* args = nullptr, size_t count = 0,
                    PyObject* kwnames = nullptr);
  Ref call_raw(PyObject* callable, Slot* args, size_t count, PyObject* kwnames);
  Slot call_native(PyObject* callable, Slot* args, size_t count, PyObject* kwnames, bool torch);

  // --- calls/functions.cpp
  Slot call_function(const Slot& function, Slot* args, size_t count, PyObject* kwnames);
  Slot call_unmarked(const Slot& function, Slot* args, size_t count, PyObject* kwnames);
  Slot make_function(Frame& frame, int flags);

  // --- symbols/integers.cpp, symbols/calls.cpp: torch.SymInt where the program has an int
  bool has_symbol(const Slot& slot);
  bool may_hold_symbol(PyObject* object);
  void make_concrete(Slot& slot);
  // For a key of a dict or an element of a set: hashed as what it stands for, and guarded.
  void make_key(Slot& slot);
  Slot binary_of_symbols(int op, const Slot& a, const Slot& b, bool& done);
  Slot unary_of_symbol(cpython::Opcode op, PyObject* symbol);
  int compare_symbols(const Slot& a, const Slot& b, int op);
  int truth_of_symbol(PyObject* symbol);
  bool captures_data() const { return options_.capture_scalars || options_.capture_sizes; }
  Slot undecided_comparison(const Slot& a, const Slot& b, int op);
  Slot expect(const Slot& condition);
  Slot number_of_tensor(const Slot& tensor);
  Slot list_of_tensor(const Slot& tensor);
  Ref symbolic_length(PyObject* tensor);
  bool is_data_of_symbols(Slot* args, size_t count, PyObject* kwnames);
  bool call_with_symbols(const Slot& callable, Slot* args, size_t count, PyObject* kwnames,
                         Slot& result);

  // --- symbols/floats.cpp: torch.SymFloat where the program has a float that varies
  Slot binary_of_floats(int op, const Slot& a, const Slot& b, bool& done);
  Slot compare_floats(const Slot& a, const Slot& b, int op, bool& done);
  Slot unary_of_float(cpython::Opcode op, const Slot& a);
  Slot power_of_floats(int op, const Slot& a, const Slot& b, bool& done);
  Slot apply_operator(int op, const Slot& a, const Slot& b, bool& done);
  Slot apply_to_float(PyObject* function, const Slot* args, size_t count, bool& done);
  static bool is_function_of_numbers(PyObject* function);
  Slot extremum_of_floats(bool largest, const Slot* args, size_t count, bool& done);
  Slot number_of_floats(PyObject* function, const Slot* args, size_t count, bool& done);
  Slot call_for_floats(PyObject* function, Slot* args, size_t count, PyObject* kwnames, bool& done);
  static PyObject* names_in_tensor(const char* name);
  Slot operand_of_float(const Slot& value, const Slot& tensor);
  // The arguments of a function of torch: operands are tensors, all else gets the numbers.
  void settle_floats(PyObject* callable, Slot* args, size_t count, PyObject* kwnames);

  // --- calls/marks.cpp: functions of which the user has said something
  // Those of this capture's traces so far, in the order of their calls; kept by the caller.
  void use_constants(ConstantResults* known) { constants_ = known; }

  // --- symbols/text.cpp: text of what varies, computed when the compiled code runs
  enum class TextFunction : uint8_t {
    kStr,
    kRepr,
    kAscii,
    kFormat,       // (value, spec)
    kJoin,         // the parts, one after the other
    kTemplate,     // str.format(text, ...)
    kOldTemplate,  // text % value
  };
  struct Text {
    Ref object;  // what stands for it
    Ref now;     // in this call
    TextFunction function;
    std::vector<Slot> args;  // unread, symbols, texts and constants
  };
  static PyObject* text_function(TextFunction function);
  const Text& text_behind(PyObject* object) const;
  Slot varying_text(TextFunction function, std::vector<Slot> args);

  // --- calls/control_flow.cpp: torch.cond and torch.while_loop on data
  Slot control_flow(ControlFlowCall call, Slot* args, size_t count);

  // --- frames/exceptions.cpp
  void raise(int count, Frame& frame);
  // Unwinds to a handler of the frame; false if there is none.
  bool unwind(Frame& frame);
  bool enter_with(Frame& frame);

  // --- objects/module_parts.cpp: what often evaluated functions do, with the same reads. True if
  // it applies; then `result` is the value or empty if there is none.
  bool module_getattr(const Slot& module, PyObject* name, Slot& result);

  // --- frames/origin.cpp
  std::string place();  // "model.py:12 in forward": where the user's code is
  std::vector<StackEntry> stack() const;
  // The stack, and the object that the innermost `Subject` of this frame names.
  void locate(BreakReason& reason) const;
  graph::OriginId origin(graph::Graph& graph);  // of a node; the GIL may not be held
  void record_torch_call(PyObject* callable, const Slot* args, size_t count, PyObject* kwnames,
                         PyObject* result);

  std::nullptr_t raise_break(BreakKind kind, std::string what) {
    return breaks_.raise(kind, std::move(what));
  }
  Slot refuse(BreakKind kind, std::string what) {
    breaks_.raise(kind, std::move(what));
    return {};
  }

 private:
  friend class NativeScope;
  friend class TraceScope;
  friend class Subject;
  Slot float_beside(const Slot& number, const Slot& tensor);
  Slot trace_branch(const Slot& function, const Slot& arguments);
  Slot decline(std::string why);
  bool tensors_in(const Slot& list, std::vector<PyObject*>& tensors);
  Slot list_of(std::vector<Ref> tensors, const std::string& why);
  std::optional<sym::Int> integer_in(PyObject* object);
  Ref with_numbers(PyObject* object, int depth);
  bool make_arguments_concrete(PyObject* exception);
  bool integer_operands(const Slot& a, const Slot& b, sym::Int& x, sym::Int& y);
  int is_same_integer(PyObject* a, PyObject* b);
  int compare_sequences(const Slot& a, const Slot& b, int op);
  Slot sum_of_symbols(PyObject* sequence);
  void use_stand_ins(Slot* args, size_t count);
  Slot extremum_of_symbols(bool largest, const Slot* args, size_t count);
  bool keeps_symbols(PyObject* f, PyObject* self, Slot* args, size_t count, PyObject* kwnames,
                     Slot& result);
  bool run_instruction(Frame& frame, const cpython::Instruction& in);
  bool build(Frame& frame, const cpython::Instruction& in);
  bool extend(Frame& frame, const cpython::Instruction& in);
  bool unsupported_instruction(Frame& frame, const cpython::Instruction& in);
  bool merge_keywords(const Slot& callable, PyObject* target, PyObject* from);
  bool raise_about_call(PyObject* callable, const std::string& what);
  bool send(Frame& frame, const cpython::Instruction& in);
  bool check_exception_match(Frame& frame);
  bool check_group_match(Frame& frame);
  Slot exceptions_to_raise(const Slot& original, const Slot& raised);
  bool cleanup_throw(Frame& frame);
  bool set_function_attribute(Frame& frame, int flag);
  Slot stop_iteration_error(const Slot& exception);
  Slot call_unpacked(const Slot& callable, const Slot& args, const Slot& kwargs);
  Slot call_cached(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  Slot wrapped_function(const Slot& wrapper);
  Slot call_builtin(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  Slot call_type(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  Slot call_partial(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  Slot call_method_of(PyObject* callable, const char* name, const Slot& self, Slot* args,
                      size_t count, PyObject* kwnames, bool unbound);
  Slot call_instance(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  Slot asked_break(const char* function, const Slot* args, size_t count);
  Slot call_listed(const CalleeRule& rule, const Slot& callable, Slot* args, size_t count,
                   PyObject* kwnames, bool& done);
  Slot call_context_var(PyObject* var, const char* name, PyObject* callable, Slot* args,
                        size_t count, PyObject* kwnames, bool unbound);
  Slot call_container_method(PyObject* callable, const char* name, const Slot& self, Slot* args,
                             size_t count, PyObject* kwnames, bool unbound);
  Slot call_unbound(PyObject* callable, const Slot& self, Slot* args, size_t count,
                    PyObject* kwnames, bool unbound);
  Slot reduce(PyObject* callable, const Slot& self, Slot* args, size_t count, PyObject* kwnames,
              bool unbound);
  Slot dict_get(const Slot& self, Slot* args, size_t count);
  Slot call_numpy(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  Slot call_new(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  Slot instantiate(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  bool may_make(PyTypeObject* type, PyTypeObject* base);
  Slot enum_member(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  bool name_module(Slot* args, size_t count);
  static Look look_of(PyTypeObject* type, PyObject* first);
  bool prepare_iterables(PyTypeObject* type, Slot* args, size_t count);
  static bool made_by_empty_new(PyTypeObject* base);
  static bool is_compiled_function(PyTypeObject* type);
  static bool is_logging_function(PyObject* function);
  static bool is_log_method(PyObject* self, PyObject* function);
  std::string make_module_path(const Source* module);
  const std::string& module_path(const Source* module);
  const std::string& callee_name(const void* key);
  const Source* module_under_way() const;
  bool may_copy_data(const char* name, const Slot* args, size_t count);
  bool may_give_torch(PyObject* object, const char* owner, const char* function);
  Slot call_torch(const Slot& callable, const char* module, const char* name, Slot* args,
                  size_t count, PyObject* kwnames);
  Slot call_tensor_method(const Slot& callable, const char* name, const Slot& self, Slot* args,
                          size_t count, PyObject* kwnames, bool unbound);
  bool rely_on_registrations(PyObject* classes);
  bool check_native_arguments(const char* what, Slot* args, size_t count, bool read_only,
                              Look look = Look::kDeep);
  bool read_arguments(Slot* args, size_t count, Look look = Look::kDeep);
  // Guards everything that native code can reach in a container or an iterator, from outside or
  // made by the trace. A break (false) if that has been changed by the trace and `look` is kDeep.
  bool read_deeply(PyObject* object, Look look);
  bool is_view_of_a_dict(PyObject* object);
  bool may_look_at(PyObject* object);
  bool read_exception(PyObject* exception, IdentityMap<bool>& seen, int depth);
  bool read_parts(PyObject* carrier);
  bool read_reachable(PyObject* object, Look look, IdentityMap<bool>& seen, int depth);
  bool read_by_advancing(PyObject* iterator);
  bool may_call_natively(PyObject* callable);
  bool may_call_natively(PyObject* callable, IdentityMap<bool>& seen);
  Slot bind(PyObject* descriptor, const Source* source, const Slot& object, Slot* self);
  Slot tensor_attribute_of(const Slot& tensor, PyObject* name, Slot* self);
  Slot module_attribute_of(const Slot& module, PyObject* name);
  // `quiet`: a missing attribute need not raise, the metaclass has a __getattr__.
  Slot type_attribute_of(const Slot& type, PyObject* name, bool quiet);
  Slot call_descriptor(const Slot& descriptor, const Slot& object);
  Slot known_class_value(Ref value);
  static PyObject* module_of(PyTypeObject* type);
  Slot field_of_named_tuple(const Slot& object, PyObject* descriptor);
  static void missing_attribute(PyObject* object, PyObject* name);
  Slot attribute_of_created(PyObject* object, PyObject* name, Ref value);
  static PyObject* get_dunder();
  Slot native_attribute_of(const Slot& object, PyObject* name);
  PyObject* evaluate_hooked(PyThreadState* thread, cpython::FrameView view);
  // Changes of what is outside or in containers, and calls put off.
  size_t effects_so_far() const;
  PyObject* resume_hooked(PyThreadState* thread, cpython::FrameView view, bool throwing);
  static PyObject* end_generator(PyThreadState* thread, cpython::FrameView view);
  void fill_frame(Frame& frame, cpython::FrameView view);
  bool rely_on_hooked(Frame& frame);
  bool read_bound_defaults(Frame& frame);
  void mark_generator(PyObject* generator);
  Slot bare_super(Frame& frame);
  AttributeTraits traits_of(PyTypeObject* type);
  ModuleParts* parts_of(const Slot& module);
  Slot bind_failure(PyFunctionObject* function, Slot* args, size_t count, PyObject* kwnames);
  bool bind_defaults(Frame& frame, PyFunctionObject* function);
  Slot result_of_library(Ref result);
  Slot refuse_library(const CodeInfo& info);
  Slot refuse_code(const CodeInfo& info, BreakKind kind, const char* why);
  bool runs_natively(const CodeInfo& info) const;
  void rely_on_signatures(Slot* args, size_t count);
  static PyObject* disable_mark(PyFunctionObject* function);
  Slot call_marked(const Slot& callable, Slot* args, size_t count, PyObject* kwnames, bool& done);
  Slot call_as_one_step(const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
  Slot constant_result(const Slot& callable, Slot* args, size_t count, PyObject* kwnames,
                       bool& done);
  bool rely_on_constant(const Slot& argument);
  bool budget_left();
  void begin_segment(Frame& frame, PyObject* const* entry);
  bool may_be_in_text(const Slot& slot) const;
  Ref value_in_text(const Slot& slot);
  Ref settle_text(PyObject* object);
  bool is_wanted_as_text(Frame& frame, const cpython::Instruction& in);
  Slot text_for(Frame& frame, const cpython::Instruction& in);
  bool make_text(Frame& frame, const cpython::Instruction& in, bool& done);
  bool force(Slot& slot);
  bool may_drop(const Slot& slot);
  bool may_return(const Frame& frame);
  bool force_operands(Frame& frame, const cpython::Instruction& in);

  Breaks breaks_;
  Recording recording_;
  World world_;
  Options options_;
  PyFunctionObject* root_;
  Draft::Statistics statistics_;
  PyThreadState* thread_;
  Frame* top_ = nullptr;
  int depth_ = 0, native_depth_ = 0, importing_ = 0;
  int64_t stop_at_ = -1, break_at_ = -1;
  bool stopped_ = false;
  int break_index_ = -1;
  std::vector<bool> path_;
  bool made_class_ = false;
  std::vector<int64_t> handling_;
  int64_t last_handled_ = -1;
  bool lazy_ = false;  // slots of the root frame may be unread
  // Objects of the entry state whose end the program notices and whose only owner is the frame.
  IdentityMap<bool> mortal_;
  std::unique_ptr<Frame> stopped_frame_;
  std::vector<std::unique_ptr<Frame>> spare_frames_;
  std::vector<DeferredCall> deferred_;
  std::vector<Text> texts_;
  struct ContextWrite {
    Ref var, value;  // the value before the first write
  };
  std::vector<ContextWrite> context_writes_;
  IdentityMap<const Source*> context_sources_;
  IdentityMap<AttributeTraits> traits_;  // by type
  static constexpr size_t kGlobals = 512;
  std::vector<KnownGlobal> globals_ = std::vector<KnownGlobal>(kGlobals);
  IdentityMap<ModuleParts> module_parts_;  // by module from outside
  std::vector<Ref> addresses_;             // results of id() and hash(): must not leave the trace
  // Those that the trace made, by the address of the frame inside. Not held: one that nobody refers
  // to any more is closed at once, as it would be.
  IdentityMap<bool> generators_;
  bool interrupted_ = false;
  std::vector<StackEntry> error_stack_;
  Ref torch_calls_;
  ConstantResults* constants_ = nullptr;
  size_t constants_used_ = 0;
  const Slot* subject_ = nullptr;          // what the instruction under way is about, for messages
  const Frame* subject_frame_ = nullptr;   // the frame of that instruction
  PyObject* native_callee_ = nullptr;      // outermost torch callable under way, for origins
  const Frame* native_frame_ = nullptr;    // where it was called
  const Source* native_module_ = nullptr;  // the module whose method that is
  std::unordered_map<OriginKey, graph::OriginId, OriginHash> origins_;
  std::unordered_map<const Source*, std::string> module_paths_;
  std::unordered_map<const void*, std::string> callee_names_;
  std::vector<Ref> state_guards_;
  // Functions that native code has called, with the class of their first argument.
  std::set<std::pair<PyFunctionObject*, PyTypeObject*>> hooked_;
  // Native iterators: the state of the world in which their contents were last read.
  IdentityMap<size_t> advanced_;
  size_t container_changes_ = 0;
  int64_t recorded_nodes_ = 0;
  std::chrono::steady_clock::time_point started_;
  const char* stack_limit_ = nullptr;
};

// What native code may be given: whether an object, or one in it, to that depth of containers, is
// `wanted`.
constexpr int kContainerDepth = 4;
bool any_inside(PyObject* object, bool (*wanted)(PyObject*), int depth = kContainerDepth);

// Functions and methods of torch whose two operands may each be a number or a tensor.
bool is_plain_operator(std::string_view name);

// While it lives, a break is about this object.
class Subject {
 public:
  Subject(Evaluator& evaluator, const Slot& slot)
      : evaluator_(evaluator), slot_(evaluator.subject_), frame_(evaluator.subject_frame_) {
    evaluator.subject_ = &slot;
    evaluator.subject_frame_ = evaluator.top_;
  }
  ~Subject() {
    evaluator_.subject_ = slot_;
    evaluator_.subject_frame_ = frame_;
  }
  Subject(const Subject&) = delete;

 private:
  Evaluator& evaluator_;
  const Slot* slot_;
  const Frame* frame_;
};

// Native code of torch runs: frames that it makes are not the user's.
class NativeScope {
 public:
  NativeScope(Evaluator& evaluator, bool torch, PyObject* callee = nullptr)
      : evaluator_(evaluator),
        torch_(torch),
        callee_(evaluator.native_callee_),
        frame_(evaluator.native_frame_),
        module_(evaluator.native_module_) {
    if (!torch_ || evaluator_.native_depth_++ > 0) return;
    evaluator_.native_callee_ = callee;
    evaluator_.native_frame_ = evaluator_.top_;
    evaluator_.native_module_ = evaluator_.module_under_way();
  }
  ~NativeScope() {
    if (!torch_) return;
    --evaluator_.native_depth_;
    evaluator_.native_callee_ = callee_;
    evaluator_.native_frame_ = frame_;
    evaluator_.native_module_ = module_;
  }
  NativeScope(const NativeScope&) = delete;

 private:
  Evaluator& evaluator_;
  bool torch_;
  PyObject* callee_;
  const Frame* frame_;
  const Source* module_;
};

}  // namespace braze::capture
