// Break reasons as text.
#include "cpython/text.h"

#include <algorithm>
#include <sstream>

#include "capture/breaks/catalogue.h"
#include "capture/breaks/reason.h"
#include "cpython/exception.h"

namespace braze::capture {

using cpython::Ref;

namespace {

constexpr size_t kFramesWithSource = 4, kFramesShown = 8;

// As Python's tracebacks find it: also for a notebook's cells. Without the line's end.
std::string source_line(const std::string& file, int line) {
  const cpython::SavedException pending;
  Ref module = Ref::steal(PyImport_ImportModule("linecache"));
  Ref text =
      module ? Ref::steal(PyObject_CallMethod(module.get(), "getline", "si", file.c_str(), line))
             : Ref();
  const char* utf8 = text ? cpython::utf8_of(text.get()) : nullptr;
  std::string result = utf8 ? utf8 : "";
  result.erase(result.find_last_not_of(" \t\r\n\f") + 1);
  return result;
}

size_t characters(std::string_view utf8) {
  return static_cast<size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// The line and, under its expression, carets; each line indented by six spaces.
std::string shown_source(const StackEntry& entry) {
  const std::string line = source_line(entry.file, entry.line);
  const size_t start = line.find_first_not_of(" \t\f");
  if (start == std::string::npos) return "";
  const std::string text = line.substr(start);
  std::string result = "      " + text + "\n";
  if (entry.column < static_cast<int>(start)) return result;
  const size_t from = static_cast<size_t>(entry.column) - start;
  size_t to = text.size();
  if (entry.end_line == entry.line && entry.end_column > entry.column)
    to = std::min(to, static_cast<size_t>(entry.end_column) - start);
  if (from >= to) return result;
  return result + "      " + std::string(characters(text.substr(0, from)), ' ') +
         std::string(characters(text.substr(from, to - from)), '^') + "\n";
}

}  // namespace

std::string to_string(const BreakReason& reason) {
  const BreakWords& words = words_of(reason.kind);
  std::ostringstream out;
  out << words.number << ": " << reason.what << "\n";
  size_t shown = 0;
  for (const StackEntry& entry : reason.stack) {
    out << (shown ? "  called from " : "  at ") << entry.file << ":" << entry.line << " in "
        << entry.function << "\n";
    if (shown < kFramesWithSource) out << shown_source(entry);
    if (++shown == kFramesShown && reason.stack.size() > kFramesShown) {
      out << "  ... and " << reason.stack.size() - kFramesShown << " more callers\n";
      break;
    }
  }
  if (!reason.object.empty()) out << "  object: " << reason.object << "\n";
  out << "  why: " << words.why << "\n  way out: " << words.way_out;
  return out.str();
}

}  // namespace braze::capture
