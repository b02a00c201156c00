// Which GPUs a LibTorch has kernels for, from the compiler flags it was built with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mgtrain {

/// The targets in nvcc flags such as "-gencode;arch=compute_90,code=sm_90;...": "sm_90" for machine code,
/// "compute_90" for PTX that a driver compiles. In order of appearance, each once.
std::vector<std::string> parse_architectures(std::string_view nvcc_flags);

/// Whether a GPU of this compute capability can run one of the targets (CUDA C++ Programming Guide, "Compute
/// Capabilities"): machine code within its major version from its minor version on, PTX from its version on,
/// "sm_90a" on 9.0 alone, "sm_100f" within its major version.
bool runs_on(const std::vector<std::string>& architectures, int compute_major, int compute_minor);

}  // namespace mgtrain
