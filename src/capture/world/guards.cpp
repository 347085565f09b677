#include "capture/world/guards.h"

#include <algorithm>

#include "capture/known.h"
#include "capture/policy/policy.h"
#include "cpython/lookup.h"

namespace braze::capture {

const Source* TraceGuards::globals_base(PyFunctionObject* function) {
  const Source*& base = globals_bases_[function->func_globals];
  if (!base) base = function_base(function);
  return base;
}

namespace {

// A local of the frame or what its function closes over, what containers and partials there hold,
// and what the closures and defaults of such functions do: a nested function stands there as often
// as the statement that defines it runs.
bool is_of_frame(const Source* source) {
  const auto is_part_of_partial = [](const Source* part) {
    return part->kind == SourceKind::kAttribute &&
           (part->key.get() == names().partial_func || part->key.get() == names().partial_args ||
            part->key.get() == names().partial_keywords);
  };
  for (; source->base; source = source->base)
    if (source->kind != SourceKind::kCell && source->kind != SourceKind::kContents &&
        source->kind != SourceKind::kDefault && source->kind != SourceKind::kKwDefault &&
        source->kind != SourceKind::kItem && !is_part_of_partial(source))
      return false;
  return source->kind == SourceKind::kArgument || source->kind == SourceKind::kFunction;
}

// Nested in another function, or a lambda.
bool is_made_anew(PyFunctionObject* function) {
  const auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  return (code->co_flags & CO_NESTED) ||
         PyUnicode_CompareWithASCIIString(code->co_name, "<lambda>") == 0;
}

}  // namespace

bool TraceGuards::read_by_body(PyFunctionObject* function, const Source* source) {
  if (function == root_ || !is_made_anew(function) || !is_of_frame(source)) return false;
  PyObject* module = cpython::dict_get(function->func_globals, names().name);
  if (module && is_torch_module_name(module)) return false;
  const cpython::Ref body = cpython::function_body(function);
  if (!body) return false;
  add(GuardKind::kBody, source, body.get());
  by_body_[reinterpret_cast<PyObject*>(function)] = source;
  return true;
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

void TraceGuards::add_no_hooks(const Source* source) {
  for (guard::Guard& guard : guards_) {
    if (guard.kind != GuardKind::kTensor || guard.source != source) continue;
    if (!guard.details) guard.details = std::make_unique<guard::GuardDetails>();
    guard.details->no_hooks = true;
  }
}

}  // namespace braze::capture
