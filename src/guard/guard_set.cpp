#include "base/error.h"
#include "cpython/exception.h"
#include "guard/flat_checks.h"
#include "guard/guard.h"
#include "guard/guard_check.h"
#include "guard/memory_check.h"
#include "guard/shape_check.h"

namespace braze::guard {

using cpython::Ref;

struct GuardSet::Impl {
  std::shared_ptr<SourceArena> sources;
  Guards guards;
  Ref function;
  GlobalState state;
  Tree tree;
  std::vector<FlatChecks> arguments;  // those that are one tensor or scalar first: cheap, tell most
  FlatChecks everything_else;
  std::vector<int> float_nodes;
  std::vector<double> float_values;
  ShapeCheck shapes;
  std::vector<MemoryCheck> memories;
  std::vector<PyObject*> members;  // of the group looked at; kept for its memory
  bool busy = false;

  Impl(std::shared_ptr<SourceArena> arena, Guards list, const std::vector<const Source*>& inputs,
       PyObject* compiled, GlobalState captured, ShapeGuards shape_guards)
      : sources(std::move(arena)),
        guards(std::move(list)),
        function(Ref::borrow(compiled)),
        state(captured),
        tree(guards, inputs, sources->size()),
        everything_else(tree, tree.ranges.front()),
        float_nodes(nodes_of(shape_guards.floats, tree)),
        float_values(float_nodes.size()),
        shapes(std::move(shape_guards), tree) {
    for (const GroupGuard& group : tree.groups) {
      if (group.guard->kind != GuardKind::kDisjointMemory) continue;
      std::vector<int> tensors;
      for (const int node : group.nodes) tensors.push_back(tree.nodes[node].tensor);
      memories.emplace_back(*group.guard, std::move(tensors));
    }
    // The specs have what is to be known of the captured tensors: they may die.
    for (Guard& guard : guards)
      if (guard.kind == GuardKind::kTensor) guard.expected = Ref();
    for (const bool single : {true, false})
      for (const Range& range : tree.ranges)
        if (range.argument >= 0 && (range.end - range.begin == 1) == single)
          arguments.emplace_back(tree, range);
  }

  static std::vector<int> nodes_of(const std::vector<const Source*>& sources, const Tree& tree) {
    std::vector<int> nodes;
    for (const Source* source : sources) nodes.push_back(tree.node_of(source));
    return nodes;
  }

  // Their types have been checked.
  void read_floats() {
    for (size_t i = 0; i < float_nodes.size(); ++i)
      float_values[i] = PyFloat_AS_DOUBLE(tree.nodes[float_nodes[i]].object);
  }

  bool check_sources(PyObject* called, PyObject* const* args, std::vector<Ref>& dropped) {
    for (FlatChecks& checks : arguments)
      if (!checks.check(called, args, dropped)) return false;
    if (called != function.get()) return everything_else.check_afresh(called, args, dropped);
    return everything_else.check(called, args, dropped);
  }

  bool check_pairs() const {
    for (const PairGuard& pair : tree.pairs)
      if (!pair_holds(*pair.guard, tree.nodes[pair.node].object, tree.nodes[pair.other].object))
        return false;
    return true;
  }

  // What is written shares its dicts with nothing at all.
  bool own_dicts(const GroupGuard& group) const {
    for (size_t i = 0; i < group.guard->details->written; ++i)
      if (may_share_dict(tree.nodes[group.nodes[i]].object)) return false;
    return true;
  }

  bool check_distinct() {
    for (const GroupGuard& group : tree.groups) {
      if (group.guard->kind == GuardKind::kDisjointMemory) continue;
      if (group.guard->kind == GuardKind::kOwnDict && own_dicts(group)) continue;
      members.clear();
      for (const int node : group.nodes) members.push_back(tree.nodes[node].object);
      const size_t written = group.guard->details->written;
      if (group.guard->kind == GuardKind::kOwnDict ? shared_dict(members, written)
                                                   : same_member(members, written))
        return false;
    }
    return true;
  }

  bool check_tensors(c10::TensorImpl** inputs_out) {
    constexpr size_t kPrefetchDistance = 6;
    const size_t count = tree.tensors.size();
    TensorNode* tensors = tree.tensors.data();
    for (size_t i = 0; i < count; ++i) {
      if (i + kPrefetchDistance < count) {
        const TensorNode& ahead = tensors[i + kPrefetchDistance];
        prefetch_tensor(ahead.object, ahead.impl);
      }
      if (!tensors[i].spec.matches(tensors[i].object, &tensors[i].impl)) return false;
    }
    for (size_t i = 0; i < tree.input_tensors.size(); ++i)
      if (const int tensor = tree.input_tensors[i]; tensor >= 0)
        inputs_out[i] = tensors[tensor].impl;
    return true;
  }

  // Of tensors that have been checked.
  bool check_memories() {
    for (MemoryCheck& memory : memories)
      if (!memory.holds(tree.tensors)) return false;
    return true;
  }

