#include "sym/parse.h"

#include <charconv>

namespace braze::sym {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view leading_name(std::string_view text) {
  if (text.empty() || is_digit(text[0])) return {};
  size_t end = 0;
  while (end < text.size() && is_name_char(text[end])) ++end;
  return text.substr(0, end);
}

// Usual precedence: unary minus and sums below *, // and %, which associate to the left.
class Parser {
 public:
  Parser(std::string_view text, ExprArena* arena) : text_(text), arena_(arena) {}

  std::string_view rest() const { return text_; }

  Int sum() {
    Int value = accept("-") ? Int(0) - product() : product();
    while (true) {
      if (accept("+"))
        value = value + product();
      else if (accept("-"))
        value = value - product();
      else
        return value;
    }
  }

 private:
  Int product() {
    Int value = operand();
    while (true) {
      if (accept("*"))
        value = value * operand();
      else if (accept("//"))
        value = floordiv(value, divisor());
      else if (accept("%"))
        value = mod(value, divisor());
      else
        return value;
    }
  }

  Int divisor() {
    const Int value = operand();
    if (value == Int(0)) fail("division by zero");
    return value;
  }

  Int operand() {
    if (accept("(")) {
      const Int value = sum();
      expect(")");
      return value;
    }
    skip_space();
    if (!text_.empty() && is_digit(text_[0])) return number();
    const std::string_view name = leading_name(text_);
    if (name.empty()) fail("expected a number or a symbol");
    text_.remove_prefix(name.size());
    if (name == "min" || name == "max") {
      expect("(");
      const Int a = sum();
      expect(",");
      const Int b = sum();
      expect(")");
      return name == "min" ? min(a, b) : max(a, b);
    }
    const Expr* symbol = arena_ ? arena_->find(name) : nullptr;
    if (!symbol) fail("unknown symbol '" + std::string(name) + "'");
    return Int(symbol);
  }

  Int number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc()) fail("expected an integer");
    text_.remove_prefix(end - text_.data());
    return value;
  }

  void skip_space() {
    while (!text_.empty() && text_[0] == ' ') text_.remove_prefix(1);
  }

  // Space before a token that does not follow belongs to what comes after the expression.
  bool accept(std::string_view token) {
    const std::string_view before = text_;
    skip_space();
    if (text_.starts_with(token)) {
      text_.remove_prefix(token.size());
      return true;
    }
    text_ = before;
    return false;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail("expected '" + std::string(token) + "'");
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw InternalError(__FILE__, __LINE__,
                        message + " at '" + std::string(text_.substr(0, 20)) + "'");
  }

  std::string_view text_;
  ExprArena* arena_;
};

}  // namespace

Int parse(std::string_view& text, ExprArena* arena) {
  // The smallest integer has no positive twin to negate.
  constexpr std::string_view kSmallest = "-9223372036854775808";
  if (text.starts_with(kSmallest)) {
    text.remove_prefix(kSmallest.size());
    return INT64_MIN;
  }
  Parser parser(text, arena);
  const Int value = parser.sum();
  text = parser.rest();
  return value;
}

Condition parse_condition(std::string_view& text, ExprArena* arena) {
  struct Word {
    std::string_view text;
    Relation relation;
    bool flipped;
  };
  constexpr Word kWords[] = {
      {" == ", Relation::kEqual, false}, {" != ", Relation::kNotEqual, false},
      {" < ", Relation::kLess, false},   {" >= ", Relation::kNotLess, false},
      {" > ", Relation::kLess, true},    {" <= ", Relation::kNotLess, true}};
  const Int left = parse(text, arena);
  for (const Word& word : kWords) {
    if (!text.starts_with(word.text)) continue;
    text.remove_prefix(word.text.size());
    const Int right = parse(text, arena);
    return word.flipped ? Condition{word.relation, right, left}
                        : Condition{word.relation, left, right};
  }
  throw InternalError(__FILE__, __LINE__,
                      "expected a relation at '" + std::string(text.substr(0, 20)) + "'");
}

bool begins_with_symbol(std::string_view text, const ExprArena* arena) {
  if (!text.empty() && (text[0] == '(' || text[0] == '-')) return true;
  const std::string_view name = leading_name(text);
  if (name.empty()) return false;
  if (name == "min" || name == "max") return text.substr(name.size()).starts_with("(");
  return arena && arena->find(name);
}

}  // namespace braze::sym
