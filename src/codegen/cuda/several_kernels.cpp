// Several kernels in one launch: a block finds its own by its number.
#include "base/error.h"
#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/operators.h"

namespace braze::codegen::cuda {
namespace {

// Chooses the kernel that a block belongs to, by halves: its parameters and its sizes.
class Choice {
 public:
  Choice(const Nest& nest, std::span<const int64_t> extents, const std::vector<bool>& common,
         const KernelCode& code)
      : params_(nest.kernel->params), extents_(extents), common_(common), sizes_(code.sizes) {
    for (const int64_t extent : extents) {
      begin_.push_back(blocks_);
      blocks_ += sym::evaluate(code.blocks[0], std::vector{extent});
    }
    BRAZE_CHECK(blocks_ <= INT32_MAX, "so many blocks");
  }

  int64_t blocks() const { return blocks_; }

  std::string parameters() const {
    std::string text;
    const auto add = [&](const loop::BufferParam& param, const std::string& name) {
      text +=
          (text.empty() ? "" : ", ") + parameter_type(param) + (param.by_value ? " " : "* ") + name;
    };
    for (size_t k = 0; k < extents_.size(); ++k)
      for (size_t p = 0; p < params_.size(); ++p)
        if (!common_[p]) add(params_[p], own_name(k, p));
    for (size_t p = 0; p < params_.size(); ++p)
      if (common_[p]) add(params_[p], "p" + std::to_string(p));
    return text;
  }

  std::string lines() const {
    std::string text = "  u32 block = blockIdx.x;\n";
    for (size_t p = 0; p < params_.size(); ++p)
      if (!common_[p])
        text += "  " +
                std::string(params_[p].by_value ? storage_type_of(params_[p].dtype) + " "
                                                : parameter_type(params_[p]) + "* ") +
                "p" + std::to_string(p) + ";\n";
    for (size_t i = 0; i < sizes_.size(); ++i) text += "  i64 s" + std::to_string(i) + ";\n";
    add(0, extents_.size(), text);
    return text;
  }

 private:
  static std::string own_name(size_t kernel, size_t param) {
    return "p" + std::to_string(param) + "_" + std::to_string(kernel);
  }

  void add(size_t begin, size_t end, std::string& text) const {
    if (end - begin == 1) {
      text += "  ";
      if (begin_[begin]) text += "block -= " + std::to_string(begin_[begin]) + "u; ";
      for (size_t p = 0; p < params_.size(); ++p)
        if (!common_[p]) text += "p" + std::to_string(p) + " = " + own_name(begin, p) + "; ";
      for (size_t i = 0; i < sizes_.size(); ++i)
        text += "s" + std::to_string(i) + " = " +
                std::to_string(sym::evaluate(sizes_[i], std::vector{extents_[begin]})) + "; ";
      text.back() = '\n';
      return;
    }
    const size_t middle = begin + (end - begin) / 2;
    text += "  if (block < " + std::to_string(begin_[middle]) + "u) {\n";
    add(begin, middle, text);
    text += "  } else {\n";
    add(middle, end, text);
    text += "  }\n";
  }

  const std::vector<loop::BufferParam>& params_;
  const std::span<const int64_t> extents_;
  const std::vector<bool>& common_;
  const std::vector<sym::Int>& sizes_;
  std::vector<int64_t> begin_;  // by kernel: the first of its blocks
  int64_t blocks_ = 0;
};

}  // namespace

KernelCode write_kernels(const Nest& nest, std::span<const int64_t> extents,
                         const std::vector<bool>& common, const std::string& name) {
  KernelCode code{.name = name};
  const std::vector<std::string> lines = kernel_lines(nest, code, "block");
  const Choice choice(nest, extents, common, code);
  std::string function = "(" + choice.parameters() + ") {\n" + choice.lines();
  for (const std::string& line : lines) function += "  " + line + "\n";
  code.blocks[0] = choice.blocks();
  code.sizes.clear();
  std::vector<int32_t> alignment;
  for (size_t k = 0; k < extents.size(); ++k)
    for (size_t p = 0; p < common.size(); ++p)
      if (!common[p]) alignment.push_back(code.alignment[p]);
  for (size_t p = 0; p < common.size(); ++p)
    if (common[p]) alignment.push_back(code.alignment[p]);
  code.alignment = std::move(alignment);
  return finished(nest, std::move(code), function + "}\n");
}

}  // namespace braze::codegen::cuda
