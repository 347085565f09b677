// Inside of guard/: the sources of one GuardSet as a tree, with what each resolved to last.
#pragma once

#include <span>
#include <vector>

#include "guard/guard.h"
#include "guard/tensor_spec.h"

namespace braze::guard {

struct Node {
  const Source* source = nullptr;
  int parent = -1;
  int end = 0;  // nodes are in preorder: the subtree is [index, end)
  int tensor = -1;
  uint32_t child_kinds = 0;  // bits by SourceKind
  uint32_t guard_kinds = 0;  // bits by GuardKind
  std::vector<int> children;
  std::vector<const Guard*> guards;  // those about this source alone
  // What it resolved to at the last successful check; null: absent. Alive as long as the node's
  // container is as it was, or held: see program.h.
  PyObject* object = nullptr;
  cpython::Ref held;

  bool has_child(SourceKind kind) const { return (child_kinds >> static_cast<int>(kind) & 1) != 0; }
  bool has_guard(GuardKind kind) const { return (guard_kinds >> static_cast<int>(kind) & 1) != 0; }
  bool is_leaf() const { return children.empty(); }
};

struct TensorNode {
  PyObject* object = nullptr;  // as in the node
  c10::TensorImpl* impl = nullptr;
  TensorSpec spec;
  int node;
};

struct PairGuard {
  const Guard* guard;
  int node, other;
};

struct DistinctGuard {
  const Guard* guard;
  std::vector<int> nodes;  // of its group
};

// The nodes of one root argument, or of everything reached from the function and pinned objects.
struct Range {
  int begin = 0, end = 0;
  int argument = -1;
};

class Tree {
 public:
  // `guards` and `inputs` are those of a GuardSet; the tree points into `guards`.
  Tree(const std::vector<Guard>& guards, const std::vector<const Source*>& inputs,
       int source_count);

  std::vector<Node> nodes;
  std::vector<TensorNode> tensors;
  std::vector<PairGuard> pairs;
  std::vector<DistinctGuard> distinct;
  std::vector<Range> ranges;       // the static one first, it may be empty
  std::vector<int> input_tensors;  // by graph input: index into `tensors`, -1: a constant

  int node_of(const Source* source) const { return index_[source->id]; }

  // Reads the nodes [begin, end) again into `fresh`, whose first entry is node `begin`. With
  // `check`, stops at the first guard (about one source, tensors apart) that fails.
  bool resolve(int begin, int end, PyObject* function, PyObject* const* args, bool check,
               std::vector<cpython::Ref>& fresh) const;
  // Takes over what `resolve` has read; former references go to `dropped`.
  void commit(int begin, std::vector<cpython::Ref>& fresh, std::vector<cpython::Ref>& dropped);
  void set_object(int node, PyObject* object) {
    nodes[node].object = object;
    if (nodes[node].tensor >= 0) tensors[nodes[node].tensor].object = object;
  }
  bool guards_hold(const Node& node, PyObject* object) const;

 private:
  void collect(const Source* source, std::vector<const Source*>& roots,
               std::vector<std::vector<const Source*>>& children);
  void place(const Source* source, int parent,
             const std::vector<std::vector<const Source*>>& children);
  void place_roots(const std::vector<const Source*>& roots,
                   const std::vector<std::vector<const Source*>>& children);
  void attach(const Guard& guard);

  std::vector<int> index_;  // by source id
};

}  // namespace braze::guard
