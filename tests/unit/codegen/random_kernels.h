// Random kernels, in text form.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace braze::codegen::cpp {

using Values = std::vector<std::vector<int64_t>>;  // lists of values of the symbols s0, s1

class RandomKernels {
 public:
  RandomKernels(unsigned seed, Values values) : random_(seed), values_(std::move(values)) {}

  std::string kernel() {
    points_.assign(values_.size(), 1);
    outer_.clear();
    inner_.clear();
    for (int n = pick(3); n >= 0; --n) outer_.push_back(extent());
    if (pick(2))
      for (int n = pick(2); n >= 0; --n) inner_.push_back(extent());
    std::string text =
        "kernel fuzz(b0: f32 in, b1: f32 in, b2: i64 in, b3: bool in, b4: i32 in, "
        "b5: f64 in, b6: f32 out, b7: f32 out, b8: i64 out, b9: f32 out)";
    text += axes(" outer(", "o", outer_);
    if (!inner_.empty()) text += axes(" inner(", "i", inner_);
    text += " {\n";
    is_scan_.clear();
    if (!inner_.empty() && pick(4) == 0) {
      text += accumulation("b9");
      if (pick(3) == 0) text += accumulation("b7");
      return text + "}";
    }
    if (!inner_.empty()) {
      for (int n = pick(4); n >= 0; --n) {
        const std::string name = "r" + std::to_string(is_scan_.size());
        const bool is_scan = pick(3) == 0;
        text += " " + name + " = ";
        if (!is_scan)
          text += std::string(kReductions[pick(4)]) + "(" + number(3, true) + ")";
        else if (pick(2))
          text += "scan(0.5:f32, add(mul(" + name + ".before, 0.5:f32), " + number(3, true) + "))";
        else
          text += "scan(0.5:f32, where(lt(" + name + ".before, " + number(2, true) + "), " +
                  number(3, true) + ", " + name + ".before))";
        text += " inner\n";
        is_scan_.push_back(is_scan);
      }
      text += " store(b7, " + dense(false) + ", " + number(3, false) + ")\n";
    }
    const bool inner = !inner_.empty() && pick(3);
    const char* mark = inner ? " inner\n" : "\n";
    text += " store(b6, " + dense(inner) + ", " + number(5, inner) + ")" + mark;
    if (pick(2)) text += " store(b8, " + dense(inner) + ", " + integer(3, inner) + ")" + mark;
    if (!inner_.empty() && pick(3) == 0) text += accumulation("b9");
    return text + "}";
  }

