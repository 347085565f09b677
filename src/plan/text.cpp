#include "graph/text.h"

#include <sstream>

#include "base/hash.h"
#include "plan/module.h"

namespace braze::plan {
namespace {

std::string slot_name(SlotId slot) { return slot < 0 ? "_" : "s" + std::to_string(slot); }

template <class Range, class Print>
std::string join(const Range& range, Print&& print) {
  std::string text;
  for (const auto& element : range) {
    if (!text.empty()) text += ", ";
    text += print(element);
  }
  return text;
}

std::string number(double value) {
  std::ostringstream out;
  out.precision(17);
  out << value;
  return out.str();
}

struct ArgumentText {
  std::string operator()(graph::None) const { return "none"; }
  std::string operator()(SlotId slot) const { return slot_name(slot); }
  std::string operator()(const std::vector<SlotId>& slots) const {
    return "[" + join(slots, slot_name) + "]";
  }
  std::string operator()(const graph::OptionalRefs<SlotId>& slots) const {
    return "[" +
           join(slots.refs,
                [](const std::optional<SlotId>& slot) {
                  return slot ? slot_name(*slot) : std::string("none");
                }) +
           "]";
  }
  std::string operator()(sym::Int value) const { return sym::to_string(value); }
  std::string operator()(double value) const { return number(value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::complex<double> value) const {
    return "(" + number(value.real()) + ", " + number(value.imag()) + ")";
  }
  std::string operator()(const std::string& value) const { return "\"" + value + "\""; }
  std::string operator()(const std::vector<sym::Int>& values) const {
    return "[" + join(values, [](sym::Int value) { return sym::to_string(value); }) + "]";
  }
  std::string operator()(const std::vector<double>& values) const {
    return "[" + join(values, number) + "]";
  }
  std::string operator()(const std::vector<bool>& values) const {
    return "[" + join(values, [](bool value) { return std::string(value ? "true" : "false"); }) +
           "]";
  }
  std::string operator()(graph::DType dtype) const { return std::string(graph::to_string(dtype)); }
  std::string operator()(graph::Device device) const { return graph::to_string(device); }
  std::string operator()(graph::MemoryFormat format) const {
    switch (format) {
      case graph::MemoryFormat::kContiguous:
        return "contiguous";
      case graph::MemoryFormat::kPreserve:
        return "preserve";
      case graph::MemoryFormat::kChannelsLast:
        return "channels_last";
      case graph::MemoryFormat::kChannelsLast3d:
        return "channels_last_3d";
    }
    return "?";
  }
  std::string operator()(graph::Layout) const { return "strided"; }
};

struct StepText {
  const Function& function;

  std::string operator()(const KernelStep& step) const {
    return "kernel " + function.kernels.at(step.kernel).name + "(" + join(step.args, slot_name) +
           ") " + std::visit(*this, step.launch) + sizes(function.kernels.at(step.kernel).sizes) +
           origin(step.origin);
  }
  std::string operator()(const ExternStep& step) const {
    std::string args = join(
        step.args, [](const Argument& argument) { return std::visit(ArgumentText{}, argument); });
    return results(step.results) + step.op + "(" + args + ")" + origin(step.origin);
  }
  std::string operator()(const CopyStep& step) const {
    return "copy " + slot_name(step.target) + " <- " + slot_name(step.source);
  }
  std::string operator()(const FreeStep& step) const { return "free " + slot_name(step.slot); }
  std::string operator()(const AllocateStep& step) const {
    return "allocate " + slot_name(step.slot);
  }
  std::string operator()(const CallStep& step) const {
    return results(step.results) + call(step.callee);
  }
  std::string operator()(const BranchStep& step) const {
    return results(step.results) + "if " + slot_name(step.predicate) + " " + call(step.yes) +
           " else " + call(step.no);
  }
  std::string operator()(const LoopStep& step) const {
    return results(step.results) + "from " + join(step.carried, slot_name) + " while " +
           call(step.condition) + " do " + call(step.body);
  }
  std::string operator()(const ReadStep& step) const {
    return function.symbols.at(step.symbol).name + " = " +
           (step.dim < 0 ? "item(" + slot_name(step.slot)
                         : "size(" + slot_name(step.slot) + ", " + std::to_string(step.dim)) +
           ")";
  }
  std::string operator()(const ExpectStep& step) const { return "expect " + slot_name(step.slot); }
  std::string operator()(const AssertStep& step) const {
    return "assert " + sym::to_string(step.condition);
  }

  static std::string results(const std::vector<SlotId>& slots) {
    return slots.empty() ? "" : join(slots, slot_name) + " = ";
  }
  static std::string call(const Callee& callee) {
    return "call " + std::to_string(callee.function) + "(" +
           join(callee.args,
                [](SlotId slot) {
                  return slot < 0 ? "carried " + std::to_string(-1 - slot) : slot_name(slot);
                }) +
           ")";
  }

  std::string operator()(const Chunks& chunks) const {
    return "extent " + sym::to_string(chunks.extent) + " grain " + sym::to_string(chunks.grain);
  }
  std::string operator()(const Grid& grid) const {
    std::string text = "blocks " + product(grid.blocks) + " threads " + product(grid.threads);
    if (grid.shared_bytes != sym::Int(0)) text += " shared " + sym::to_string(grid.shared_bytes);
    return text;
  }
  static std::string product(const std::array<sym::Int, 3>& factors) {
    return "(" + join(factors, [](sym::Int value) { return sym::to_string(value); }) + ")";
  }

