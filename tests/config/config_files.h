// What tests of the configuration share: a folder for TOML files, and the problems a set of sources has.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "config/check.h"

namespace mgtrain::test {

class ConfigFolder {
 public:
  ConfigFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mgtrain-config-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder " + pattern);
    path_ = std::filesystem::canonical(pattern);
  }
  ~ConfigFolder() { std::filesystem::remove_all(path_); }
  ConfigFolder(const ConfigFolder&) = delete;
  ConfigFolder& operator=(const ConfigFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

 private:
  std::filesystem::path path_;
};

/// The message that check() refuses the sources with; empty if it accepts them.
inline std::string refusal(const ConfigSources& sources) {
  try {
    check(sources, nullptr);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// The same for one file of this text, which the message calls exp.toml.
inline std::string refusal_of_file(const std::string& text) {
  const ConfigFolder folder;
  std::string message = refusal({.files = {folder.write("exp.toml", text)}});
  const std::string prefix = folder.path().string() + "/";
  for (size_t at; (at = message.find(prefix)) != std::string::npos;) message.erase(at, prefix.size());
  return message;
}

}  // namespace mgtrain::test
