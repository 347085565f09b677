#include <sstream>

#include "base/log.h"
#include "base/options.h"
#include "toolchain/command.h"
#include "toolchain/process.h"
#include "toolchain/toolchain.h"

namespace braze::toolchain {
namespace {

std::optional<Compiler> probe(const std::string& command) {
  std::vector<std::string> arguments = split_command(command);
  if (arguments.empty()) return std::nullopt;
  arguments.push_back("--version");
  TemporaryFolder folder;
  const std::string output = folder.file("version");
  if (!run(arguments, output).ok()) return std::nullopt;
  const std::string text = read_file(output).value_or("");
  if (text.empty()) return std::nullopt;
  return Compiler{command, text.substr(0, text.find('\n'))};
}

}  // namespace

std::vector<std::string> split_command(const std::string& command) {
  std::istringstream words(command);
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  return arguments;
}

std::optional<Compiler> find_compiler() {
  if (const std::string& chosen = options().cxx; !chosen.empty()) {
    if (auto compiler = probe(chosen)) return compiler;
    log::warning("CXX='" + chosen + "' does not run; looking for g++, clang++ and c++");
  }
  for (const char* name : {"g++", "clang++", "c++"})
    if (auto compiler = probe(name)) return compiler;
  return std::nullopt;
}

const std::optional<Compiler>& host_compiler() {
  static const std::optional<Compiler> compiler = find_compiler();
  return compiler;
}

}  // namespace braze::toolchain
