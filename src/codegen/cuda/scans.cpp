#include "codegen/cuda/scans.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "codegen/cuda/operators.h"

namespace braze::codegen::cuda {
namespace {

using loop::ExprKind;
using loop::ExprRef;
using loop::ScanOp;
using loop::Statement;

int power_of_two(int64_t least) {
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(least, 1))));
}

// What wraps is added up in words, as in reductions.
std::string number_type(const Statement& scan) {
  if (graph::is_float(scan.accumulate)) return type_of(scan.accumulate);
  const bool wide = scan.accumulate == graph::DType::kInt64;
  return (scan.finds_place() ? "i" : "u") + std::string(wide ? "64" : "32");
}

bool asks_for_place(const loop::Kernel& kernel, const Statement& scan) {
  bool asks = false;
  for (const Statement& s : kernel.body)
    for_each_below(kernel, s.value, [&](ExprRef e) {
      asks |= e->kind == ExprKind::kScanned && e->ival == scan.reduced && e->component == 2;
    });
  return asks;
}

// `place`: the type of a place.
std::string running_type(const loop::Kernel& kernel, const Statement& scan,
                         const std::string& place) {
  const std::string number = number_type(scan);
  const std::string up = scan.scan == ScanOp::kMax ? ", true" : ", false";
  switch (scan.scan) {
    case ScanOp::kSum:
      return "Sum<" + number + ">";
    case ScanOp::kProd:
      return "Prod<" + number + ">";
    case ScanOp::kMax:
    case ScanOp::kMin:
      return asks_for_place(kernel, scan) ? "TopAt<" + number + up + ", " + place + ">"
                                          : "Top<" + number + up + ">";
    case ScanOp::kLogSumExp:
      return "LogSumExp<" + number + ">";
    case ScanOp::kRecurrence:
      break;
  }
  BRAZE_UNREACHABLE("a recurrence in parts");
}

// Words of the largest running result.
int64_t words_of(const loop::Kernel& kernel) {
  int64_t words = 1;
  for (const Statement& s : kernel.body)
    if (s.is_scan())
      words = std::max(words, std::max<int64_t>(graph::size_of(s.accumulate) / 4, 1) *
                                  (asks_for_place(kernel, s) ? 2 : 1));
  return words;
}

constexpr int64_t kWordsOfThread = 16;  // of the elements that a thread has at a time
constexpr int kMostScanThreads = 512;

// Short rows are taken in one piece by neighbouring threads of a warp.
void plan_rows(Nest& nest, int64_t steps, int64_t words) {
  const int64_t most = nest.lanes > 1 ? 4 : 8;
  const auto rounds =
      static_cast<uint64_t>(std::clamp<int64_t>(kWordsOfThread / (words * nest.lanes), 1, most));
  nest.scan_rounds = std::min(static_cast<int>(std::bit_floor(rounds)),
                              power_of_two((steps + kThreadsOfWarp - 1) / kThreadsOfWarp));
  const int sharers = power_of_two((steps + nest.scan_rounds - 1) / nest.scan_rounds);
  nest.sharers = std::min(sharers, kMostScanThreads);
}

// Blocks are wide where there are columns enough, and else as narrow as 32 bytes of memory, so that
// all processors have some.
void plan_columns(Nest& nest, const target::Cuda& cuda, int64_t steps, int64_t words) {
  constexpr int64_t kLeastBytes = 32;  // that the memory hands out
  constexpr int64_t kManyBlocks = 4;   // of a processor
  int64_t bytes = 8;                   // of the smallest element that is stored
  bool reduces = false;
  for (const Statement& s : nest.kernel->body) {
    reduces |= s.is_reduction();
    if (s.is_store() && s.inner) bytes = std::min(bytes, graph::size_of(s.value->dtype));
  }
  const auto narrow = static_cast<int>(kLeastBytes / bytes);
  const int64_t columns = nest.outer_points().hint();
  const int64_t rounds = words > 1 ? kWordsOfThread / 2 : kWordsOfThread;
  nest.scan_rounds = static_cast<int>(std::min<int64_t>(rounds, power_of_two(steps)));
  nest.scan_group = kColumnsOfBlock / narrow;
  const bool wide = reduces || columns / kColumnsOfBlock >= kManyBlocks * cuda.processors;
  nest.width = wide ? kColumnsOfBlock : narrow;
  const bool alone = words == 1 && columns / nest.width <= cuda.processors;
  const int most = (alone && !reduces ? 2 * kMostScanThreads : kMostScanThreads) / nest.width;
  nest.sharers = std::min(power_of_two((steps + nest.scan_rounds - 1) / nest.scan_rounds), most);
  if (nest.width < kColumnsOfBlock) {
    nest.sharers = std::max(nest.sharers, nest.scan_group);
    return;
  }
  nest.scan_group = std::min(nest.scan_group, nest.sharers);
  while (!reduces && nest.width * nest.sharers < kThreadsOfBlock &&
         columns / (2 * nest.width) >= kManyBlocks * cuda.processors)
    nest.width *= 2;  // short columns
}

