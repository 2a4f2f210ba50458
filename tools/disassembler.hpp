// SASS through NVIDIA's disassembler, if one is installed. It is not part of EpiFuse: SASS is undocumented.
#pragma once

#include <string>

namespace epifuse::tool {

/// Error(io) that says what to install if neither nvdisasm nor cuobjdump is found, or with the tool's own words if it
/// fails.
std::string disassemble(const std::string& cubin);

}  // namespace epifuse::tool
