// The JSON header of a safetensors file, read as a stream of events: memory and depth are bounded, duplicate names are
// seen. Part of safetensors.cpp; others use read_safetensors_index.
#pragma once

#include <string_view>

#include "checkpoint/safetensors.h"

namespace mgtrain {

/// The tensors in the order of the header, offset and length relative to the data part; each length fits dtype and
/// shape, offsets are not checked against each other or a file. Throws CheckpointError saying what is wrong and where.
SafetensorsIndex parse_safetensors_header(std::string_view json);

}  // namespace mgtrain
