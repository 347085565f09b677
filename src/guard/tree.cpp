#include "guard/tree.h"

#include <ranges>
#include <utility>

#include "base/error.h"
#include "guard/guard_check.h"
#include "guard/resolve.h"

namespace braze::guard {

using cpython::Ref;

namespace {

constexpr int kUnknown = -1;
constexpr int kCollected = -2;

// Tensors apart.
bool is_about_one_source(const Guard& guard) {
  return guard.other == nullptr && !guard.has_group() && guard.kind != GuardKind::kTensor;
}

TensorSpec spec_of(const Guard& guard) {
  if (guard.details == nullptr) return TensorSpec(guard.expected.get());
  return TensorSpec(guard.expected.get(), guard.details->free_sizes, guard.details->free_strides,
                    guard.details->no_hooks);
}

}  // namespace

Tree::Tree(const Guards& guards, const std::vector<const Source*>& inputs, int source_count)
    : index_(source_count, kUnknown) {
  std::vector<const Source*> sources;
  sources.reserve(source_count);
  for (const Guard& guard : guards) {
    collect(guard.source, sources);
    if (guard.other != nullptr) collect(guard.other, sources);
    if (guard.has_group())
      for (const Source* member : guard.details->group) collect(member, sources);
  }
  place(sources);
  tensors.reserve(inputs.size());
  for (const Guard& guard : guards) attach(guard);
  list_guards(guards);
  input_tensors.reserve(inputs.size());
  for (const Source* input : inputs) {
    if (input == nullptr) {
      input_tensors.push_back(-1);
      continue;
    }
    const int node = index_[input->id];
    BRAZE_CHECK(node >= 0 && nodes[node].tensor >= 0, "graph input ", to_string(input),
                " has no tensor guard");
    input_tensors.push_back(nodes[node].tensor);
  }
}

void Tree::collect(const Source* source, std::vector<const Source*>& sources) {
  if (index_[source->id] == kCollected) return;
  if (source->base != nullptr) collect(source->base, sources);
  index_[source->id] = kCollected;
  sources.push_back(source);
}

void Tree::place(const std::vector<const Source*>& sources) {
  std::vector<int> sizes(index_.size());  // of the subtrees, by source id
  for (const Source* source : std::views::reverse(sources)) {
    const int size = ++sizes[source->id];
    if (source->base != nullptr) sizes[source->base->id] += size;
  }
  place_roots(sources, sizes);
  nodes.resize(sources.size());
  for (const Source* source : sources) {
    int& index = index_[source->id];
    const int parent = source->base != nullptr ? index_[source->base->id] : -1;
    if (parent >= 0) {
      index = nodes[parent].end;  // of the children that have been placed
      nodes[parent].end += sizes[source->id];
      nodes[parent].child_kinds |= 1u << static_cast<int>(source->kind);
    }
    nodes[index].source = source;
    nodes[index].parent = parent;
    nodes[index].end = index + 1;
  }
}

void Tree::place_roots(const std::vector<const Source*>& sources, const std::vector<int>& sizes) {
  int end = 0;
  for (const bool is_argument : {false, true}) {
    for (const Source* source : sources) {
      if (source->base != nullptr || (source->kind == SourceKind::kArgument) != is_argument)
        continue;
      const int begin = std::exchange(end, end + sizes[source->id]);
      index_[source->id] = begin;
      if (is_argument)
        ranges.push_back({begin, end, static_cast<int>(PyLong_AsLong(source->key.get()))});
    }
    if (!is_argument) ranges.push_back({0, end, -1});
  }
}

void Tree::attach(const Guard& guard) {
  const int index = index_[guard.source->id];
  if (guard.other != nullptr) {
    pairs.push_back({&guard, index, index_[guard.other->id]});
    return;
  }
  if (guard.has_group()) {
    GroupGuard& made = groups.emplace_back(GroupGuard{&guard, {}});
    for (const Source* member : guard.details->group) made.nodes.push_back(index_[member->id]);
    return;
  }
  Node& node = nodes[index];
  node.guard_kinds |= 1u << static_cast<int>(guard.kind);
  if (guard.kind != GuardKind::kTensor) {
    ++node.guard_count;
  } else if (node.tensor < 0) {
    node.tensor = static_cast<int>(tensors.size());
    tensors.push_back({nullptr, nullptr, spec_of(guard), index});
  }
}

void Tree::list_guards(const Guards& guards) {
  uint32_t count = 0;
  for (Node& node : nodes) {
    node.first_guard = count;
    count += std::exchange(node.guard_count, 0);
  }
  guards_.resize(count);
  for (const Guard& guard : guards) {
    if (!is_about_one_source(guard)) continue;
    Node& node = nodes[index_[guard.source->id]];
    guards_[node.first_guard + node.guard_count++] = &guard;
  }
}

bool Tree::guards_hold(const Node& node, PyObject* object) const {
  for (const Guard* guard : guards_of(node))
    if (!holds(*guard, object)) return false;
  return true;
}

bool Tree::resolve(int begin, int end, PyObject* function, PyObject* const* args, bool check,
                   std::vector<Ref>& fresh) const {
  fresh.clear();
  fresh.reserve(end - begin);
  for (int i = begin; i < end; ++i) {
    const Node& node = nodes[i];
    if (node.parent < 0) {
      fresh.push_back(resolve_root(node.source, function, args));
    } else {
      PyObject* base =
          node.parent >= begin ? fresh[node.parent - begin].get() : nodes[node.parent].object;
      fresh.push_back(base != nullptr ? resolve_step(node.source, base, function, args) : Ref());
    }
    if (check && !guards_hold(node, fresh.back().get())) return false;
  }
  return true;
}

void Tree::commit(int begin, std::vector<Ref>& fresh, std::vector<Ref>& dropped) {
  for (size_t i = 0; i < fresh.size(); ++i) {
    const int index = begin + static_cast<int>(i);
    set_object(index, fresh[i].get());
    if (nodes[index].held) dropped.push_back(std::move(nodes[index].held));
    // A gradient is not kept from its parameter's `grad = None` until the next call.
    if (has_other_owner(fresh[i].get()))
      dropped.push_back(std::move(fresh[i]));
    else
      nodes[index].held = std::move(fresh[i]);
  }
  fresh.clear();
}

}  // namespace braze::guard
