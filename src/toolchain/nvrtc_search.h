// Where NVRTC is, and the program that runs it beside. Private to this folder.
#pragma once

#include "toolchain/nvrtc.h"

namespace braze::toolchain {

const NvrtcLibrary& nvrtc();  // UserError where there is none
NvrtcSetup usual_setup();     // UserError where there is no NVRTC

}  // namespace braze::toolchain
