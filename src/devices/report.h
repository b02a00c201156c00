// What a machine has, in words: for `mgtrain devices` and for messages that refuse a device.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "devices/inventory.h"

namespace mgtrain {

/// "GPU 1 (NVIDIA H200, GPU-8a1f..., 0000:3b:00.0)".
std::string describe(const Gpu& gpu);
/// "1 core", "2 cores".
std::string count_of(int64_t number, const std::string& noun);
/// "13.0" for 13000, as CUDA encodes versions.
std::string cuda_version_text(int version);

/// Whether anything says that this machine has an NVIDIA GPU, usable or not.
bool gpu_hardware_seen(const Inventory& inventory);
/// Whether CUDA_VISIBLE_DEVICES is empty or -1: the user wants no GPU.
bool gpus_hidden_on_purpose(const Inventory& inventory);
/// Why no GPU at all can be used although gpu_hardware_seen(); nothing if at least one is visible and CUDA runs.
std::optional<std::string> gpu_fault(const Inventory& inventory);

/// `mgtrain devices`: a table for a person / every field for a program.
std::string render_inventory(const Inventory& inventory);
nlohmann::ordered_json inventory_to_json(const Inventory& inventory);

}  // namespace mgtrain
