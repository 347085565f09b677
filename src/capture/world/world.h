// The trace's view of the program's objects: the only class that may write. Keeps three invariants.
//
//   1. Nothing outside the trace changes while tracing. Writes to attributes, globals and cells of
//      objects that existed before go to a log that reads look at first; a list, dict or set from
//      outside is shadowed by a copy before it is written or iterated. The exit replays both.
//   2. What is read from outside is guarded, once, by its source. Absence and length are reads too.
//   3. What the trace made is known positively: an object that is neither known to come from
//      outside nor known to be made by the trace must not be changed.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/identity_map.h"
#include "capture/breaks/breaks.h"
#include "capture/known.h"
#include "capture/recording/recording.h"
#include "capture/world/slot.h"
#include "cpython/lookup.h"
#include "guard/guard.h"

namespace braze::capture {

using cpython::is_python_class;
using guard::GuardKind;

// A logged write to an object from outside. An empty value: deleted.
struct Write {
  enum class Kind : uint8_t { kAttribute, kGlobal, kCell } kind;
  Ref owner;  // object, function whose globals are meant, cell
  Ref name;
  Ref value;
};

class World {
 public:
  World(Breaks& breaks, Recording& recording, PyFunctionObject* root, PyObject* parameter_names,
        const DynamicSizes* dynamic);
  ~World();
  World(const World&) = delete;

  // --- Sources and guards.
  const Source* source(SourceKind kind, const Source* base = nullptr, PyObject* key = nullptr) {
    return arena_->get(kind, base, key);
  }
  // The object itself, held: for types, modules and functions that a guard of identity covers.
  const Source* pinned(PyObject* object);
  const Source* function_base(PyFunctionObject* function);
  const Source* globals_base(PyFunctionObject* function);
  const Source* source_of(PyObject* object) const {
    const Source* const* found = origin_.find(object);
    return found ? *found : nullptr;
  }
  const Source* source_of(const Slot& slot) const {
    return slot.source ? slot.source : source_of(slot.get());
  }
  void guard(GuardKind kind, const Source* source, PyObject* expected = nullptr,
             const Source* other = nullptr);
  void add_guard(guard::Guard guard) { guards_.push_back(std::move(guard)); }
  // A guard of another capture of the same call.
  void guard_again(const guard::Guard& guard);
  void guard_length(const Source* source, Py_ssize_t length);
  // Two outside objects were compared by identity.
  void guard_identity_of_pair(const Slot& a, const Slot& b);

  // The trace writes to these objects from outside: no other that it reads may come to be the same
  // as one of them.
  void guard_distinct(const std::vector<PyObject*>& written);
  // Of the object itself: the source of a cell is that of its contents. Null: none is known.
  const Source* object_source(PyObject* object);

  // The object decides by its identity (a dict key, id()): what it was read from must give it
  // again.
  void guard_as_key(PyObject* object);

  // --- Reading.
  // A value that was read from outside at `source`: guards it and remembers where it came from.
  // Empty with a break pending if it cannot be traced.
  // A tensor with symbolic sizes comes as the fake that stands for it, and, with `alone`, an int
  // that varies as a torch.SymInt; otherwise native code sees the int itself.
  Slot read(PyObject* value, const Source* source, bool alone = true);
  // A value that comes without a source: found again by identity; a shadow becomes its original.
  Slot wrap(PyObject* value) const;
  Slot wrap(Ref value) const;
  // Guards the function's identity and code; nothing for functions that the trace made.
  void rely_on(PyFunctionObject* function);
  const Source* item_source(PyObject* container, const Source* source, PyObject* key);
  // Reads every item of an outside container (of its types, see `is_container`), and theirs.
  bool read_all(PyObject* container);
  // What native code does with instances of the class, and what the class is asked for itself:
  // guards its special methods, which it has and which it lacks. For a class that the trace made:
  // those of its bases from outside.
  void rely_on_specials(PyTypeObject* type);
  // The class look-up `_PyType_Lookup(type, name)`, guarded when the class can change.
  PyObject* type_lookup(PyTypeObject* type, PyObject* name, const Source** source = nullptr);

  void set_origin(PyObject* object, const Source* source) {
    origin_[object] = source;
    if (PyCell_Check(object)) changeable_.push_back(object);
  }

  // --- What the trace made.
  // A function that the traced code defined.
  bool made_function(PyObject* function) const { return created_.contains(function); }
  // A module that the traced code made; not one that it imported.
  bool made_module(PyObject* module) const;
  void mark_created(PyObject* object) {
    created_[object] = true;
    rely_on_specials(Py_TYPE(object));
    if (Py_TYPE(object)->tp_finalize) watch_finaliser(object);
  }
  // Objects of the trace with a finaliser (`__del__`, generators) that are still alive are not told
  // when they die: the trace's objects stand for those that the compiled code makes. True if there
  // are such objects.
  bool silence_finalisers();
  bool is_created(PyObject* object);
  // May not be changed: mutable, and not made by the trace.
  bool is_outside(PyObject* object);