  bool check(PyObject* called, PyObject* const* args, c10::TensorImpl** inputs_out,
             std::vector<Ref>& dropped) {
    if (!check_sources(called, args, dropped) || !check_pairs() || !check_distinct() ||
        !check_tensors(inputs_out) || !check_memories() || !(shapes.empty() || shapes.holds(tree)))
      return false;
    read_floats();
    return true;
  }

  const TensorSpec* spec(const Guard& guard) const {
    if (guard.kind != GuardKind::kTensor) return nullptr;
    return &tree.tensors[tree.nodes[tree.node_of(guard.source)].tensor].spec;
  }

  // Of a guard about a group that does not hold: the two sources that give one object, or one
  // memory; else null.
  std::pair<const Source*, const Source*> same_sources(const Guard& guard,
                                                       const std::vector<Ref>& objects) const {
    std::vector<PyObject*> found;
    std::vector<c10::TensorImpl*> tensors;
    for (const Source* source : guard.details->group) {
      found.push_back(objects[tree.node_of(source)].get());
      tensors.push_back(tensor_of(found.back()));
    }
    const auto same =
        guard.kind == GuardKind::kDistinct  ? same_member(found, guard.details->written)
        : guard.kind == GuardKind::kOwnDict ? shared_dict(found, guard.details->written)
                                            : MemoryCheck::overlapping(guard, tensors);
    if (!same) return {};
    return {guard.details->group[same->first], guard.details->group[same->second]};
  }

  // "a, b, c and 77 more"
  std::string group_text(const Guard& guard, PyObject* names) const {
    constexpr size_t kShown = 4;
    const std::vector<const Source*>& group = guard.details->group;
    std::string line;
    for (size_t i = 0; i < group.size() && i < kShown; ++i)
      line += (i > 0 ? ", " : "") + text(group[i], names);
    if (group.size() > kShown) line += " and " + std::to_string(group.size() - kShown) + " more";
    return line;
  }

  std::string text(const Source* source, PyObject* names) const {
    return source != nullptr ? to_string(source, names, function.get()) : std::string();
  }

