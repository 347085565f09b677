// The tensor-level IR: SSA over ATen ops in a mutable list.
//
// A graph is a list of nodes in execution order. A node applies an op to arguments in schema order
// and defines its results as values. Until functionalisation, a node may write to argument values
// (`Op::effects.mutates`), and a result may be the same tensor as an argument (`x.add_(1)` has
// `x`'s storage): every value has a `storage` number, equal for all values that share memory.
// After functionalisation no node mutates; what is written back to inputs stands in `mutations()`.
//
// Metadata (sizes, strides, dtype) of values is that of eager PyTorch, and the memory that a
// compiled graph hands to extern calls and to the user has just those strides.
//
// A graph may be symbolic: sizes, strides, offsets and integer arguments are expressions over its
// symbols, each of which is bound to a size of an input, or to an integer that comes with the call.
// The expressions live in `arena()`, which clones share and only one thread at a time may extend.
//
// Uses are kept in step by the functions that change operands; nothing else may.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/argument.h"
#include "graph/op.h"
#include "graph/origin.h"
#include "graph/signature.h"
#include "graph/types.h"
#include "sym/condition.h"
#include "sym/expr.h"

namespace braze::graph {

class Node;
class Graph;
class Value;
using Argument = BasicArgument<Value*>;

class Value {
 public:
  int id() const { return id_; }
  const TensorType& type() const { return type_; }
  void set_type(TensorType type) { type_ = std::move(type); }
  Node* producer() const { return producer_; }  // null for inputs
  int result_index() const { return result_index_; }
  int storage() const { return storage_; }
  void set_storage(int storage) { storage_ = storage; }
  // One entry for each occurrence as an operand; a node that uses the value twice is in it twice.
  const std::vector<Node*>& users() const { return users_; }

 private:
  friend class Graph;
  friend class Node;
  friend class GraphBuilder;
  int id_ = -1;
  int result_index_ = 0;
  int storage_ = -1;
  TensorType type_;
  Node* producer_ = nullptr;
  std::vector<Node*> users_;
};

class Node {
 public:
  const Op& op() const { return *op_; }
  const std::vector<Argument>& args() const { return args_; }
  const std::vector<Value*>& results() const { return results_; }  // null: undefined tensor
  Value* result(int i = 0) const { return results_.at(i); }
  OriginId origin() const { return origin_; }
  void set_origin(OriginId origin) { origin_ = origin; }

  // Every tensor operand, in order, with absent ones left out.
  std::vector<Value*> operands() const;
  // Positions of the arguments that this node writes to: `Op::effects.mutates` less absent ones,
  // and for batch norm only when it trains.
  std::vector<int> mutated_arguments() const;
  void set_arg(int i, Argument argument);
  void replace_operand(Value* from, Value* to);

 private:
  friend class Graph;
  friend class GraphBuilder;
  const Op* op_ = nullptr;
  std::vector<Argument> args_;
  std::vector<Value*> results_;
  OriginId origin_ = -1;
  std::list<std::unique_ptr<Node>>::iterator place_;
};

struct Input {
  Value* value = nullptr;
  InputKind kind = InputKind::kUser;
  std::string name;  // "x", "encoder.weight"
  // kConstant: the bytes from element 0 to the end of the last one, as they lie in memory; null:
  // whoever calls the graph has the tensor.
  std::shared_ptr<const std::string> contents;
  // How often the traced code changes the shape of a view of it in place (`x[0].t_()`), which is a
  // new view to the graph and a write to eager's counter of versions.
  int reshapes = 0;
};

// Where the value of a symbol comes from when the graph is called.
struct SymbolBinding {
  enum class Kind : uint8_t {
    kSize,    // of dimension `index` of `input`
    kStride,  // of dimension `index` of `input`, in elements
    kScalar,  // the integer number `index` of the call
  };
  Kind kind = Kind::kSize;
  Value* input = nullptr;  // null for kScalar
  int index = 0;
};

// After the graph has run, `source` is copied into the memory of input `target`.
struct Mutation {
  Value* target = nullptr;
  Value* source = nullptr;
};

// A list of nodes with stable addresses; iterate with range-for over `nodes()`.
class Graph {
 public:
  Graph();
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  Value* add_input(TensorType type, InputKind kind, std::string name, int storage = -1);
  void set_input_kind(int input, InputKind kind) { inputs_[input].kind = kind; }
  void count_reshape(int input) { ++inputs_[input].reshapes; }
  void set_input_contents(const Value* input, std::shared_ptr<const std::string> contents);
  void move_inputs_to_end(InputKind kind);  // in their order, behind the others in theirs
  // Appends (or inserts before `before`) a node. Each result gets a value of the given type;
  // `storages[i]` < 0 or missing: fresh storage.
  Node* add_node(const Op& op, std::vector<Argument> args, std::vector<TensorType> result_types,
                 OriginId origin = -1, Node* before = nullptr, std::vector<int> storages = {});
  // A node whose result i is undefined (autograd's empty tensor) where `defined[i]` is false.
  void set_result_undefined(Node* node, int i);

