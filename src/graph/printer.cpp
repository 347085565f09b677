#include <charconv>
#include <cmath>

#include "graph/graph.h"
#include "graph/op_kind.h"
#include "graph/text.h"

namespace braze::graph {

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    switch (c) {
      case '"':
      case '\\':
        result += '\\';
        result += c;
        break;
      case '\n':
        result += "\\n";
        break;
      default:
        result += c;
    }
  }
  return result + "\"";
}

namespace {
constexpr std::string_view kDigits = "0123456789abcdef";
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<std::string> bytes_of(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    const size_t high = kDigits.find(digits[i]), low = kDigits.find(digits[i + 1]);
    if (high == kDigits.npos || low == kDigits.npos) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

std::string_view to_string(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::kContiguous:
      return "contiguous_format";
    case MemoryFormat::kPreserve:
      return "preserve_format";
    case MemoryFormat::kChannelsLast:
      return "channels_last";
    case MemoryFormat::kChannelsLast3d:
      return "channels_last_3d";
  }
  BRAZE_UNREACHABLE("memory format");
}

namespace {

// A name that needs no quotes: letters, digits, '_' and '.', not beginning with a digit.
bool is_plain_name(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name) {
    if (!is_name_char(c)) return false;
  }
  return true;
}

class Printer {
 public:
  Printer(const Graph* graph, bool canonical, bool with_origins)
      : graph_(graph), canonical_(canonical), with_origins_(with_origins) {
    if (graph) {
      numbers_.resize(graph->value_count(), -1);
      for (const Input& input : graph->inputs()) first_use(input.value);
      for (const auto& node : graph->nodes()) {
        for (const Value* result : node->results()) {
          if (result) first_use(result);
        }
      }
    }
  }

  std::string graph() {
    text_ = "graph(";
    for (size_t i = 0; i < graph_->symbols().size(); ++i) {
      symbol(static_cast<int>(i));
      if (i + 1 < graph_->symbols().size() || !graph_->inputs().empty()) text_ += ", ";
    }
    for (size_t i = 0; i < graph_->inputs().size(); ++i) {
      if (i) text_ += ", ";
      input(graph_->inputs()[i]);
    }
    text_ += ") {\n";
    for (const auto& n : graph_->nodes()) {
      const size_t begin = text_.size();
      text_ += "  ";
      node(*n);
      if (with_origins_) origin(graph_->origin(n->origin()), text_.size() - begin);
      text_ += '\n';
    }
    text_ += "  return";
    for (size_t i = 0; i < graph_->outputs().size(); ++i) {
      text_ += i ? ", " : " ";
      value(graph_->outputs()[i]);
      role(graph_->output_roles()[i]);
    }
    text_ += '\n';
    for (const Mutation& mutation : graph_->mutations()) {
      text_ += "  mutate ";
      value(mutation.target);
      text_ += " <- ";
      value(mutation.source);
      text_ += '\n';
    }
    for (const sym::Condition& condition : graph_->conditions())
      text_ += "  where " + sym::to_string(condition) + '\n';
    text_ += "}\n";
    return std::move(text_);
  }

  std::string single(const Node& n) {
    node(n);
    return std::move(text_);
  }

 private:
  void first_use(const Value* v) {
    numbers_[v->id()] = next_number_++;
    if (v->storage() >= static_cast<int>(first_in_storage_.size()))
      first_in_storage_.resize(v->storage() + 1);
    if (!first_in_storage_[v->storage()]) first_in_storage_[v->storage()] = v;
  }

  // "s0 = size(%0, 0) hint 128 range [2, 512]"
  void symbol(int number) {
    const sym::ExprArena& arena = *graph_->arena();
    const SymbolBinding& binding = graph_->symbols()[number];
    text_ += arena.name(number);
    switch (binding.kind) {
      case SymbolBinding::Kind::kSize:
        text_ += " = size(";
        break;
      case SymbolBinding::Kind::kStride:
        text_ += " = stride(";
        break;
      case SymbolBinding::Kind::kScalar:
        text_ += " = scalar(";
        break;
    }
    if (binding.input) {
      value(binding.input);
      text_ += ", ";
    }
    text_ +=
        std::to_string(binding.index) + ") hint " + std::to_string(arena.symbol_expr(number)->hint);
    const sym::Range range = arena.range(number);
    if (range.low == kDefaultRange.low && range.high == kDefaultRange.high) return;
    text_ += " range [";
    text_ += range.low == INT64_MIN ? "-inf" : std::to_string(range.low);
    text_ += ", ";
    text_ += range.high == INT64_MAX ? "inf" : std::to_string(range.high);
    text_ += "]";
  }

  void value(const Value* v) {
    text_ += '%';
    text_ += std::to_string(canonical_ ? numbers_[v->id()] : v->id());
  }

  void definition(const Value* v) {
    text_ += ": ";
    text_ += to_string(v->type());
    const Value* first = v->storage() < static_cast<int>(first_in_storage_.size())
                             ? first_in_storage_[v->storage()]
                             : v;
    if (graph_ && first != v) {
      text_ += " #";
      value(first);
    }
  }

