#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/op_kind.h"
#include "graph/text.h"
#include "sym/parse.h"

namespace braze::graph {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph parse() {
    expect("graph");
    expect("(");
    if (!accept(")")) {
      do {
        if (peek() == '%')
          input();
        else
          symbol();
      } while (accept(","));
      expect(")");
    }
    bind_symbols();
    expect("{");
    while (!accept_word("return")) node();
    std::vector<Value*> outputs;
    std::vector<OutputRole> roles;
    if (peek() == '%') {
      do {
        outputs.push_back(use());
        roles.push_back(role(outputs.back()->producer() != nullptr));
      } while (accept(","));
    }
    graph_.set_outputs(std::move(outputs), std::move(roles));
    std::vector<Mutation> mutations;
    while (accept_word("mutate")) {
      Value* target = use();
      expect("<-");
      mutations.push_back({target, use()});
    }
    graph_.set_mutations(std::move(mutations));
    std::vector<sym::Condition> conditions;
    while (accept_word("where")) conditions.push_back(condition());
    graph_.set_conditions(std::move(conditions));
    expect("}");
    if (peek() != '\0') fail("text after the graph");
    return std::move(graph_);
  }

 private:
  // Lexing.
  [[noreturn]] void fail(const std::string& message) const {
    int line = 1, column = 1;
    for (size_t i = 0; i < position_ && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') ++line, column = 1;
    }
    throw InternalError(
        __FILE__, __LINE__,
        "graph text " + std::to_string(line) + ":" + std::to_string(column) + ": " + message);
  }

  void skip_space() {
    position_ = std::min(text_.find_first_not_of(" \n\t\r", position_), text_.size());
    if (text_.substr(position_, 2) != "//") return;
    position_ = std::min(text_.find('\n', position_), text_.size());
    skip_space();
  }

