// Text and checks of whole programs.
#include "loop/program.h"

#include <sstream>

#include "loop/effects.h"

namespace braze::loop {
namespace {

struct ArgumentText {
  std::string operator()(graph::None) const { return "None"; }
  std::string operator()(int buffer) const { return "%" + std::to_string(buffer); }
  std::string operator()(sym::Int value) const { return sym::to_string(value); }
  std::string operator()(double value) const {
    std::ostringstream out;
    out << value;
    return out.str();
  }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::complex<double> value) const {
    return "(" + (*this)(value.real()) + ", " + (*this)(value.imag()) + ")";
  }
  std::string operator()(const std::string& value) const { return "\"" + value + "\""; }
  std::string operator()(DType dtype) const { return std::string(graph::to_string(dtype)); }
  std::string operator()(graph::Device device) const { return graph::to_string(device); }
  std::string operator()(graph::MemoryFormat format) const {
    return "format" + std::to_string(static_cast<int>(format));
  }
  std::string operator()(graph::Layout) const { return "strided"; }
  std::string operator()(const graph::OptionalRefs<int>& list) const {
    std::string out = "[";
    for (const auto& ref : list.refs)
      out += (out.size() > 1 ? ", " : "") + (ref ? (*this)(*ref) : "None");
    return out + "]";
  }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::string out = "[";
    for (const auto& item : list) out += (out.size() > 1 ? ", " : "") + (*this)(T(item));
    return out + "]";
  }
};

std::string buffer_text(const Buffer& buffer) {
  graph::TensorType type = buffer.type;
  type.offset = 0;
  std::string out = graph::to_string(type);
  switch (buffer.kind) {
    case Buffer::Kind::kInput:
      return out + " input " + std::to_string(buffer.input);
    case Buffer::Kind::kComputed:
      return out + " computed";
    case Buffer::Kind::kExtern:
      return out + " extern";
    case Buffer::Kind::kView:
      return out + " view of %" + std::to_string(buffer.base) + " + " +
             sym::to_string(buffer.view_offset);
  }
  BRAZE_UNREACHABLE("buffer kind");
}

std::string item_text(const ExternCall& call) {
  std::string out;
  for (int result : call.results)
    out += (out.empty() ? "" : ", ") + (result < 0 ? "_" : ArgumentText()(result));
  out += " = " + call.op + "(";
  const char* separator = "";
  for (const auto& arg : call.args) {
    out += separator + std::visit(ArgumentText(), arg);
    separator = ", ";
  }
  return out + ")\n";
}

std::string item_text(const ScheduledKernel& item) {
  std::string out = "launch(";
  const char* separator = "";
  for (const BufferParam& param : item.kernel.params) {
    out += separator + ArgumentText()(param.buffer);
    separator = ", ";
  }
  return out + ") " + to_string(item.kernel);
}

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const Program& program)
      : program_(program), defined_(program.buffers.size(), false) {}

  void run() {
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      defined_[i] = buffer.kind == Buffer::Kind::kInput;
      if (buffer.kind != Buffer::Kind::kView) continue;
      BRAZE_CHECK(buffer.base >= 0 && buffer.base < static_cast<int>(program_.buffers.size()) &&
                      program_.buffers[buffer.base].kind != Buffer::Kind::kView,
                  "base of the view %", i);
    }
    for (const Item& item : program_.items) std::visit([&](const auto& x) { check(x); }, item);
    for (int output : program_.outputs) read(output);
    for (auto [target, source] : program_.mutations) {
      read(source);
      BRAZE_CHECK(program_.buffers.at(target).kind == Buffer::Kind::kInput, "mutation of %",
                  target);
    }
  }

 private:
  void read(int buffer) const {
    BRAZE_CHECK(buffer >= 0 && buffer < static_cast<int>(defined_.size()), "no buffer %", buffer);
    const Buffer& b = program_.buffers[buffer];
    int memory = b.kind == Buffer::Kind::kView ? b.base : buffer;
    BRAZE_CHECK(defined_[memory], "%", buffer, " is read before it is defined");
  }
  void define(int buffer, Buffer::Kind kind) {
    BRAZE_CHECK(program_.buffers.at(buffer).kind == kind, "kind of the result %", buffer);
    defined_[buffer] = true;
  }

  void check(const ScheduledKernel& item) {
    verify(item.kernel);
    const std::vector<bool> accumulated = accumulated_params(item.kernel);
    for (size_t i = 0; i < item.kernel.params.size(); ++i) {
      const BufferParam& param = item.kernel.params[i];
      BRAZE_CHECK(program_.buffers.at(param.buffer).type.dtype == param.dtype, "dtype of %",
                  param.buffer, " in kernel ", item.kernel.name);
      if (!param.written || accumulated[i]) read(param.buffer);
      if (param.written) define(param.buffer, Buffer::Kind::kComputed);
    }
  }

  void check(const ExternCall& call) {
    for (const auto& arg : call.args) {
      if (auto* one = std::get_if<int>(&arg)) read(*one);
      if (auto* list = std::get_if<std::vector<int>>(&arg))
        for (int buffer : *list) read(buffer);
      if (auto* list = std::get_if<graph::OptionalRefs<int>>(&arg))
        for (auto buffer : list->refs)
          if (buffer) read(*buffer);
    }
    for (int result : call.results)
      if (result >= 0) define(result, Buffer::Kind::kExtern);
  }

  const Program& program_;
  std::vector<bool> defined_;
};

}  // namespace

// Buffers as %n with type and kind, then the items in order:
//   %2 = f32[8] computed
//   %3 = aten.mm(%0, %2)
//   launch(%0, %2) kernel fused_add(...) ...
std::string to_string(const Program& program) {
  std::string out;
  for (size_t i = 0; i < program.buffers.size(); ++i)
    out += "%" + std::to_string(i) + ": " + buffer_text(program.buffers[i]) + "\n";
  for (const Item& item : program.items)
    out += std::visit([](const auto& x) { return item_text(x); }, item);
  out += "return " + ArgumentText()(program.outputs) + "\n";
  for (auto [target, source] : program.mutations)
    out += "mutate " + ArgumentText()(target) + " <- " + ArgumentText()(source) + "\n";
  return out;
}

void verify(const Program& program) { ProgramVerifier(program).run(); }

}  // namespace braze::loop