class Writer {
 public:
  Writer(const ScanWalk& walk, const std::vector<const Statement*>& scans)
      : walk_(walk),
        nest_(walk.nest),
        writer_(walk.writer),
        scans_(scans),
        is_row_(nest_.shape == Shape::kRows),
        tile_(int64_t{nest_.sharers} * nest_.scan_rounds) {}

  void run() {
    for (const Statement* scan : scans_) begin(*scan);
    writer_.open(Level::kWalk);
    for (const Statement* scan : scans_) one(*scan);
    writer_.open(Level::kWalk);
    walk_.bind();
    walk_.run();
    write_rounds(writer_.close(), "");
    const std::vector<std::string> body = writer_.close();
    writer_.block("for (" + walk_.type + " tile = 0; tile < " + walk_.end +
                      "; tile += " + std::to_string(tile_) + ")",
                  body);
  }

 private:
  struct Names {
    std::string type, elements, carry, shared;
    int parts = 0;  // in shared memory; 0: none is needed
  };

  // Parts that the threads of a block share in a tile.
  int parts() const {
    if (is_row_)
      return nest_.sharers <= kThreadsOfWarp ? 0
                                             : nest_.scan_rounds * nest_.sharers / kThreadsOfWarp;
    return nest_.sharers == 1 ? 0 : nest_.sharers * nest_.width;
  }

  // Each tile writes where the last one did not, so that one barrier is enough for a tile.
  void begin(const Statement& scan) {
    Names& names = names_[&scan];
    names = {.type = running_type(*nest_.kernel, scan, walk_.type),
             .elements = writer_.fresh("x"),
             .carry = writer_.fresh("carry"),
             .shared = writer_.fresh("parts"),
             .parts = parts()};
    writer_.line(names.type + " " + names.carry + " = " + names.type + "::none();");
    if (names.parts > 0)
      writer_.line("__shared__ " + names.type + " " + names.shared + "[" +
                   std::to_string(2 * names.parts) + "];");
  }

  std::string element(const Names& names) const {
    return names.elements + "[round]" + (!is_row_ ? "" : nest_.lanes > 1 ? "[v]" : "[0]");
  }

  void one(const Statement& scan) {
    const Names& names = names_.at(&scan);
    const std::string rounds = std::to_string(nest_.scan_rounds);
    const std::string lanes = std::to_string(nest_.lanes);
    writer_.line(names.type + " " + names.elements + "[" + rounds + "]" +
                 (is_row_ ? "[" + lanes + "];" : ";"));
    writer_.open(Level::kWalk);
    walk_.bind();
    if (nest_.lanes > 1) {
      writer_.open(Level::kLanes);
      writer_.bind_axis(nest_.vector_axis, writer_.base() + " + v");
      set_element(scan, names, "step * " + lanes + " + v");
      const std::vector<std::string> body = writer_.close();
      writer_.line("#pragma unroll");
      writer_.block("for (i32 v = 0; v < " + lanes + "; ++v)", body);
    } else {
      set_element(scan, names, "step");
    }
    write_rounds(writer_.close(), is_row_ ? "put_none(" + names.elements + "[round]);"
                                          : element(names) + " = " + names.type + "::none();");
    const std::string threads = std::to_string(nest_.sharers);
    const std::string shared = names.parts > 0
                                   ? names.shared + " + tile / " + std::to_string(tile_) +
                                         " % 2 * " + std::to_string(names.parts)
                                   : "(" + names.type + "*)0";
    const std::string arguments = ">(" + names.elements + ", " + names.carry + ", " + shared + ");";
    if (is_row_)
      writer_.line("scan_row<" + threads + ", " + rounds + ", " + lanes + arguments);
    else
      writer_.line("scan_column<" + std::to_string(nest_.width) + ", " + threads + ", " +
                   std::to_string(nest_.scan_group) + ", " + rounds + arguments);
    writer_.bind_scan(scan, element(names));
  }