  // Source texts for ShapeCheck.
  struct Named {
    const Impl& impl;
    PyObject* names;
    static std::string text(const Source* source, void* named) {
      return static_cast<Named*>(named)->impl.text(source, static_cast<Named*>(named)->names);
    }
  };
};

GuardSet::GuardSet(std::shared_ptr<SourceArena> sources, Guards guards,
                   std::vector<const Source*> inputs, PyObject* function, GlobalState state,
                   ShapeGuards shapes)
    : impl_(std::make_unique<Impl>(std::move(sources), std::move(guards), inputs, function, state,
                                   std::move(shapes))) {}

GuardSet::~GuardSet() = default;

bool GuardSet::check(PyObject* const* args, c10::TensorImpl** inputs_out, PyObject* function) {
  Impl& impl = *impl_;
  // A C function read as a source, or a finaliser, has called the compiled function again.
  if (impl.busy) [[unlikely]]
    return false;
  if (!(GlobalState::current() == impl.state)) return false;
  std::vector<Ref> dropped;  // finalisers run when all is consistent
  impl.busy = true;
  const bool holds =
      impl.check(function ? function : impl.function.get(), args, inputs_out, dropped);
  dropped.clear();  // one that calls the compiled function must not change what was found
  impl.busy = false;
  return holds;
}

std::span<const int64_t> GuardSet::symbols() const { return impl_->shapes.values(); }

std::span<const double> GuardSet::floats() const { return impl_->float_values; }

std::string GuardSet::why_not(PyObject* const* args, PyObject* parameter_names,
                              PyObject* function) {
  const std::vector<std::string> all = failures(args, parameter_names, function);
  return all.empty() ? "" : all.front();
}

std::vector<std::string> GuardSet::failures(PyObject* const* args, PyObject* parameter_names,
                                            PyObject* function) {
  const cpython::SavedException pending;
  const Impl& impl = *impl_;
  const GlobalState now = GlobalState::current();
  if (!(now == impl.state)) return {impl.state.difference(now)};
  std::vector<std::string> lines;
  std::vector<Ref> objects;
  impl.tree.resolve(0, static_cast<int>(impl.tree.nodes.size()),
                    function ? function : impl.function.get(), args, false, objects);
  for (const Guard& guard : impl.guards) {
    if (guard.has_group()) {
      const char* const expected =
          guard.kind == GuardKind::kDistinct  ? ": expected another object than "
          : guard.kind == GuardKind::kOwnDict ? ": expected another __dict__ than that of "
                                              : ": expected to share no memory with ";
      if (const auto [a, b] = impl.same_sources(guard, objects); a != nullptr)
        lines.push_back(impl.text(a, parameter_names) + expected + impl.text(b, parameter_names));
      continue;
    }
    PyObject* object = objects[impl.tree.node_of(guard.source)].get();
    PyObject* other =
        guard.other != nullptr ? objects[impl.tree.node_of(guard.other)].get() : nullptr;
    const TensorSpec* spec = impl.spec(guard);
    c10::TensorImpl* ignored;
    const bool fits = spec != nullptr ? spec->matches(object, &ignored) : holds(guard, object);
    if (fits && (guard.other == nullptr || pair_holds(guard, object, other))) continue;
    lines.push_back(failure_text(guard, impl.text(guard.source, parameter_names),
                                 impl.text(guard.other, parameter_names), spec, object));
  }
  Impl::Named named{impl, parameter_names};
  if (std::string line = impl.shapes.failure(objects, impl.tree, Impl::Named::text, &named);
      lines.empty() && !line.empty())
    lines.push_back(std::move(line));
  return lines;
}

std::optional<std::vector<Variation>> GuardSet::variations(PyObject* const* args,
                                                           PyObject* parameter_names) {
  const cpython::SavedException pending;
  const Impl& impl = *impl_;
  if (!(GlobalState::current() == impl.state)) return std::nullopt;
  std::vector<Ref> objects;
  impl.tree.resolve(0, static_cast<int>(impl.tree.nodes.size()), impl.function.get(), args, false,
                    objects);
  std::vector<Variation> found;
  for (const Guard& guard : impl.guards) {
    if (guard.has_group()) {
      if (impl.same_sources(guard, objects).first != nullptr) return std::nullopt;
      continue;
    }
    PyObject* object = objects[impl.tree.node_of(guard.source)].get();
    PyObject* expected = guard.expected.get();
    if (const TensorSpec* spec = impl.spec(guard)) {
      c10::TensorImpl* ignored;
      if (spec->matches(object, &ignored)) continue;
      const std::optional<TensorSpec::Varying> bits = spec->varying(object);
      if (!bits) return std::nullopt;
      for (int dim = 0; dim < 64; ++dim) {
        if (bits->sizes >> dim & 1)
          found.push_back({impl.text(guard.source, parameter_names), dim, spec->size(dim)});
        if (bits->strides >> dim & 1)
          found.push_back(
              {.source = impl.text(guard.source, parameter_names), .dim = dim, .is_stride = true});
      }
    } else if (guard.other != nullptr) {
      if (!pair_holds(guard, object, objects[impl.tree.node_of(guard.other)].get()))
        return std::nullopt;
    } else if (!holds(guard, object)) {
      int overflow = 0;
      if (guard.kind == GuardKind::kFloatCompare && object && PyFloat_CheckExact(object)) {
        found.push_back({.source = impl.text(guard.source, parameter_names), .is_float = true});
        continue;
      }
      // Of numpy's scalars, too, which have buffers.
      if (guard.kind == GuardKind::kValue && object && Py_TYPE(object) == Py_TYPE(expected) &&
          (PyFloat_CheckExact(object) ||
           (PyObject_CheckBuffer(object) && !PyBytes_Check(object)))) {
        found.push_back({.source = impl.text(guard.source, parameter_names), .is_float = true});
        continue;
      }
      if (guard.kind != GuardKind::kValue || object == nullptr || !PyLong_CheckExact(object) ||
          !PyLong_CheckExact(expected))
        return std::nullopt;
      const int64_t before = PyLong_AsLongLongAndOverflow(expected, &overflow);
      if (overflow) return std::nullopt;
      found.push_back({impl.text(guard.source, parameter_names), -1, before});
    }
  }
  const auto broken = impl.shapes.broken_facts(objects, impl.tree);
  if (!broken) return found.empty() ? std::nullopt : std::optional(std::move(found));
  for (const ShapeGuards::Fact* fact : *broken)
    if (fact->quantity.kind == Quantity::Kind::kSize)
      found.push_back({.source = impl.text(fact->quantity.source, parameter_names),
                       .dim = fact->quantity.dim,
                       .related = true});
  return found;
}

std::vector<std::string> GuardSet::describe(PyObject* parameter_names) const {
  const cpython::SavedException pending;
  std::vector<std::string> lines;
  for (const Guard& guard : impl_->guards)
    lines.push_back(guard.has_group()
                        ? impl_->group_text(guard, parameter_names) +
                              (guard.kind == GuardKind::kDistinct  ? " are distinct objects"
                               : guard.kind == GuardKind::kOwnDict ? " have dicts of their own"
                                                                   : " share no memory")
                        : guard_text(guard, impl_->text(guard.source, parameter_names),
                                     impl_->text(guard.other, parameter_names),
                                     impl_->spec(guard)));
  Impl::Named named{*impl_, parameter_names};
  for (std::string& line : impl_->shapes.describe(Impl::Named::text, &named))
    lines.push_back(std::move(line));
  return lines;
}

}  // namespace braze::guard
