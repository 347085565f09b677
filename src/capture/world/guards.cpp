#include "capture/world/guards.h"

#include <algorithm>

namespace braze::capture {

const Source* TraceGuards::globals_base(PyFunctionObject* function) {
  const Source*& base = globals_bases_[function->func_globals];
  if (!base) base = function_base(function);
  return base;
}

void TraceGuards::add(GuardKind kind, const Source* source, PyObject* expected,
                      const Source* other) {
  auto id = static_cast<size_t>(source->id);
  if (id >= guarded_.size()) guarded_.resize(std::max(id + 1, guarded_.size() * 2 + 256));
  bool pair = kind == GuardKind::kSameObject || kind == GuardKind::kNotSameObject ||
              kind == GuardKind::kSharedMemory || kind == GuardKind::kFloatCompare;
  if (!pair) {
    if (guarded_[id] & bit(kind)) return;
    guarded_[id] |= bit(kind);
  }
  guards_.push_back({kind, source, Ref::borrow(expected), other, nullptr});
}

void TraceGuards::note(GuardKind kind, const Source* source) {
  auto id = static_cast<size_t>(source->id);
  guarded_.resize(std::max(guarded_.size(), id + 1));
  guarded_[id] |= bit(kind);
}

void TraceGuards::add_length(const Source* source, Py_ssize_t length) {
  if (has(GuardKind::kLength, source)) return;
  add(GuardKind::kLength, source, Ref::steal(PyLong_FromSsize_t(length)).get());
}

// The same path in this trace's arena.
const Source* TraceGuards::own(const Source* foreign) {
  if (!foreign) return nullptr;
  return source(foreign->kind, own(foreign->base), foreign->key.get());
}

void TraceGuards::add_again(const guard::Guard& given) {
  if (!given.has_group())
    return add(given.kind, own(given.source), given.expected.get(), own(given.other));
  auto details = std::make_unique<guard::GuardDetails>(*given.details);
  for (const Source*& source : details->group) source = own(source);
  guards_.push_back({.kind = given.kind,
                     .source = own(given.source),
                     .expected = Ref(),
                     .details = std::move(details)});
}

void TraceGuards::free_sizes(const Source* source, uint64_t sizes, uint64_t strides) {
  for (guard::Guard& guard : guards_)
    if (guard.kind == GuardKind::kTensor && guard.source == source)
      guard.details = std::make_unique<guard::GuardDetails>(
          guard::GuardDetails{.free_sizes = sizes, .free_strides = strides});
}

}  // namespace braze::capture
