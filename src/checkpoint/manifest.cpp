#include "checkpoint/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "checkpoint/checksum.h"
#include "checkpoint/safetensors.h"

namespace mgtrain {

namespace {

constexpr char kFormat[] = "mgtrain checkpoint 1";
constexpr size_t kHexDigits = 32;
constexpr uint64_t kLargestManifest = uint64_t{1} << 20;
constexpr uint64_t kReadChunk = uint64_t{4} << 20;

std::string checksum_of(std::string_view text) {
  Xxh3 checksum;
  checksum.update(text);
  return checksum.hex();
}

bool is_hex(std::string_view text) {
  return text.size() == kHexDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string body_of(const Manifest& manifest) {
  std::string text = std::string("{\n\"format\": \"") + kFormat + "\",\n\"files\": {";
  const char* separator = "\n";
  for (const auto& [name, entry] : manifest) {
    text += separator;
    text +=
        "\"" + name + "\": {\"bytes\": " + std::to_string(entry.bytes) + ", \"xxh3_128\": \"" + entry.xxh3_128 + "\"}";
    separator = ",\n";
  }
  return text + "\n}\n}\n";
}

/// The entries of a body that may be anything; nothing if it is no manifest.
Manifest entries_of(const nlohmann::json& body) {
  Manifest manifest;
  if (!body.is_object() || !body.contains("files") || !body["files"].is_object()) return {};
  for (const auto& [name, entry] : body["files"].items()) {
    if (!is_checkpoint_file_name(name) || !entry.is_object() || !entry.contains("bytes") ||
        !entry["bytes"].is_number_unsigned() || !entry.contains("xxh3_128") || !entry["xxh3_128"].is_string())
      return {};
    const std::string digits = entry["xxh3_128"].get<std::string>();
    if (!is_hex(digits)) return {};
    manifest[name] = {entry["bytes"].get<uint64_t>(), digits};
  }
  return manifest;
}

/// What is wrong with one file, or nothing.
std::string file_problem(FileSystem& files, const std::filesystem::path& file, const ManifestEntry& entry) {
  const std::string name = file.filename().string();
  const uint64_t size = files.size(file);
  if (size != entry.bytes)
    return name + ": " + std::to_string(size) + " bytes, manifest says " + std::to_string(entry.bytes);
  Xxh3 checksum;
  for (uint64_t offset = 0; offset < size;) {
    const std::vector<std::byte> chunk = files.read(file, offset, std::min(kReadChunk, size - offset));
    if (chunk.empty()) return name + ": ends at byte " + std::to_string(offset) + " of " + std::to_string(size);
    checksum.update(chunk);
    offset += chunk.size();
  }
  if (checksum.hex() != entry.xxh3_128)
    return name + ": XXH3-128 is " + checksum.hex() + ", manifest says " + entry.xxh3_128;
  return "";
}

std::string problem_of(FileSystem& files, const std::filesystem::path& checkpoint) {
  if (!files.is_directory(checkpoint)) return files.is_file(checkpoint) ? "not a folder" : "no such folder";
  const std::filesystem::path manifest_file = checkpoint / kManifestName;
  if (!files.is_file(manifest_file)) return std::string(kManifestName) + " is missing";
  if (const uint64_t size = files.size(manifest_file); size > kLargestManifest)
    return std::string(kManifestName) + ": " + std::to_string(size) + " bytes are too many";
  const Manifest manifest = parse_manifest(read_text(files, manifest_file));

  for (const std::string& name : files.list(checkpoint)) {
    if (name != kManifestName && !manifest.contains(name)) return name + ": the manifest knows no such file";
  }
  for (const auto& [name, entry] : manifest) {
    const std::filesystem::path file = checkpoint / name;
    if (!files.is_file(file)) return name + ": missing";
    if (const std::string problem = file_problem(files, file, entry); !problem.empty()) return problem;
    if (file.extension() == ".safetensors") (void)read_safetensors_index(files, file);
  }
  return "";
}

}  // namespace

bool is_checkpoint_file_name(std::string_view name) {
  static constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.front() != '.' && name != kManifestName &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::string render_manifest(const Manifest& manifest) {
  const std::string body = body_of(manifest);
  return body + checksum_of(body) + "\n";
}

Manifest parse_manifest(std::string_view text) {
  const auto fail = [](const std::string& problem) -> Manifest {
    throw CheckpointError(std::string(kManifestName) + ": " + problem);
  };
  if (text.size() < kHexDigits + 1 || text.back() != '\n' ||
      !is_hex(text.substr(text.size() - kHexDigits - 1, kHexDigits)))
    return fail("does not end with a line of 32 hex digits; it was cut or changed");
  const std::string_view body = text.substr(0, text.size() - kHexDigits - 1);
  if (checksum_of(body) != text.substr(body.size(), kHexDigits))
    return fail("its last line is not the XXH3-128 of what stands before it; it was changed");
  // No exceptions: what is not JSON has no entries, and an empty manifest is spelled otherwise.
  const Manifest manifest = entries_of(nlohmann::json::parse(body, nullptr, false));
  if (body_of(manifest) != body)
    return fail("not as this version of mgtrain writes it (expected \"" + std::string(kFormat) + "\")");
  return manifest;
}

std::string verify_checkpoint(FileSystem& files, const std::filesystem::path& checkpoint) {
  try {
    return problem_of(files, checkpoint);
  } catch (const CheckpointError& error) {
    return error.what();
  } catch (const FileError& error) {
    return error.what();
  }
}

}  // namespace mgtrain