  // --- Writing to what is outside.
  bool has_writes() const { return !log_.empty() || !shadows_.empty(); }
  // Grows whenever something outside is written or handed out to be written.
  size_t write_count() const { return write_count_; }
  // Grows whenever a write is logged.
  size_t logged_count() const { return logged_count_; }
  // Nothing of it is in the log.
  bool is_unwritten(PyObject* owner) const { return !written_owners_.contains(owner); }
  // The logged write of an attribute, global (owner: the globals dict) or cell (name: null).
  const Write* written(PyObject* owner, PyObject* name) const;
  bool write_attribute(PyObject* owner, PyObject* name, PyObject* value);
  bool write_global(PyFunctionObject* function, PyObject* name, PyObject* value);
  void write_cell(PyObject* cell, PyObject* value);
  // Output of the traced code has been put off: what decides where it goes stays as it is.
  void note_output() { has_output_ = true; }
  // What stands for `object` when its contents are used: its shadow if it has one.
  PyObject* effective(PyObject* object) const {
    if (shadows_.empty()) return object;
    const Ref* shadow = shadows_.find(object);
    return shadow ? shadow->get() : object;
  }
  // Makes one; null with a break pending if the container cannot be copied.
  PyObject* shadow(PyObject* container);
  // The object whose instance dict this is, if the evaluation has seen it read; else null.
  PyObject* owner_of_dict(PyObject* dict) const;
  void set_owner_of_dict(PyObject* dict, PyObject* owner) { owners_[dict] = owner; }
  bool written_attributes(PyObject* owner) const;

  const std::vector<Write>& writes() const { return log_; }
  struct Shadow {
    Ref original, copy;
  };
  const std::vector<Shadow>& shadows() const { return shadow_list_; }
  // Whether real code would see an object of the program differently from the trace.
  bool has_pending_changes() const;
  void hold(Ref object) { held_.push_back(std::move(object)); }

  std::shared_ptr<guard::SourceArena> sources() const { return arena_; }
  guard::Guards take_guards() { return std::move(guards_); }
  size_t guard_count() const { return guards_.size(); }
  const guard::Guards& guards() const { return guards_; }
  struct OutsideTensor {
    Ref tensor;
    const Source* source;
  };
  const std::vector<OutsideTensor>& tensors() const { return tensors_; }

  // --- What has symbols, in the order in which it was read.
  struct SymbolicTensor {
    Ref tensor;
    const Source* source;
    uint64_t free_sizes, free_strides;
    std::vector<DynamicDimension> dims;
  };
  struct SymbolicInteger {
    Ref object;  // the torch.SymInt
    const Source* source;
  };
  struct SymbolicFloat {
    Ref object;  // a torch.SymFloat
    Ref tensor;  // the fake that has its value, f64[]
    Ref real;    // the tensor in whose place that is; empty for what is computed
    Ref number;  // its value in this call
    std::vector<const Source*> sources;  // that decide it
    const Source* host = nullptr;        // where it comes from without the graph; null: nowhere
    bool fits_float32 = false;           // guarded
  };
  const std::vector<SymbolicFloat>& symbolic_floats() const { return symbolic_floats_; }
  // Of a torch.SymFloat.
  const SymbolicFloat& float_of(PyObject* object) const;
  // The result of arithmetic on others.
  Slot computed_float(Ref tensor, Ref number, std::vector<const Source*> sources,
                      const Source* host = nullptr);
  // What a pure function of numbers gives for the constants with the float `object` at `place`
  // among them: a float that varies itself, or another number, guarded as what is read from
  // outside. It is computed by the guards of each call. Empty, with nothing pending, where that
  // cannot be.
  Slot apply_to_float(PyObject* function, PyObject* object, size_t place,
                      const std::vector<PyObject*>& constants);
  const Source* computed_source(PyObject* function, const Source* base, size_t place,
                                const std::vector<PyObject*>& constants);
  // Whether a tensor of float32 can hold it as it is: a guard.
  bool fits_float32(PyObject* object);
  // The number itself: the code works for this one only.
  Ref number_of_float(PyObject* object);
  // How the float compares with a number, as a guard; nothing where that cannot be a guard.
  std::optional<bool> compare_float(PyObject* object, PyObject* number, int op);
  // Sources of floats that had to be numbers.
  std::vector<const Source*> fixed_floats() const;
  const std::vector<SymbolicTensor>& symbolic_tensors() const { return symbolic_tensors_; }
  const std::vector<SymbolicInteger>& symbolic_integers() const { return symbolic_integers_; }
  PyObject* stand_in(const SymbolicTensor& input) const {
    return stand_ins_.find(input.tensor.get())->get();
  }
  std::string text_of(const Source* source) const {
    return guard::to_string(source, parameter_names_, reinterpret_cast<PyObject*>(root_));
  }
  // The tensor from outside that a fake stands for; else the object itself.
  PyObject* real_of(PyObject* object) const {
    if (stood_for_.empty()) return object;
    PyObject* const* real = stood_for_.find(object);
    return real ? *real : object;
  }
  Breaks& breaks() { return breaks_; }
  PyObject* parameter_names() const { return parameter_names_; }