  void set_element(const Statement& scan, const Names& names, const std::string& place) {
    const std::string value = "(" + number_type(scan) + ")" + writer_.emit(scan.value);
    const bool has_place = names.type.starts_with("TopAt");
    writer_.line(element(names) + " = {" + value +
                 (has_place ? ", (" + walk_.type + ")(" + place + ")" : "") + "};");
  }

  // `otherwise`: for points behind the last one.
  void write_rounds(const std::vector<std::string>& body, const std::string& otherwise) {
    const std::string sharers = std::to_string(nest_.sharers) + "u";
    const std::string rounds = std::to_string(nest_.scan_rounds);
    const bool exact = sym::mod(nest_.inner_steps(), tile_) == sym::Int(0);
    std::vector<std::string> lines = {
        "const " + walk_.type + " step = tile + " +
        (is_row_ ? "round * " + sharers + " + lane;" : "lane * " + rounds + "u + round;")};
    if (!exact) lines.push_back("if (step < " + walk_.end + ") {");
    for (const std::string& line : body) lines.push_back((exact ? "" : "  ") + line);
    if (!exact && !otherwise.empty()) lines.push_back("} else " + otherwise);
    if (!exact && otherwise.empty()) lines.push_back("}");
    writer_.line("#pragma unroll");
    writer_.block("for (u32 round = 0; round < " + rounds + "; ++round)", lines);
  }

  const ScanWalk& walk_;
  const Nest& nest_;
  ExpressionWriter& writer_;
  const std::vector<const Statement*>& scans_;
  const bool is_row_;
  const int64_t tile_;  // steps
  std::unordered_map<const Statement*, Names> names_;
};

}  // namespace

bool has_scans(const loop::Kernel& kernel) {
  return std::ranges::any_of(kernel.body, [](const Statement& s) { return s.is_scan(); });
}

void for_each_below(const loop::Kernel& kernel, ExprRef expr,
                    const std::function<void(ExprRef)>& visit) {
  std::unordered_set<ExprRef> seen;
  std::vector<ExprRef> stack = {expr};
  while (!stack.empty()) {
    const ExprRef next = stack.back();
    stack.pop_back();
    if (!next || !seen.insert(next).second) continue;
    visit(next);
    stack.insert(stack.end(), next->args.begin(), next->args.end());
    if (next->kind != ExprKind::kScanned) continue;
    for (const Statement& s : kernel.body)
      if (s.is_scan() && s.reduced == next->ival) stack.push_back(s.value);
  }
}

std::vector<const Statement*> scans_of(const loop::Kernel& kernel,
                                       const std::vector<const Statement*>& statements) {
  std::unordered_set<int64_t> seen;
  for (const Statement* s : statements)
    for (ExprRef part : {s->value, s->index})
      for_each_below(kernel, part, [&](ExprRef e) {
        if (e->kind == ExprKind::kScanned) seen.insert(e->ival);
      });
  std::vector<const Statement*> scans;
  for (const Statement& s : kernel.body)
    if (s.is_scan() && seen.contains(s.reduced)) scans.push_back(&s);
  return scans;
}

void plan_scans(Nest& nest, const target::Cuda& cuda) {
  const int64_t steps = std::max<int64_t>(nest.inner_steps().hint(), 1);
  const int64_t words = words_of(*nest.kernel);
  if (nest.shape == Shape::kRows)
    plan_rows(nest, steps, words);
  else
    plan_columns(nest, cuda, steps, words);
}

void write_scans(const ScanWalk& walk, const std::vector<const Statement*>& scans) {
  Writer(walk, scans).run();
}

}  // namespace braze::codegen::cuda