 private:
  // Into one of four places for each outer point.
  std::string accumulation(const std::string& buffer) {
    static constexpr const char* kStores[] = {"add", "last", "max", "min"};
    return std::string(" store_") + kStores[pick(4)] + "(" + buffer + ", " + dense(false, "4") +
           " + check_index(load(b2, " + index(true) + "), 10)//3, " + number(3, true) + ") inner\n";
  }
  static constexpr const char* kReductions[] = {"sum", "max", "min", "welford"};
  static constexpr int64_t kMostPoints = 4000;
  int pick(int n) { return static_cast<int>(random_() % n); }
  // A number, or a symbol where there are any.
  std::string extent() {
    const int64_t choice[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33, 40};
    const bool symbolic = !values_[0].empty() && pick(2) == 0;
    const int symbol = pick(2);
    const int64_t wanted = choice[pick(symbolic ? 3 : 12)];
    std::vector<int64_t> points = points_;
    for (size_t i = 0; i < points.size(); ++i) {
      points[i] *= wanted * (symbolic ? values_[i][symbol] : 1);
      if (points[i] > kMostPoints) return "1";
    }
    points_ = points;
    std::string text = std::to_string(wanted);
    if (symbolic) text = (wanted == 1 ? "" : text + "*") + "s" + std::to_string(symbol);
    return text;
  }
  static std::string axes(std::string text, const char* name,
                          const std::vector<std::string>& extent) {
    for (size_t i = 0; i < extent.size(); ++i)
      text += (i ? ", " : "") + std::string(name) + std::to_string(i) + " < {" + extent[i] + "}";
    return text + ")";
  }
  std::vector<std::pair<std::string, std::string>> all_axes(bool inner) const {
    std::vector<std::pair<std::string, std::string>> result;
    for (size_t i = 0; i < outer_.size(); ++i)
      result.emplace_back("o" + std::to_string(i), outer_[i]);
    for (size_t i = 0; inner && i < inner_.size(); ++i)
      result.emplace_back("i" + std::to_string(i), inner_[i]);
    return result;
  }
  // Distinct elements for distinct points: row-major, sometimes of permuted axes.
  std::string dense(bool inner, std::string stride = "1") {
    auto axes = all_axes(inner);
    if (pick(3) == 0) std::shuffle(axes.begin(), axes.end(), random_);
    std::string text;
    for (size_t i = axes.size(); i-- > 0; stride += "*" + axes[i].second)
      text = axes[i].first + "*{" + stride + "}" + (text.empty() ? "" : " + ") + text;
    return text;
  }
  std::string index(bool inner) {
    switch (pick(5)) {
      case 0:
        return dense(inner) + " + " + std::to_string(pick(50));
      case 1: {  // broadcast or strided
        std::string text = std::to_string(pick(9));
        for (const auto& [name, extent] : all_axes(inner))
          if (pick(2)) text += " + " + name + "*" + std::to_string(pick(40));
        return text;
      }
      case 2:
        return "check_index(load(b2, " + dense(inner) + "), 10)*7 + " + dense(inner);
      case 3: {
        if (values_[0].empty() || pick(2))
          return "(" + dense(inner) + ")//3 + (" + dense(inner) + ")%5";
        const std::string by = pick(2) ? "{s0}" : "{4*s1}";
        return "(" + dense(inner) + ")//" + by + " + (" + dense(inner) + ")%" + by;
      }
      default:
        return dense(inner);
    }
  }
  std::string condition(int depth, bool inner) {
    const auto axes = all_axes(inner);
    switch (pick(depth > 0 ? 4 : 2)) {
      case 0:
        return "load(b3, " + index(inner) + ")";
      case 1:
        return "le(" + axes[pick(static_cast<int>(axes.size()))].first + ", " +
               (values_[0].empty() || pick(2) ? std::to_string(pick(12)) : "{s0 - 3}") + ")";
      case 2:
        return "lt(" + number(depth - 1, inner) + ", " + number(depth - 1, inner) + ")";
      default:
        return "and(" + condition(depth - 1, inner) + ", not(" + condition(depth - 1, inner) + "))";
    }
  }
  std::string integer(int depth, bool inner) {
    if (depth <= 0 || pick(4) == 0)
      return pick(2) ? "load(b2, " + index(inner) + ")" : "i64(load(b4, " + index(inner) + "))";
    switch (pick(5)) {
      case 0:
        return dense(inner);
      case 4:
        return random(inner);
      case 1:
        return "where(" + condition(depth - 1, inner) + ", " + integer(depth - 1, inner) + ", " +
               integer(depth - 1, inner) + ")";
      case 2:
        return "add(" + integer(depth - 1, inner) + ", " + integer(depth - 1, inner) + ")";
      default:
        return "max(" + integer(depth - 1, inner) + ", " + integer(depth - 1, inner) + ")";
    }
  }
  // A random word: of elements as loop/random.h numbers them, or of any counter.
  std::string random(bool inner) {
    const std::string offset = std::to_string(pick(3));
    const std::string at = pick(2) ? dense(inner) : index(inner);
    if (pick(3) == 0)
      return "i64(random(load(b2, " + index(inner) + "), " + offset + ", " + at + ", " +
             index(inner) + "))";
    return "i64(random(load(b2, 0), " + offset + ", or(and(shr(" + at + ", 2), -16), and(" + at +
           ", 15)), and(shr(" + at + ", 4), 3)))";
  }
  std::string number(int depth, bool inner) {
    if (!is_scan_.empty() && pick(4) == 0) {
      const int number = pick(static_cast<int>(is_scan_.size()));
      const std::string name = "r" + std::to_string(number);
      if (!is_scan_[number]) return name;
      if (inner) return name + (pick(3) ? "" : ".before");
    }
    if (depth <= 0 || pick(5) == 0) {
      switch (pick(4)) {
        case 0:
          return "0.75:f32";
        case 1:
          return "load(b1, " + index(inner) + ")";
        default:
          return "load(b0, " + index(inner) + ")";
      }
    }
    const auto operand = [&] { return number(depth - 1, inner); };
    switch (pick(9)) {
      case 0:
        return "where(" + condition(depth - 1, inner) + ", " + operand() + ", " + operand() + ")";
      case 1:
        return "masked(" + condition(depth - 1, inner) + ", " + operand() + ", " + operand() + ")";
      case 2:
        return "f32(" + integer(depth - 1, inner) + ")";
      case 3:
        return "f32(load(b5, " + index(inner) + "))";
      case 4:
        return "add(" + operand() + ", " + operand() + ")";
      case 5:
        return "mul(" + operand() + ", 0.5:f32)";
      case 6:
        return "max(" + operand() + ", " + operand() + ")";
      case 7:
        return "tanh(" + operand() + ")";
      default:
        return "sub(" + operand() + ", abs(" + operand() + "))";
    }
  }

  std::mt19937 random_;
  Values values_;
  std::vector<std::string> outer_, inner_;
  std::vector<int64_t> points_;  // by list of values
  std::vector<bool> is_scan_;    // by number: or a reduction
};

}  // namespace braze::codegen::cpp
