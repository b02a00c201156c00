#include "support/memory_file_system.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>
#include <utility>

namespace mgtrain::test {

struct MemoryFileSystem::Node {
  bool directory = false;
  std::map<std::string, NodePtr> entries, synced_entries;
  std::vector<std::byte> content, synced_content;
};

class MemoryFileSystem::File final : public WritableFile {
 public:
  File(MemoryFileSystem& files, Path path, NodePtr node)
      : files_(files), path_(std::move(path)), node_(std::move(node)) {}
  void write(std::span<const std::byte> bytes) override { files_.write(*node_, path_, bytes); }
  void sync() override {
    files_.begin(path_, "sync");
    node_->synced_content = node_->content;
  }
  void close() override { files_.begin(path_, "close"); }

 private:
  MemoryFileSystem& files_;
  Path path_;
  NodePtr node_;
};

MemoryFileSystem::MemoryFileSystem() : root_(std::make_shared<Node>()) { root_->directory = true; }
MemoryFileSystem::~MemoryFileSystem() = default;

void MemoryFileSystem::fail_operation(int64_t n, int error_number) {
  failing_ = operations_ + n;
  error_number_ = error_number;
}

void MemoryFileSystem::die_at_operation(int64_t n) { dying_ = operations_ + n; }

void MemoryFileSystem::restart(Survives survives) {
  dead_ = false;
  failing_ = dying_ = 0;
  std::set<Node*> done;
  const std::function<void(Node&)> recover = [&](Node& node) {
    if (!done.insert(&node).second) return;
    if (survives == Survives::kSynced) node.entries = node.synced_entries;
    if (survives != Survives::kAll) node.content = node.synced_content;
    node.synced_entries = node.entries;
    node.synced_content = node.content;
    for (auto& [name, child] : node.entries) recover(*child);
  };
  recover(*root_);
}

template <typename Half>
void MemoryFileSystem::begin(const Path& path, const char* operation, Half half) {
  must_live();
  ++operations_;
  if (operations_ == dying_) {
    dead_ = true;
    half();
    throw ProcessDied{};
  }
  if (operations_ == failing_) {
    half();
    throw FileError(path, operation, error_number_);
  }
}

void MemoryFileSystem::begin(const Path& path, const char* operation) {
  begin(path, operation, [] {});
}

void MemoryFileSystem::must_live() const {
  if (dead_) throw ProcessDied{};
}

MemoryFileSystem::NodePtr MemoryFileSystem::find(const Path& path) const {
  NodePtr node = root_;
  for (const Path& part : path.lexically_normal().relative_path()) {
    if (part.empty() || part == ".") continue;
    if (!node->directory) return nullptr;
    const auto found = node->entries.find(part.string());
    if (found == node->entries.end()) return nullptr;
    node = found->second;
  }
  return node;
}

MemoryFileSystem::NodePtr MemoryFileSystem::parent_of(const Path& path, const char* operation) const {
  NodePtr parent = find(path.parent_path());
  if (!parent) throw FileError(path, operation, ENOENT);
  if (!parent->directory) throw FileError(path, operation, ENOTDIR);
  return parent;
}

MemoryFileSystem::NodePtr MemoryFileSystem::file_at(const Path& path, const char* operation) const {
  NodePtr node = find(path);
  if (!node) throw FileError(path, operation, ENOENT);
  if (node->directory) throw FileError(path, operation, EISDIR);
  return node;
}

void MemoryFileSystem::put(const Path& file, const std::string& content) {
  NodePtr node = root_;
  for (const Path& part : file.relative_path()) {
    NodePtr& child = node->entries[part.string()];
    if (!child) child = std::make_shared<Node>();
    node->directory = true;
    node->synced_entries[part.string()] = child;
    node = child;
  }
  const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
  node->content.assign(bytes.begin(), bytes.end());
  node->synced_content = node->content;
}

std::string MemoryFileSystem::get(const Path& file) const {
  const NodePtr node = file_at(file, "read");
  return {reinterpret_cast<const char*>(node->content.data()), node->content.size()};
}

std::vector<std::string> MemoryFileSystem::tree(const Path& directory) const {
  std::vector<std::string> paths;
  const std::function<void(const Node&, const Path&)> walk = [&](const Node& node, const Path& path) {
    for (const auto& [name, child] : node.entries) {
      child->directory ? walk(*child, path / name) : paths.push_back((path / name).string());
      if (child->directory && child->entries.empty()) paths.push_back((path / name).string() + "/");
    }
  };
  if (const NodePtr node = find(directory)) walk(*node, "");
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool MemoryFileSystem::same_file(const Path& one, const Path& other) const {
  return file_at(one, "look at") == file_at(other, "look at");
}

std::unique_ptr<WritableFile> MemoryFileSystem::create(const Path& file) {
  if (before_create_) before_create_();
  begin(file, "create");
  NodePtr& node = parent_of(file, "create")->entries[file.filename().string()];
  if (!node) node = std::make_shared<Node>();
  if (node->directory) throw FileError(file, "create", EISDIR);
  node->content.clear();
  return std::make_unique<File>(*this, file, node);
}

std::unique_ptr<WritableFile> MemoryFileSystem::append(const Path& file) {
  begin(file, "open");
  NodePtr& node = parent_of(file, "open")->entries[file.filename().string()];
  if (!node) node = std::make_shared<Node>();
  if (node->directory) throw FileError(file, "open", EISDIR);
  return std::make_unique<File>(*this, file, node);
}

void MemoryFileSystem::put_bytes(Node& node, std::span<const std::byte> bytes) {
  node.content.insert(node.content.end(), bytes.begin(), bytes.end());
}

void MemoryFileSystem::write(Node& node, const Path& path, std::span<const std::byte> bytes) {
  begin(path, "write", [&] { put_bytes(node, bytes.first(bytes.size() / 2)); });
  const uint64_t space = capacity_ - std::min(capacity_, used());
  put_bytes(node, bytes.first(std::min<uint64_t>(bytes.size(), space)));
  if (bytes.size() > space) throw FileError(path, "write", ENOSPC);
}

std::vector<std::byte> MemoryFileSystem::read(const Path& file, uint64_t offset, uint64_t length) {
  begin(file, "read");
  const std::vector<std::byte>& content = file_at(file, "read")->content;
  const uint64_t start = std::min<uint64_t>(offset, content.size());
  const uint64_t end = start + std::min<uint64_t>(length, content.size() - start);
  return {content.begin() + static_cast<ptrdiff_t>(start), content.begin() + static_cast<ptrdiff_t>(end)};
}

uint64_t MemoryFileSystem::size(const Path& file) {
  begin(file, "look at");
  return file_at(file, "look at")->content.size();
}

bool MemoryFileSystem::is_file(const Path& path) {
  must_live();
  const NodePtr node = find(path);
  return node && !node->directory;
}

bool MemoryFileSystem::is_directory(const Path& path) {
  must_live();
  const NodePtr node = find(path);
  return node && node->directory;
}

std::vector<std::string> MemoryFileSystem::list(const Path& directory) {
  begin(directory, "list");
  const NodePtr node = find(directory);
  if (!node) throw FileError(directory, "list", ENOENT);
  if (!node->directory) throw FileError(directory, "list", ENOTDIR);
  std::vector<std::string> names;
  for (const auto& [name, child] : node->entries) names.push_back(name);
  return names;
}

void MemoryFileSystem::make_directories(const Path& directory) {
  begin(directory, "create the folder");
  NodePtr node = root_;
  for (const Path& part : directory.lexically_normal().relative_path()) {
    if (part.empty()) continue;
    NodePtr& child = node->entries[part.string()];
    if (!child) {
      child = std::make_shared<Node>();
      child->directory = true;
    }
    if (!child->directory) throw FileError(directory, "create the folder", ENOTDIR);
    node = child;
  }
}

void MemoryFileSystem::rename(const Path& from, const Path& to) {
  begin(from, "rename");
  const NodePtr node = find(from);
  if (!node) throw FileError(from, "rename", ENOENT);
  const NodePtr target = find(to);
  if (target && target->directory != node->directory)
    throw FileError(from, "rename", target->directory ? EISDIR : ENOTDIR);
  if (target && target->directory && !target->entries.empty()) throw FileError(from, "rename", ENOTEMPTY);
  parent_of(to, "rename")->entries[to.filename().string()] = node;
  parent_of(from, "rename")->entries.erase(from.filename().string());
}

bool MemoryFileSystem::exchange(const Path& one, const Path& other) {
  begin(one, "exchange");
  if (!exchange_) return false;
  if (!find(one) || !find(other)) throw FileError(one, "exchange", ENOENT);
  std::swap(parent_of(one, "exchange")->entries[one.filename().string()],
            parent_of(other, "exchange")->entries[other.filename().string()]);
  return true;
}

void MemoryFileSystem::hard_link(const Path& existing, const Path& link) {
  begin(link, "create the hard link");
  if (!hard_links_) throw FileError(link, "create the hard link", EPERM);
  const NodePtr node = file_at(existing, "create the hard link");
  if (find(link)) throw FileError(link, "create the hard link", EEXIST);
  parent_of(link, "create the hard link")->entries[link.filename().string()] = node;
}

void MemoryFileSystem::truncate(const Path& file, uint64_t length) {
  begin(file, "truncate");
  file_at(file, "truncate")->content.resize(length);
}

void MemoryFileSystem::remove_children(const Path& path, Node& directory) {
  while (!directory.entries.empty()) {
    const auto [name, child] = *directory.entries.begin();
    if (child->directory) remove_children(path / name, *child);
    begin(path / name, "remove");
    remove_entry(directory, name);
  }
}

void MemoryFileSystem::remove_entry(Node& directory, const std::string& name) {
  directory.entries.erase(name);
  if (eager_removal_) directory.synced_entries.erase(name);
}

void MemoryFileSystem::remove_all(const Path& path) {
  must_live();
  const NodePtr node = find(path);
  if (!node) return;
  if (node->directory) remove_children(path, *node);
  begin(path, "remove");
  remove_entry(*parent_of(path, "remove"), path.filename().string());
}

void MemoryFileSystem::sync_directory(const Path& directory) {
  begin(directory, "sync");
  const NodePtr node = find(directory);
  if (!node || !node->directory) throw FileError(directory, "sync", ENOENT);
  node->synced_entries = node->entries;
}

uint64_t MemoryFileSystem::free_bytes(const Path& /*path*/) {
  must_live();
  return capacity_ - std::min(capacity_, used());
}

uint64_t MemoryFileSystem::used() const {
  uint64_t bytes = 0;
  std::set<const Node*> counted;
  const std::function<void(const Node&)> add = [&](const Node& node) {
    if (!counted.insert(&node).second) return;
    bytes += node.content.size();
    for (const auto& [name, child] : node.entries) add(*child);
  };
  add(*root_);
  return bytes;
}

}  // namespace mgtrain::test