  void input(const Input& in) {
    value(in.value);
    if (!canonical_ && !in.name.empty())
      text_ += ' ' + (is_plain_name(in.name) ? in.name : quoted(in.name));
    definition(in.value);
    word(to_string(in.kind));
    if (in.contents) text_ += " \"" + hexadecimal(*in.contents) + '"';
  }

  void word(std::string_view word) {
    if (!word.empty()) (text_ += ' ') += word;
  }

  // Whether the traced code made it can be seen: a node gives it.
  void role(const OutputRole& role) {
    word(to_string(role.kind));
    word(to_string(role.state));
  }

  void node(const Node& n) {
    for (size_t i = 0; i < n.results().size(); ++i) {
      if (i) text_ += ", ";
      if (const Value* result = n.results()[i]) {
        value(result);
        definition(result);
      } else {
        text_ += '_';
      }
    }
    if (!n.results().empty()) text_ += " = ";
    text_ += n.op().name;
    text_ += '(';
    for (size_t i = 0; i < n.args().size(); ++i) {
      if (i) text_ += ", ";
      argument(n.args()[i]);
    }
    text_ += ')';
    effects(n.op());
  }

  // Those of an op that is not on the list and does other than its name says: " !mutates[1]".
  void effects(const Op& op) {
    if (op.kind != OpKind::kUnknown || op.effects == effects_by_name(op.name)) return;
    if (op.effects == Effects()) text_ += " !none";
#define X(member, word) effect(op.effects.member, " !" word);
    BRAZE_GRAPH_EFFECTS(X)
#undef X
  }
  void effect(bool present, const char* word) {
    if (present) text_ += word;
  }
  void effect(const std::vector<int>& positions, const char* word) {
    if (!positions.empty()) list(word, positions, [&](int i) { text_ += std::to_string(i); });
  }

  template <class T, class F>
  void list(const char* prefix, const T& items, F&& print) {
    text_ += prefix;
    text_ += '[';
    bool first = true;
    for (const auto& item : items) {
      if (!first) text_ += ", ";
      first = false;
      print(item);
    }
    text_ += ']';
  }

  void argument(const Argument& arg) {
    struct Visitor {
      Printer& p;
      void operator()(None) { p.text_ += "None"; }
      void operator()(Value* v) { p.value(v); }
      void operator()(const std::vector<Value*>& vs) {
        p.list(vs.empty() ? "tensors" : "", vs, [&](const Value* v) { p.value(v); });
      }
      void operator()(const OptionalRefs<Value*>& vs) {
        p.list("?", vs.refs, [&](const std::optional<Value*>& v) {
          if (v)
            p.value(*v);
          else
            p.text_ += "None";
        });
      }
      void operator()(sym::Int i) { p.text_ += sym::to_string(i); }
      void operator()(double d) { p.text_ += number_text(d); }
      void operator()(bool b) { p.text_ += b ? "true" : "false"; }
      void operator()(std::complex<double> c) {
        p.text_ += "complex(" + number_text(c.real()) + ", " + number_text(c.imag()) + ")";
      }
      void operator()(const std::string& s) { p.text_ += quoted(s); }
      void operator()(const std::vector<sym::Int>& is) {
        p.list("", is, [&](sym::Int i) { p.text_ += sym::to_string(i); });
      }
      void operator()(const std::vector<double>& ds) {
        p.list(ds.empty() ? "floats" : "", ds, [&](double d) { p.text_ += number_text(d); });
      }
      void operator()(const std::vector<bool>& bs) {
        p.list(bs.empty() ? "bools" : "", bs, [&](bool b) { p.text_ += b ? "true" : "false"; });
      }
      void operator()(DType d) { p.text_ += to_string(d); }
      void operator()(Device d) { p.text_ += to_string(d); }
      void operator()(MemoryFormat f) { p.text_ += to_string(f); }
      void operator()(Layout) { p.text_ += "strided"; }
    };
    std::visit(Visitor{*this}, arg);
  }

  void origin(const Origin* from, size_t width) {
    if (!from) return;
    std::string note;
    auto part = [&](const std::string& text, const char* separator) {
      if (!text.empty()) note += (note.empty() ? "" : separator) + text;
    };
    if (!from->file.empty()) part(from->file.str() + ":" + std::to_string(from->line), "");
    part(from->function, " ");
    part(from->module_path, ", ");
    part(from->call, ", ");
    if (note.empty()) return;
    constexpr size_t kColumn = 60;
    text_.append(width < kColumn ? kColumn - width : 1, ' ');
    text_ += "// " + note;
  }

  const Graph* graph_;
  bool canonical_, with_origins_;
  std::vector<int> numbers_;  // by value id: order of definition
  int next_number_ = 0;
  std::vector<const Value*> first_in_storage_;
  std::string text_;
};

}  // namespace

std::string to_string(const Graph& graph, bool with_origins) {
  return Printer(&graph, false, with_origins).graph();
}

std::string to_string(const Node& node) { return Printer(nullptr, false, false).single(node); }

std::string canonical(const Graph& graph) { return Printer(&graph, true, false).graph(); }

}  // namespace braze::graph
