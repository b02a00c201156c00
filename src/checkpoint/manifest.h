// manifest.json: the names, sizes and XXH3-128 of a checkpoint folder's files. Its last line is the XXH3-128 of all
// bytes before it. Only one spelling of a manifest is valid, so that no byte of it can change unnoticed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/files.h"

namespace mgtrain {

inline constexpr char kManifestName[] = "manifest.json";

struct ManifestEntry {
  uint64_t bytes = 0;
  std::string xxh3_128;  // 32 hex digits
  friend bool operator==(const ManifestEntry&, const ManifestEntry&) = default;
};

/// By file name.
using Manifest = std::map<std::string, ManifestEntry>;

/// Whether a checkpoint's file may have this name: letters, digits, '.', '_' and '-', not starting with '.', and not
/// that of the manifest.
bool is_checkpoint_file_name(std::string_view name);

std::string render_manifest(const Manifest& manifest);
/// Throws CheckpointError saying what is wrong with the text.
Manifest parse_manifest(std::string_view text);

/// Whether a checkpoint folder matches its manifest: empty text, or what is wrong ("model.safetensors: 1024 bytes,
/// manifest says 2048"). Every file is read; a file that the manifest does not name is wrong too; the header of each
/// .safetensors file is checked.
std::string verify_checkpoint(FileSystem& files, const std::filesystem::path& checkpoint);

}  // namespace mgtrain