  const std::list<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  // By output; what is not said is kUser.
  const std::vector<OutputRole>& output_roles() const { return output_roles_; }
  void set_outputs(std::vector<Value*> outputs, std::vector<OutputRole> roles = {});
  const std::vector<Mutation>& mutations() const { return mutations_; }
  void set_mutations(std::vector<Mutation> mutations);

  // Symbol i of the arena is bound by `symbols()[i]`; its name, hint and range stand in the arena.
  bool is_symbolic() const { return !symbols_.empty(); }
  const std::vector<SymbolBinding>& symbols() const { return symbols_; }
  const std::shared_ptr<sym::ExprArena>& arena() const { return arena_; }  // null if not symbolic
  // Takes the conditions away.
  void set_symbols(std::shared_ptr<sym::ExprArena> arena, std::vector<SymbolBinding> symbols);
  // What tracing took to hold for the symbols, beside their ranges: the graph is for no others.
  const std::vector<sym::Condition>& conditions() const { return conditions_; }
  void set_conditions(std::vector<sym::Condition> conditions);

  // Rewires every use, graph outputs and mutation sources too.
  void replace_all_uses(Value* from, Value* to);
  bool has_uses(const Value* value) const;  // operands, outputs or mutations
  void erase(Node* node);                   // its results must have no uses; they are destroyed

  OriginId add_origin(Origin origin);  // equal origins share one id
  const Origin* origin(OriginId id) const { return id < 0 ? nullptr : &origins_[id]; }
  const std::vector<Origin>& origins() const { return origins_; }
  int new_storage() { return next_storage_++; }
  // Ids are below this number: the size of a table by value id.
  int value_count() const { return static_cast<int>(values_.size()); }
  bool owns(const Value* value) const;

  // A deep copy with the same ids, storages and origins.
  Graph clone() const;

 private:
  friend class GraphBuilder;
  Value* new_value(TensorType type, int storage);

  std::list<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Value>> values_;  // by id; null: erased
  std::vector<Input> inputs_;
  std::vector<Value*> outputs_;
  std::vector<OutputRole> output_roles_;
  std::vector<Mutation> mutations_;
  std::vector<Origin> origins_;
  std::unordered_multimap<size_t, OriginId> origin_index_;  // by hash
  std::shared_ptr<sym::ExprArena> arena_;
  std::vector<SymbolBinding> symbols_;
  std::vector<sym::Condition> conditions_;
  int next_storage_ = 0;
};

// Text form; `parse` accepts exactly what `to_string` prints (comments are skipped), so that
// to_string(parse(text), false) == text for a printed text.
//
//   graph(%0 x: f32[8], %1 w: f32[8] parameter) {
//     %2: f32[8] = aten.add.Tensor(%0, %1, 1)      // model.py:12 forward, layers.3, torch.add
//     %3: f32[8] #%0, _ = my.op(%0, [1, 2], tensors[], ?[%1, None], 1.0, "text", cpu) !mutates[0]
//     return %2, %3 saved
//     mutate %0 <- %2
//   }
//
// Behind an input stands its kind, behind an output its kind and state (signature.h), unless it is
// the user's, and an output an ordinary tensor: "saved", "inference", "view(no_grad)". The contents
// of a constant follow in hexadecimal digits: f32[2] constant "0000803f00000040".
// "#%n" after a type: the memory is that of the earlier value %n (the first with this storage).
// "_" is an undefined result. Numbers with a point, an exponent, inf and nan are doubles. Empty
// lists other than of integers say what they hold: tensors[], ?[], floats[], bools[].
// Behind a call of an op that is not in op_list.inc stand its effects, each after a '!', unless
// they are what its name says (`effects_by_name`); "!none": there are none. Symbols stand before
// the inputs, with the value seen when traced and, unless it is [2, inf], the range that guards
// have assured; sizes and integers are then expressions (sym/parse.h). Names begin with "s".
//
//   graph(s0 = size(%0, 0) hint 128, s1 = scalar(0) hint 3 range [0, 7], %0 x: f32[s0, 8]) {
//     %1: f32[s0 + s1, 8] = my.pad(%0, [0, s1], (s0 + s1) // 2)
//     return %1
//     where s0 >= s1                                 a condition on symbols, at the end
//   }
//
// The parser's errors are InternalErrors with "line:column".
std::string to_string(const Graph& graph, bool with_origins = true);
std::string to_string(const Node& node);  // one line, without storages and origin
Graph parse(std::string_view text);

// The name-free form that caches hash: values numbered in order of definition, no origins, no
// input names.
std::string canonical(const Graph& graph);

// Checks every invariant of this page; throws InternalError that names the node:
//   * expressions are over the graph's own symbols, which are bound to dimensions of its inputs;
//   * contents are those of constants, whose sizes are numbers, and as long as these say;
//   * operands and results belong to the graph, are defined before use, uses are in step;
//   * sizes and strides have one length, sizes are not negative;
//   * tensor positions that the op's effects name are there, and a result that aliases an argument
//     has its storage; fresh results of known ops do not share storage with earlier values;
//   * mutations write to inputs, at most once each, from a value of the same sizes and dtype that
//     does not share memory with a mutated input.
void verify(const Graph& graph);
// The same, and that no node mutates.
void verify_functional(const Graph& graph);

}  // namespace braze::graph