  // The next character that is not space; '\0' at the end.
  char peek() {
    skip_space();
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool accept(std::string_view token) {
    skip_space();
    if (!text_.substr(position_).starts_with(token)) return false;
    position_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail("expected '" + std::string(token) + "'");
  }

  std::string_view peek_name() {
    skip_space();
    size_t end = position_;
    while (end < text_.size() && is_name_char(text_[end])) ++end;
    return text_.substr(position_, end - position_);
  }

  std::string_view name(const char* what) {
    const std::string_view found = peek_name();
    if (found.empty()) fail(std::string("expected ") + what);
    position_ += found.size();
    return found;
  }

  bool accept_word(std::string_view word) {
    if (peek_name() != word) return false;
    position_ += word.size();
    return true;
  }

  int64_t integer() {
    skip_space();
    int64_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("expected an integer");
    position_ += end - begin;
    return value;
  }

  std::string string() {
    expect("\"");
    std::string value;
    while (true) {
      if (position_ >= text_.size()) fail("a string that does not end");
      char c = text_[position_++];
      if (c == '"') return value;
      if (c == '\\') {
        if (position_ >= text_.size()) fail("a string that does not end");
        c = text_[position_++];
        if (c == 'n') c = '\n';
      }
      value += c;
    }
  }

  // "%7"
  int number() {
    expect("%");
    const int64_t id = integer();
    if (id < 0 || id > kLargestId) fail("value number out of range");
    return static_cast<int>(id);
  }

  // Types and definitions.
  sym::Dims dims(const char* close) {
    sym::Dims result;
    if (accept(close)) return result;
    do result.push_back(expression());
    while (accept(","));
    expect(close);
    return result;
  }

  sym::Int expression() { return symbolic(sym::parse); }
  sym::Condition condition() { return symbolic(sym::parse_condition); }

  template <class T>
  T symbolic(T (*read)(std::string_view& text, sym::ExprArena* arena)) {
    skip_space();
    std::string_view rest = text_.substr(position_);
    try {
      const T value = read(rest, arena_.get());
      position_ = text_.size() - rest.size();
      return value;
    } catch (const InternalError& error) {
      fail(error.what());
    }
  }

  bool at_symbol() {
    skip_space();
    return sym::begins_with_symbol(text_.substr(position_), arena_.get());
  }

  // Symbols. Their inputs are defined later.
  struct ParsedSymbol {
    SymbolBinding binding;
    int input = -1;  // number of the value
  };

  // "s0 = size(%0, 0) hint 128 range [2, 512]"
  void symbol() {
    const std::string symbol_name(name("a symbol or an input"));
    if (arena_ && arena_->find(symbol_name)) fail("'" + symbol_name + "' is defined twice");
    expect("=");
    ParsedSymbol parsed;
    const std::string_view kind = name("size, stride or scalar");
    if (kind == "size")
      parsed.binding.kind = SymbolBinding::Kind::kSize;
    else if (kind == "stride")
      parsed.binding.kind = SymbolBinding::Kind::kStride;
    else if (kind == "scalar")
      parsed.binding.kind = SymbolBinding::Kind::kScalar;
    else
      fail("expected size, stride or scalar");
    expect("(");
    if (kind != "scalar") {
      parsed.input = number();
      expect(",");
    }
    parsed.binding.index = static_cast<int>(integer());
    expect(")");
    if (!accept_word("hint")) fail("expected 'hint'");
    const int64_t hint = integer();
    sym::Range range = kDefaultRange;
    if (accept_word("range")) {
      expect("[");
      range.low = accept("-inf") ? INT64_MIN : integer();
      expect(",");
      range.high = accept_word("inf") ? INT64_MAX : integer();
      expect("]");
    }
    if (!arena_) arena_ = std::make_shared<sym::ExprArena>();
    arena_->symbol(symbol_name, hint, range);
    symbols_.push_back(parsed);
  }

  void bind_symbols() {
    std::vector<SymbolBinding> bindings;
    for (const ParsedSymbol& parsed : symbols_) {
      bindings.push_back(parsed.binding);
      if (parsed.input < 0) continue;
      auto found = values_.find(parsed.input);
      if (found == values_.end()) fail("%" + std::to_string(parsed.input) + " is no input");
      bindings.back().input = found->second;
    }
    graph_.set_symbols(arena_, std::move(bindings));
  }

  Device device() {
    const std::string_view type = name("a device");
    Device result;
    if (type == "cpu")
      result.type = Device::Type::kCPU;
    else if (type == "cuda")
      result.type = Device::Type::kCUDA;
    else if (type == "meta")
      result.type = Device::Type::kMeta;
    else
      fail("unknown device '" + std::string(type) + "'");
    if (accept(":")) result.index = static_cast<int8_t>(integer());
    return result;
  }

  TensorType type() {
    TensorType result;
    const std::string_view dtype = name("a dtype");
    const std::optional<DType> known = parse_dtype(dtype);
    if (!known) fail("unknown dtype '" + std::string(dtype) + "'");
    result.dtype = *known;
    expect("[");
    result.sizes = dims("]");
    result.strides = sym::contiguous_strides(result.sizes);
    if (accept("{")) {
      result.strides = dims("}");
      if (result.strides.size() != result.sizes.size()) fail("sizes and strides differ in length");
    }
    if (accept("+")) result.offset = expression();
    if (accept("@")) result.device = device();
    return result;
  }

  // ": f32[8] #%0" after a number.
  Value* definition(int id) {
    expect(":");
    TensorType result_type = type();
    int storage = -1;
    if (accept("#")) storage = use()->storage();
    GraphBuilder builder(graph_);
    if (builder.has_value(id)) fail("%" + std::to_string(id) + " is defined twice");
    return values_[id] = builder.value(id, std::move(result_type), storage);
  }

  void input() {
    const int id = number();
    std::string input_name;
    if (peek() == '"')
      input_name = string();
    else if (peek() != ':')
      input_name = name("a name");
    Value* value = definition(id);
    const std::string_view word = peek_name();  // none: the user's
    const std::optional<InputKind> kind = parse_input_kind(word);
    if (!kind) fail("unknown kind of input '" + std::string(word) + "'");
    position_ += word.size();
    GraphBuilder(graph_).input(value, *kind, std::move(input_name));
    if (peek() != '"') return;
    auto bytes = bytes_of(string());
    if (!bytes) fail("contents are not in pairs of hexadecimal digits");
    graph_.set_input_contents(value, std::make_shared<std::string>(std::move(*bytes)));
  }

  OutputRole role(bool is_made) {  // " saved view(no_grad)" behind an output
    OutputRole role{.state = {.is_made = is_made}};
    OutputState& state = role.state;
    if (const auto kind = parse_output_kind(peek_name()))  // no word: the user's
      role.kind = *kind, position_ += peek_name().size();
    if (!(state.is_inference = accept_word("inference")) && !(state.is_view = accept_word("view")))
      state.is_alias = accept_word("alias");
    if (state.is_view && accept("(")) {
      const auto origin = parse_view_origin(name("how a view came to be"));
      if (!origin) fail("unknown origin of a view");
      state.view = *origin;
      expect(")");
    }
    state.history = parse_history(peek_name()).value_or(History::kNone);
    position_ += to_string(state.history).size();
    return role;
  }

  Value* use() {
    const int id = number();
    if (auto found = values_.find(id); found != values_.end()) return found->second;
    fail("%" + std::to_string(id) + " is not defined here");
  }

  void node() {
    // Results come into scope after the arguments, but their storage may be that of each other.
    std::vector<Value*> results;
    const char first = peek();
    if (first == '%' || (first == '_' && peek_name() == "_")) {
      do {
        if (accept_word("_")) {
          results.push_back(nullptr);
        } else {
          const int id = number();
          results.push_back(definition(id));
        }
      } while (accept(","));
      expect("=");
    }
    if (peek() == '}' || peek() == '\0') fail("expected 'return'");
    const std::string_view op_name = name("an operator");
    own_results_ = results;
    expect("(");
    std::vector<Argument> args;
    if (!accept(")")) {
      do args.push_back(argument());
      while (accept(","));
      expect(")");
    }
    own_results_.clear();
    const bool has_effects = peek() == '!';
    const Op& op = has_effects ? find_or_add_op(op_name, effects()) : find_or_add_op(op_name);
    if (has_effects && op.kind != OpKind::kUnknown) fail("effects of an op that is on the list");
    GraphBuilder(graph_).node(op, std::move(args), std::move(results), -1);
  }

  // "!opaque !mutates[0, 2]", what an op of that name does; "!none": nothing.
  Effects effects() {
    Effects effects;
    while (accept("!")) {
      const std::string_view word = name("an effect");
      bool known = word == "none";
#define X(member, spelling) \
  if (word == spelling) known = effect(effects.member);
      BRAZE_GRAPH_EFFECTS(X)
#undef X
      if (!known) fail("unknown effect '" + std::string(word) + "'");
    }
    return effects;
  }
  bool effect(bool& present) { return present = true; }
  bool effect(std::vector<int>& positions) {
    positions = list<int>([&] { return static_cast<int>(integer()); });
    return true;
  }

  // Arguments.
  Value* operand() {
    const size_t begin = position_;
    Value* value = use();
    for (const Value* own : own_results_) {
      if (own != value) continue;
      position_ = begin;
      fail("%" + std::to_string(value->id()) + " is used by the node that defines it");
    }
    return value;
  }

  template <class T, class F>
  std::vector<T> list(F&& item) {
    std::vector<T> items;
    expect("[");
    if (accept("]")) return items;
    do items.push_back(item());
    while (accept(","));
    expect("]");
    return items;
  }

  bool number_is_double() {
    const std::string_view rest = text_.substr(position_);
    const size_t end = rest.find_first_not_of("+-.0123456789einfa");
    return rest.substr(0, end).find_first_of(".eina") != std::string_view::npos;
  }

  double real() {
    skip_space();
    for (auto [spelling, value] : {std::pair{"-inf", -std::numeric_limits<double>::infinity()},
                                   {"inf", std::numeric_limits<double>::infinity()},
                                   {"nan", std::numeric_limits<double>::quiet_NaN()}}) {
      if (accept(spelling)) return value;
    }
    double value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("expected a number");
    position_ += end - begin;
    return value;
  }

  bool boolean() {
    if (accept_word("true")) return true;
    if (accept_word("false")) return false;
    fail("expected true or false");
  }

  Argument bracketed() {
    const size_t begin = position_;
    expect("[");
    const char first = peek();
    const bool is_double = first != ']' && first != '%' && number_is_double();
    position_ = begin;
    if (first == '%') return list<Value*>([&] { return operand(); });
    if (first == 't' || first == 'f') return list<bool>([&] { return boolean(); });
    if (is_double) return list<double>([&] { return real(); });
    return list<sym::Int>([&] { return expression(); });
  }

  Argument argument() {
    const char first = peek();
    if (first == '%') return operand();
    if (first == '"') return string();
    if (first == '[') return bracketed();
    if (accept("?")) {
      return OptionalRefs<Value*>{list<std::optional<Value*>>([&]() -> std::optional<Value*> {
        if (accept_word("None")) return std::nullopt;
        return operand();
      })};
    }
    if (first == '-' || (first >= '0' && first <= '9')) {
      if (number_is_double()) return real();
      return expression();
    }
    if (at_symbol()) return expression();
    return word();
  }

  Argument word() {
    const size_t begin = position_;
    const std::string_view word = name("an argument");
    if (word == "None") return None{};
    if (word == "true") return true;
    if (word == "false") return false;
    if (word == "strided") return Layout::kStrided;
    if (word == "tensors") return list<Value*>([&] { return operand(); });
    if (word == "floats") return list<double>([&] { return real(); });
    if (word == "bools") return list<bool>([&] { return boolean(); });
    if (word == "complex") {
      expect("(");
      const double re = real();
      expect(",");
      const double im = real();
      expect(")");
      return std::complex<double>(re, im);
    }
    if (const std::optional<DType> dtype = parse_dtype(word)) return *dtype;
    for (MemoryFormat format : {MemoryFormat::kContiguous, MemoryFormat::kPreserve,
                                MemoryFormat::kChannelsLast, MemoryFormat::kChannelsLast3d}) {
      if (word == to_string(format)) return format;
    }
    position_ = begin;
    if (word == "inf" || word == "nan") return real();
    if (word == "cpu" || word == "cuda" || word == "meta") return device();
    fail("unknown argument '" + std::string(word) + "'");
  }

  static constexpr int64_t kLargestId = 1 << 24;
  std::string_view text_;
  size_t position_ = 0;
  Graph graph_;
  std::unordered_map<int, Value*> values_;
  std::vector<Value*> own_results_;
  std::shared_ptr<sym::ExprArena> arena_;
  std::vector<ParsedSymbol> symbols_;
};

}  // namespace

Graph parse(std::string_view text) { return Parser(text).parse(); }

}  // namespace braze::graph