  static std::string sizes(const std::vector<sym::Int>& values) {
    if (values.empty()) return "";
    return " sizes [" + join(values, [](sym::Int value) { return sym::to_string(value); }) + "]";
  }

  std::string origin(graph::OriginId id) const {
    if (id < 0) return "";
    const graph::Origin& origin = function.origins.at(id);
    std::string text;
    auto add = [&](const std::string& part) {
      if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
    };
    if (!origin.file.empty()) {
      add(origin.file.str() + ":" + std::to_string(origin.line) +
          (origin.function.empty() ? "" : " " + origin.function.str()));
    }
    add(origin.module_path);
    add(origin.call);
    return text.empty() ? "" : "      // " + text;
  }
};

std::string slot_text(const Slot& slot) {
  std::string type = graph::to_string(slot.type);
  std::string begin = std::to_string(slot.byte_offset);
  switch (slot.kind) {
    case SlotKind::kInput:
      return type + (slot.number < 0 ? "" : " number " + std::to_string(slot.number));
    case SlotKind::kArena:
      return "arena[" + begin + ", " + std::to_string(slot.byte_offset + slot.bytes) + ") " + type;
    case SlotKind::kOutput:
      return "output " + type;
    case SlotKind::kExtern:
      return "extern " + type;
    case SlotKind::kView:
      return "view(" + slot_name(slot.base) + " + " + begin + ") " + type;
  }
  return "?";
}

std::string symbol_text(const Symbol& symbol) {
  std::string text = symbol.name + " = ";
  switch (symbol.kind) {
    case Symbol::Kind::kSize:
      text += "size(" + slot_name(symbol.input) + ", " + std::to_string(symbol.index) + ")";
      break;
    case Symbol::Kind::kStride:
      text += "stride(" + slot_name(symbol.input) + ", " + std::to_string(symbol.index) + ")";
      break;
    case Symbol::Kind::kScalar:
      text += "scalar(" + std::to_string(symbol.index) + ")";
      break;
  }
  return text + " hint " + std::to_string(symbol.hint);
}

std::string constant_text(int64_t number) { return "c" + std::to_string(number); }

std::string input_text(const Input& input) {
  std::string text(graph::to_string(input.kind));
  if (text.empty()) text = "user";
  return input.constant < 0 ? text : text + " " + constant_text(input.constant);
}

// "outside" stands for a result that the traced code did not make.
std::string role_text(const graph::OutputRole& role) {
  std::string text(graph::to_string(role.kind));
  if (text.empty()) text = role.state.is_made ? "user" : "outside";
  const std::string state = graph::to_string(role.state);
  return state.empty() ? text : text + " " + state;
}

// A long constant is told by its beginning, its length and its hash.
std::string bytes_text(const std::string& bytes) {
  constexpr size_t kMost = 32;
  if (bytes.size() <= kMost) return graph::hexadecimal(bytes);
  return graph::hexadecimal(bytes.substr(0, kMost)) + "... " + std::to_string(bytes.size()) +
         " bytes, hash " + content_hash(bytes);
}

}  // namespace

std::string to_string(const Function& function) {
  std::ostringstream out;
  out << "function(";
  for (const Symbol& symbol : function.symbols) out << symbol_text(symbol) << ", ";
  for (SlotId i = 0; i < function.input_count; ++i) {
    out << (i ? ", " : "") << slot_name(i) << ": " << slot_text(function.slots.at(i));
  }
  out << ") arena " << function.arena_bytes << " bytes";
  if (function.device != graph::Device{}) out << " on " << graph::to_string(function.device);
  out << (function.on_failure == OnFailure::kRaise ? " on failure raise {\n" : " {\n");
  for (size_t i = function.input_count; i < function.slots.size(); ++i) {
    out << "  " << slot_name(static_cast<SlotId>(i)) << ": " << slot_text(function.slots[i])
        << "\n";
  }
  for (const sym::Condition& condition : function.conditions)
    out << "  where " << sym::to_string(condition) << "\n";
  for (const Step& step : function.steps)
    out << "  " << std::visit(StepText{function}, step) << "\n";
  out << "  return " << join(function.outputs, slot_name) << "\n}\n";
  return out.str();
}

std::string_view to_string(Language language) {
  switch (language) {
    case Language::kCpp:
      return "cpp";
    case Language::kCuda:
      return "cuda";
    case Language::kTriton:
      return "triton";
  }
  return "?";
}

bool is_of_gpus(Language language) {
  switch (language) {
    case Language::kCpp:
      return false;
    case Language::kCuda:
    case Language::kTriton:
      return true;
  }
  return false;
}

std::string to_string(const Module& module) {
  std::string text = "target " + module.target + "\n";
  text += "inputs " + join(module.inputs, input_text) + "\n";
  text += "outputs " + join(module.outputs, role_text) + "\n";
  for (size_t i = 0; i < module.constants.size(); ++i)
    text += constant_text(i) + ": " + graph::to_string(module.constants[i].type) + " " +
            bytes_text(module.constants[i].bytes) + "\n";
  for (const Function& function : module.functions) text += to_string(function);
  return text;
}

}  // namespace braze::plan
