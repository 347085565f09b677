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
#include "capture/world/dict_owners.h"
#include "capture/world/floats.h"
#include "capture/world/grown_lists.h"
#include "capture/world/guards.h"
#include "capture/world/kinds.h"
#include "capture/world/tracked.h"
#include "capture/world/write_log.h"
#include "guard/guard.h"

namespace braze::capture {

class World {
 public:
  World(Breaks& breaks, Recording& recording, TraceGuards& guards, const DynamicSizes* dynamic);
  ~World();
  World(const World&) = delete;

  // --- Where objects come from, and guards of it.
  const Source* source_of(PyObject* object) const {
    const Source* const* found = origin_.find(object);
    return found ? *found : nullptr;
  }
  const Source* source_of(const Tracked& tracked) const {
    return tracked.source ? tracked.source : source_of(tracked.get());
  }
  // A function that may have been read by its body is looked at in another way than by a call.
  void guard_identity_of_function(PyObject* object);
  // Two outside objects were compared by identity.
  void guard_identity_of_pair(const Tracked& a, const Tracked& b);

  // The trace writes to these objects from outside: no other that it reads may come to be the same
  // as one of them, or to share its `__dict__`.
  void guard_distinct(const std::vector<PyObject*>& written);
  // The cell, which has a source already, is found at this one as well.
  void guard_same_cell(PyObject* cell, const Source* source);
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
  Tracked read(PyObject* value, const Source* source, bool alone = true);
  // A value that comes without a source: found again by identity; a shadow becomes its original.
  Tracked wrap(PyObject* value) const;
  Tracked wrap(Ref value) const;
  // Guards the function's identity and code; nothing for functions that the trace made.
  void rely_on(PyFunctionObject* function);
  const Source* item_source(PyObject* container, const Source* source, PyObject* key);
  // Reads every item of an outside container (of its types, see `is_container`), and theirs, as
  // numbers. Where `symbols` is given, those of a plain list, tuple or dict that vary are symbols,
  // by key.
  bool read_all(PyObject* container, std::vector<std::pair<Ref, Ref>>* symbols = nullptr);
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
  // Those of attributes, globals and cells.
  const WriteLog& log() const { return log_; }
  bool has_writes() const { return !log_.empty() || !shadows_.empty() || grown.any(); }
  // Grows whenever something outside is written or handed out to be written.
  size_t write_count() const { return write_count_ + grown.appended(); }
  // `is_slot`: the object keeps it beside its dict, in a slot or as a part of a tensor.
  bool write_attribute(PyObject* owner, PyObject* name, PyObject* value, bool is_slot = false);
  bool write_global(PyFunctionObject* function, PyObject* name, PyObject* value);
  void write_cell(PyObject* cell, PyObject* value);
  // Output of the traced code has been put off: what decides where it goes stays as it is.
  void note_output() { has_output_ = true; }
  // What stands for `object` when its contents are used: its shadow if it has one.
  PyObject* effective(PyObject* object) {
    if (grown.any()) grown.read(*this, object);
    if (shadows_.empty()) return object;
    const Ref* shadow = shadows_.find(object);
    return shadow ? shadow->get() : object;
  }
  // Makes one; null with a break pending if the container cannot be copied.
  PyObject* shadow(PyObject* container);
  size_t only_read = 0;  // of what write_count() counts
  // As `effective`, for what looks at all of a dict: what is logged of it goes into a shadow.
  PyObject* effective_whole(PyObject* object) {
    if (!PyDict_Check(object) || log_.is_unwritten(object)) return effective(object);
    ++only_read;
    return shadow(object);
  }
  GrownLists grown;  // known by their ends alone
  DictOwners& dicts() { return dicts_; }

  struct Shadow {
    Ref original, copy;
    Ref before;  // what the copy was at first: the original, with symbols for numbers that vary
  };
  const std::vector<Shadow>& shadows() const { return shadow_list_; }
  // Whether real code would see an object of the program differently from the trace.
  bool has_pending_changes() const;
  void hold(Ref object) { held_.push_back(std::move(object)); }

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
    int64_t number;  // in this call
  };
  const std::vector<SymbolicTensor>& symbolic_tensors() const { return symbolic_tensors_; }
  const std::vector<SymbolicInteger>& symbolic_integers() const { return symbolic_integers_; }
  PyObject* stand_in(const SymbolicTensor& input) const {
    return stand_ins_.find(input.tensor.get())->get();
  }
  // The tensor from outside that a fake stands for; else the object itself.
  PyObject* real_of(PyObject* object) const {
    if (stood_for_.empty()) return object;
    PyObject* const* real = stood_for_.find(object);
    return real ? *real : object;
  }
  VaryingFloats& floats() { return floats_; }
  const VaryingFloats& floats() const { return floats_; }
  TraceGuards& guards() { return guards_; }
  Breaks& breaks() { return breaks_; }

 private:
  Tracked read_new(PyObject* value, const Source* source);
  bool read_tensor(PyObject* tensor, const Source* source);
  std::string name_of_part(const Source* source);
  const std::string& name_of_module(const Source* source);
  bool read_bounds(PyObject* value, const Source* source);
  // An empty Tracked without a break: not a symbol.
  Tracked read_integer(PyObject* value, const Source* source);
  void watch_finaliser(PyObject* object);
  PyObject* lookup_in_made(PyTypeObject* type, PyObject* name, const Source** found_at);
  void guard_lookup(const Source* source, PyObject* found);

  Breaks& breaks_;
  Recording& recording_;
  TraceGuards& guards_;
  IdentityMap<const Source*> origin_;
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
  // What the class of an object decides of it.
  struct ObjectKind {
    bool is_fixed = false;  // guarded by identity
    bool is_immutable = false;
  };
  ObjectKind kind_of(PyObject* object);
  IdentityMap<ObjectKind> kinds_;  // by class, held
  IdentityMap<bool> all_read_;
  IdentityMap<Ref> shadows_;
  IdentityMap<PyObject*> originals_;  // shadow -> original
  std::vector<Shadow> shadow_list_;
  DictOwners dicts_;
  WriteLog log_;
  size_t write_count_ = 0;
  bool has_output_ = false;
  std::vector<OutsideTensor> tensors_;
  std::vector<PyObject*> changeable_;  // read from outside: containers, instances, cells; held
  const DynamicSizes* dynamic_;
  VaryingFloats floats_;
  LooseNumbers loose_numbers_;
  IdentityMap<Ref> stand_ins_;        // by real tensor
  IdentityMap<PyObject*> stood_for_;  // and back
  std::vector<SymbolicTensor> symbolic_tensors_;
  std::vector<SymbolicInteger> symbolic_integers_;
  std::vector<Ref> held_;
  std::vector<Ref> finalisers_;       // weak references
  bool unwatched_finaliser_ = false;  // of an object that takes no weak reference
};

// Reads every item, for who takes them out and has no use for the container: what stands for it, or
// a copy with symbols for those that vary. Null with a break pending.
Ref read_items(World& world, PyObject* container);

// As write_count(), without what is only read.
inline size_t change_count(const World& world) { return world.write_count() - world.only_read; }
PyObject* shadow_to_read(World& world, PyObject* container);

}  // namespace braze::capture
