// The compiler's command line, private to this folder.
#pragma once

#include <string>
#include <vector>

namespace braze::toolchain {

// At white space, without quoting: "ccache g++".
std::vector<std::string> split_command(const std::string& command);

}  // namespace braze::toolchain
