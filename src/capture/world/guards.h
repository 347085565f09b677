// The guards of one trace, and the sources that they are about.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/identity_map.h"
#include "capture/world/tracked.h"
#include "guard/guard.h"

namespace braze::capture {

using guard::GuardKind;

class TraceGuards {
 public:
  TraceGuards(PyFunctionObject* root, PyObject* parameter_names)
      : root_(root),
        parameter_names_(parameter_names),
        arena_(std::make_shared<guard::SourceArena>()) {}
  TraceGuards(const TraceGuards&) = delete;

  // --- Sources.
  const Source* source(SourceKind kind, const Source* base = nullptr, PyObject* key = nullptr,
                       const Source* other = nullptr) {
    return arena_->get(kind, base, key, other);
  }
  // The object itself, held: for types, modules and functions that a guard of identity covers.
  const Source* pinned(PyObject* object) { return source(SourceKind::kPinned, nullptr, object); }
  // A function that the program defines anew before each call is known by what it does, not by its
  // identity. False for one that is not.
  bool read_by_body(PyFunctionObject* function, const Source* source);
  // Null: it was not read by its body.
  const Source* body_source(PyObject* object) const {
    const Source* const* found = by_body_.empty() ? nullptr : by_body_.find(object);
    return found ? *found : nullptr;
  }
  const Source* function_base(PyFunctionObject* function) {
    auto* object = reinterpret_cast<PyObject*>(function);
    if (const Source* source = body_source(object)) return source;
    return function == root_ ? source(SourceKind::kFunction) : pinned(object);
  }
  const Source* globals_base(PyFunctionObject* function);
  std::string text_of(const Source* source) const {
    return guard::to_string(source, parameter_names_, reinterpret_cast<PyObject*>(root_));
  }
  // As text_of, but a function's parameters alone have names.
  std::string name_of(const Source* source) const {
    return guard::to_string(source, parameter_names_);
  }
  std::shared_ptr<guard::SourceArena> arena() const { return arena_; }

  // --- Guards. Of most kinds a source has one at most.
  void add(GuardKind kind, const Source* source, PyObject* expected = nullptr,
           const Source* other = nullptr);
  void add(guard::Guard guard) { guards_.push_back(std::move(guard)); }
  void add_length(const Source* source, Py_ssize_t length);
  // A guard of another capture of the same call.
  void add_again(const guard::Guard& guard);
  // Sizes and strides of the tensor at `source`, by bit, are not guarded.
  void free_sizes(const Source* source, uint64_t sizes, uint64_t strides);
  bool has(GuardKind kind, const Source* source) const {
    const auto id = static_cast<size_t>(source->id);
    return id < guarded_.size() && (guarded_[id] & bit(kind)) != 0;
  }
  // The tensor at `source`, which is guarded, has no hooks that a gradient would call.
  void add_no_hooks(const Source* source);
  bool is_guarded(const Source* source) const {
    const auto id = static_cast<size_t>(source->id);
    return id < guarded_.size() && guarded_[id] != 0;
  }
  // As if there were one.
  void note(GuardKind kind, const Source* source);

  size_t count() const { return guards_.size(); }
  const guard::Guards& all() const { return guards_; }
  guard::Guards take() { return std::move(guards_); }

 private:
  static uint32_t bit(GuardKind kind) { return 1u << static_cast<int>(kind); }
  const Source* own(const Source* foreign);

  PyFunctionObject* root_;
  PyObject* parameter_names_;
  std::shared_ptr<guard::SourceArena> arena_;
  guard::Guards guards_;
  std::vector<uint32_t> guarded_;  // by source id: bits of guard kinds
  IdentityMap<const Source*> globals_bases_;
  IdentityMap<const Source*> by_body_;
};

}  // namespace braze::capture
