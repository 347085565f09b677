// Parts of the source of flex_attention's kernels (flex_attention.h), in which HALVES is the name
// of a half in PTX, and TABLES, CHANGE, MASK and GRADIENT stand for what the user's functions need.
#pragma once

#include <string_view>

namespace braze::codegen::cuda {

std::string_view flex_tools();
std::string_view flex_products_of_warpgroups();
std::string_view flex_products_of_warps();
std::string_view flex_common();
std::string_view flex_forward_kernel();
std::string_view flex_backward_arguments();
std::string_view flex_query_gradient_kernel();
std::string_view flex_key_gradient_kernel();

}  // namespace braze::codegen::cuda