 private:
  Slot read_new(PyObject* value, const Source* source);
  bool read_tensor(PyObject* tensor, const Source* source);
  std::string name_of_part(const Source* source);
  const std::string& name_of_module(const Source* source);
  bool read_bounds(PyObject* value, const Source* source);
  // An empty slot without a break: not a symbol.
  Slot read_integer(PyObject* value, const Source* source);
  Slot read_float(PyObject* value, const Source* source);
  Slot symbolic_float(PyObject* value, const Source* source);
  void watch_finaliser(PyObject* object);
  const Source* own(const Source* foreign);
  PyObject* lookup_in_made(PyTypeObject* type, PyObject* name, const Source** found_at);
  void guard_lookup(const Source* source, PyObject* found);
  bool apply_log(PyObject* owner, PyObject* dict_copy);
  Write& log_entry(Write::Kind kind, PyObject* owner, PyObject* key_owner, PyObject* name);

  Breaks& breaks_;
  Recording& recording_;
  PyFunctionObject* root_;
  PyObject* parameter_names_;
  std::shared_ptr<guard::SourceArena> arena_;
  guard::Guards guards_;
  std::vector<uint32_t> guarded_;  // by source id: bits of guard kinds
  IdentityMap<const Source*> origin_;
  IdentityMap<const Source*> globals_bases_;
  std::unordered_map<const Source*, std::string> module_names_;
  // Class look-ups that are guarded already; one takes the place of another. Of `name` as held by
  // the source, so that its address stays its own.
  struct KnownLookup {
    PyTypeObject* type = nullptr;
    PyObject* name = nullptr;
    unsigned version = 0;  // of the type
    PyObject* found = nullptr;
    const Source* source = nullptr;
  };
  static constexpr size_t kLookups = 512;
  std::vector<KnownLookup> lookups_ = std::vector<KnownLookup>(kLookups);
  IdentityMap<bool> created_;
  IdentityMap<bool> specials_;  // classes whose special methods are guarded
  IdentityMap<bool> all_read_;
  IdentityMap<Ref> shadows_;
  IdentityMap<PyObject*> originals_;  // shadow -> original
  std::vector<Shadow> shadow_list_;
  IdentityMap<PyObject*> owners_;
  struct PairHash {
    size_t operator()(const std::pair<PyObject*, PyObject*>& p) const {
      return (reinterpret_cast<size_t>(p.first) >> 4) * 1000003u ^
             (reinterpret_cast<size_t>(p.second) >> 4);
    }
  };
  std::unordered_map<std::pair<PyObject*, PyObject*>, size_t, PairHash> log_index_;
  std::vector<Write> log_;
  IdentityMap<bool> written_owners_;  // of entries of the log, now or before
  size_t write_count_ = 0, logged_count_ = 0;
  bool has_output_ = false;
  std::vector<OutsideTensor> tensors_;
  std::vector<PyObject*> changeable_;  // read from outside: containers, instances, cells; held
  const DynamicSizes* dynamic_;
  IdentityMap<Ref> stand_ins_;        // by real tensor
  IdentityMap<PyObject*> stood_for_;  // and back
  std::vector<SymbolicTensor> symbolic_tensors_;
  std::vector<SymbolicInteger> symbolic_integers_;
  std::vector<SymbolicFloat> symbolic_floats_;
  std::vector<const Source*> computed_sources_;
  std::vector<Ref> held_;
  std::vector<Ref> finalisers_;       // weak references
  bool unwatched_finaliser_ = false;  // of an object that takes no weak reference
};

// None, numbers, strings, dtypes: immutable and guarded by value.
inline bool is_atom(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type ||
      type == &PyFloat_Type || object == Py_None || type == &PyBytes_Type || object == Py_Ellipsis)
    return true;
  for (PyObject* atom : known().atom_types)
    if (reinterpret_cast<PyObject*>(type) == atom) return true;
  return false;
}
// A list, tuple, dict, set, frozenset or deque, or of a subclass of one.
bool is_container(PyObject* object);
// What a container holds (of a dict: the keys), in order, as a list: by the C type below its class,
// whatever methods the class has.
Ref own_items(PyObject* container);
// Never changes, or is shared program structure that is guarded by identity.
bool is_immutable(PyObject* object);
// Hands out its memory, to which others may then write: an array of NumPy's, a bytearray, and the
// instances of classes derived from such. Native code that looks into it reads what no guard
// covers.
bool exports_memory(PyObject* object);
// An object made in C whose value never changes and that only its identity stands for.
bool is_frozen(PyObject* object);
// The instance dict, made if the object has none yet; null, nothing pending, without one. Borrowed.
PyObject* instance_dict(PyObject* object);

}  // namespace braze::capture
