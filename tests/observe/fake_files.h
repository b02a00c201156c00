// Files of a run folder in memory, for the tests of observe/: content, fsyncs counted, and a disk that fills up.
#pragma once

#include <cerrno>
#include <map>
#include <memory>
#include <string>

#include "base/files.h"

namespace mgtrain {

class FakeFiles final : public FileSystem {
 public:
  std::map<std::string, std::string> content;  // by path
  std::map<std::string, int> num_syncs;
  uint64_t space = uint64_t{1} << 40;  // bytes that may still be written

  std::unique_ptr<WritableFile> create(const Path& file) override {
    content[file.string()].clear();
    return std::make_unique<File>(*this, file);
  }
  std::unique_ptr<WritableFile> append(const Path& file) override {
    content[file.string()];
    return std::make_unique<File>(*this, file);
  }
  std::vector<std::byte> read(const Path& file, uint64_t offset, uint64_t length) override {
    const std::string part = at(file).substr(offset, length);
    const auto bytes = std::as_bytes(std::span(part.data(), part.size()));
    return {bytes.begin(), bytes.end()};
  }
  uint64_t size(const Path& file) override { return at(file).size(); }
  bool is_file(const Path& path) override { return content.contains(path.string()); }
  bool is_directory(const Path&) override { return true; }
  std::vector<std::string> list(const Path& directory) override {
    std::vector<std::string> names;
    for (const auto& [path, text] : content) {
      if (Path(path).parent_path() == directory) names.push_back(Path(path).filename().string());
    }
    return names;
  }
  void make_directories(const Path&) override {}
  void rename(const Path& from, const Path& to) override {
    content[to.string()] = at(from);
    content.erase(from.string());
  }
  void hard_link(const Path& existing, const Path& link) override { content[link.string()] = at(existing); }
  void truncate(const Path& file, uint64_t length) override { at(file).resize(length); }
  void remove_all(const Path& path) override { content.erase(path.string()); }
  void sync_directory(const Path&) override {}
  uint64_t free_bytes(const Path&) override { return space; }

 private:
  struct File final : WritableFile {
    File(FakeFiles& files, const Path& path) : files(files), path(path) {}
    // A full disk takes what fits and refuses the rest, as a real one does.
    void write(std::span<const std::byte> bytes) override {
      const size_t fits = std::min<uint64_t>(bytes.size(), files.space);
      files.content[path.string()].append(reinterpret_cast<const char*>(bytes.data()), fits);
      files.space -= fits;
      if (fits < bytes.size()) throw FileError(path, "write", ENOSPC);
    }
    void sync() override { ++files.num_syncs[path.string()]; }
    void close() override {}
    FakeFiles& files;
    Path path;
  };

  std::string& at(const Path& file) {
    const auto found = content.find(file.string());
    if (found == content.end()) throw FileError(file, "open", ENOENT);
    return found->second;
  }
};

}  // namespace mgtrain
