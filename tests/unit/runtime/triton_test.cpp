// Who compiles Triton, and what is kept of it.
#include "runtime/cuda/triton.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "toolchain/scratch.h"

namespace braze::runtime::cuda {
namespace {

class Counting : public TritonCompiler {
 public:
  explicit Counting(std::string version) : version_(std::move(version)) {}
  const std::string& version() const override { return version_; }
  std::vector<TritonBinary> compile(std::span<const TritonSource> sources,
                                    const std::string& folder) override {
    folders.push_back(folder);
    std::vector<TritonBinary> made;
    for (const TritonSource& source : sources) {
      names.push_back(source.name);
      made.push_back({16, 2, std::string("ELF\0 of ", 8) + source.text});
    }
    return made;
  }

  std::vector<std::string> names, folders;

 private:
  std::string version_;
};

const std::vector<TritonSource> kSources = {{"k_a", "text a", {"sm=90", "warps=4"}},
                                            {"k_b", "text b", {"sm=90", "warps=4"}}};

TEST(Triton, IsCompiledOnce) {
  const test::Scratch scratch;
  toolchain::DiskCache cache(scratch.path(), 1 << 20);
  Counting compiler("3.6.0");
  const auto first = triton_binaries(kSources, &compiler, cache);
  const auto again = triton_binaries(kSources, &compiler, cache);
  EXPECT_EQ(compiler.names, (std::vector<std::string>{"k_a", "k_b"}));
  EXPECT_EQ(compiler.folders, (std::vector<std::string>{scratch.path() + "/triton"}));
  ASSERT_EQ(again.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again[i].cubin, first[i].cubin);
    EXPECT_EQ(again[i].shared_bytes, 16u);
    EXPECT_EQ(again[i].more_pointers, 2);
  }
}

TEST(Triton, WhatDiffersIsCompiledAgain) {
  const test::Scratch scratch;
  toolchain::DiskCache cache(scratch.path(), 1 << 20);
  Counting compiler("3.6.0"), newer("3.7.0");
  triton_binaries(kSources, &compiler, cache);
  triton_binaries(kSources, &newer, cache);
  EXPECT_EQ(newer.names.size(), 2u);
  std::vector<TritonSource> other = kSources;
  other[1].flags[1] = "warps=8";
  const auto mixed = triton_binaries(other, &compiler, cache);
  EXPECT_EQ(compiler.names, (std::vector<std::string>{"k_a", "k_b", "k_b"}));
  EXPECT_TRUE(mixed[0].cubin.ends_with("text a"));
  EXPECT_TRUE(mixed[1].cubin.ends_with("text b"));
}

TEST(Triton, WithoutACompiler) {
  const test::Scratch scratch;
  toolchain::DiskCache cache(scratch.path(), 1 << 20);
  EXPECT_TRUE(triton_binaries({}, nullptr, cache).empty());
  EXPECT_THROW(triton_binaries(kSources, nullptr, cache), UserError);
}

}  // namespace
}  // namespace braze::runtime::cuda
