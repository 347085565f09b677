// A folder of a test's own.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace braze::test {

// Bytes that a cache may take and no test fills.
inline constexpr int64_t kPlenty = 1 << 30;

class Scratch {
 public:
  Scratch() : path_((std::filesystem::temp_directory_path() / "braze-test-XXXXXX").string()) {
    if (!::mkdtemp(path_.data())) std::abort();
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::vector<std::string> files_under(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder, error))
    if (item.is_regular_file()) files.push_back(item.path().string());
  return files;
}

inline std::string slurp(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

inline void spill(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace braze::test
