#include "checkpoint/store.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "base/error.h"

namespace mgtrain {

namespace {

using Path = std::filesystem::path;

constexpr char kCheckpoints[] = "checkpoints";
constexpr char kBest[] = "best";
constexpr char kStepPrefix[] = "step-";
constexpr char kTemporaryPrefix[] = ".tmp-";  // being written, or being removed
constexpr char kSetAsidePrefix[] = ".old-";   // complete; replaced as soon as its successor has its name
constexpr size_t kStepDigits = 8;
constexpr uint64_t kCopyChunk = uint64_t{4} << 20;

bool starts_with(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

/// Passes bytes on to a file and keeps their number and checksum.
class MeasuredFile final : public WritableFile {
 public:
  MeasuredFile(WritableFile& file, uint64_t& total) : file_(file), total_(total) {}
  void write(std::span<const std::byte> bytes) override {
    file_.write(bytes);
    checksum_.update(bytes);
    bytes_ += bytes.size();
    total_ += bytes.size();
  }
  void sync() override { file_.sync(); }
  void close() override {}  // the store closes, after its own sync
  [[nodiscard]] ManifestEntry entry() const { return {bytes_, checksum_.hex()}; }

 private:
  WritableFile& file_;
  uint64_t& total_;
  uint64_t bytes_ = 0;
  Xxh3 checksum_;
};

/// A temporary folder that is gone when the object is, whatever happens in between.
class TemporaryFolder {
 public:
  enum class Begin { kEmpty, kAsItIs };
  TemporaryFolder(FileSystem& files, Path path, Begin begin = Begin::kEmpty) : files_(files), path_(std::move(path)) {
    if (begin == Begin::kAsItIs) return;
    files_.remove_all(path_);
    files_.make_directories(path_);
  }
  ~TemporaryFolder() {
    try {
      files_.remove_all(path_);
    } catch (...) {  // an error is on its way already, and remove_temporary() comes by at the next start
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const Path& path() const { return path_; }

 private:
  FileSystem& files_;
  Path path_;
};

/// Makes a folder whose name survives a loss of power.
void make_durable_directory(FileSystem& files, const Path& directory) {
  if (files.is_directory(directory)) return;
  const Path parent = directory.parent_path();
  if (!parent.empty() && parent != directory) make_durable_directory(files, parent);
  files.make_directories(directory);
  files.sync_directory(parent.empty() ? Path(".") : parent);
}

void copy_file(FileSystem& files, const Path& from, const Path& to) {
  const std::unique_ptr<WritableFile> output = files.create(to);
  for (uint64_t offset = 0;;) {
    const std::vector<std::byte> chunk = files.read(from, offset, kCopyChunk);
    if (chunk.empty()) break;
    output->write(chunk);
    offset += chunk.size();
  }
  output->sync();
  output->close();
}

void link_or_copy(FileSystem& files, const Path& from, const Path& to) {
  static constexpr std::array<int, 6> kNoLinks = {EPERM, EOPNOTSUPP, ENOSYS, EXDEV, EMLINK, EACCES};
  try {
    files.hard_link(from, to);
  } catch (const FileError& error) {
    if (std::find(kNoLinks.begin(), kNoLinks.end(), error.error_number()) == kNoLinks.end()) throw;
    copy_file(files, from, to);
  }
}

std::string with_commas(uint64_t value) {
  std::string text = std::to_string(value);
  for (size_t i = text.size(); i > 3;) text.insert(i -= 3, ",");
  return text;
}

std::string free_text(FileSystem& files, const Path& path) {
  try {
    return with_commas(files.free_bytes(path)) + " bytes are free";
  } catch (const FileError& error) {
    return std::string("what is free is not known (") + error.what() + ")";
  }
}

/// Bytes of the whole checkpoint, as far as its files say how large they will be.
uint64_t known_bytes(const std::vector<CheckpointFile>& checkpoint) {
  Manifest manifest;
  uint64_t bytes = 0;
  for (const CheckpointFile& file : checkpoint) {
    manifest[file.name] = {file.bytes, Xxh3().hex()};
    bytes += file.bytes;
  }
  return bytes + render_manifest(manifest).size();
}

/// Called when the temporary folder is gone again, so that what is free is what a person can use.
[[noreturn]] void throw_output_error(FileSystem& files, const Path& place, const std::string& what, uint64_t needed,
                                     const FileError& error) {
  std::string message = "cannot save " + what + " in " + place.string() + ": " + error.what();
  if (error.disk_full())
    message += "; it needs " + with_commas(needed) + " bytes, " + free_text(files, place) +
               ". Free some room, lower --keep, or choose another --output";
  throw OutputError(message + ". What was saved before is untouched");
}

void write_manifest(FileSystem& files, const Path& folder, const Manifest& manifest, uint64_t& written) {
  const std::string text = render_manifest(manifest);
  const std::unique_ptr<WritableFile> file = files.create(folder / kManifestName);
  file->write(std::as_bytes(std::span(text.data(), text.size())));
  written += text.size();
  file->sync();
  file->close();
}

/// The manifest's text, or nothing where there is none that can be read.
std::string manifest_text(FileSystem& files, const Path& checkpoint) {
  try {
    return read_text(files, checkpoint / kManifestName);
  } catch (const FileError&) {
    return "";
  }
}

Path set_aside_place(const Path& final_place) {
  return final_place.parent_path() / (kSetAsidePrefix + final_place.filename().string());
}

void restore_in(FileSystem& files, const Path& folder) {
  if (!files.is_directory(folder)) return;
  for (const std::string& name : files.list(folder)) {
    if (!starts_with(name, kSetAsidePrefix)) continue;
    const std::string original = name.substr(sizeof kSetAsidePrefix - 1);
    if ((original == kBest || step_of_folder_name(original)) && !files.is_directory(folder / original))
      files.rename(folder / name, folder / original);
  }
}

}  // namespace

CheckpointStore::CheckpointStore(FileSystem& files, std::filesystem::path run, int64_t keep)
    : files_(files), run_(std::move(run)), keep_(keep) {
  if (keep < 2) throw std::logic_error("a checkpoint store keeps at least 2");
}

uint64_t CheckpointStore::commit(int64_t step, const std::vector<CheckpointFile>& checkpoint) {
  const Path checkpoints = run_ / kCheckpoints, final_place = folder_of(step);
  const std::string what = "the checkpoint of step " + std::to_string(step);
  uint64_t written = 0;
  try {
    make_durable_directory(files_, checkpoints);
    const TemporaryFolder staged(files_, checkpoints / (kTemporaryPrefix + final_place.filename().string()));
    write_files(staged.path(), checkpoint, written);
    if (const std::string problem = verify_checkpoint(files_, staged.path()); !problem.empty())
      throw OutputError("cannot save " + what + " in " + checkpoints.string() +
                        ": read again, it is not what was written: " + problem +
                        ". The disk or the memory may be failing. What was saved before is untouched");
    files_.sync_directory(staged.path());
    replace(staged.path(), final_place);
  } catch (const FileError& error) {
    throw_output_error(files_, checkpoints, what, std::max(known_bytes(checkpoint), written), error);
  }
  try {
    remove_outdated(step);
  } catch (const FileError& error) {
    throw OutputError(what + " is saved in " + final_place.string() +
                      ", but another that is outdated cannot be removed: " + error.what());
  }
  return written;
}

uint64_t CheckpointStore::write_files(const std::filesystem::path& folder,
                                      const std::vector<CheckpointFile>& checkpoint, uint64_t& written) {
  Manifest manifest;
  for (const CheckpointFile& part : checkpoint) {
    if (!is_checkpoint_file_name(part.name) || manifest.contains(part.name))
      throw std::logic_error("a checkpoint cannot have a file (or a second one) named \"" + part.name + "\"");
    const std::unique_ptr<WritableFile> file = files_.create(folder / part.name);
    MeasuredFile measured(*file, written);
    part.write(measured);
    file->sync();
    file->close();
    manifest[part.name] = measured.entry();
  }
  write_manifest(files_, folder, manifest, written);
  return written;
}

void CheckpointStore::replace(const std::filesystem::path& staged, const std::filesystem::path& final_place) {
  const Path parent = final_place.parent_path(), set_aside = set_aside_place(final_place);
  if (!files_.is_directory(final_place)) {
    files_.rename(staged, final_place);
    files_.sync_directory(parent);
  } else if (files_.exchange(staged, final_place)) {
    files_.sync_directory(parent);  // the staged folder now holds the former one, and its owner removes it
  } else {
    // Died in between, the former one is put back by restore_set_aside(), or found by find_best().
    files_.remove_all(set_aside);
    files_.rename(final_place, set_aside);
    const TemporaryFolder former(files_, set_aside, TemporaryFolder::Begin::kAsItIs);
    try {
      files_.rename(staged, final_place);
    } catch (const FileError&) {
      files_.rename(set_aside, final_place);
      throw;
    }
    files_.sync_directory(parent);
  }
}

void CheckpointStore::remove_outdated(int64_t step) {
  const Path checkpoints = run_ / kCheckpoints;
  int64_t kept = 0;
  std::vector<Path> doomed;
  for (const Path& folder : list()) {
    const bool newer = *step_of_folder_name(folder.filename().string()) > step;
    if (!newer && kept++ < keep_) continue;
    // Under another name first: a half-removed folder must not pass for a damaged checkpoint.
    doomed.push_back(checkpoints / (kTemporaryPrefix + ("remove-" + folder.filename().string())));
    files_.remove_all(doomed.back());
    files_.rename(folder, doomed.back());
  }
  if (doomed.empty()) return;
  files_.sync_directory(checkpoints);
  for (const Path& folder : doomed) files_.remove_all(folder);
}

void CheckpointStore::set_best(int64_t step) {
  const Path source = folder_of(step), best = run_ / kBest;
  const std::string what = "best/ (a copy of step " + std::to_string(step) + ")";
  uint64_t needed = 0;
  try {
    const std::string manifest = manifest_text(files_, source);
    if (manifest.empty()) throw FileError(source, "find the committed checkpoint", ENOENT);
    if (manifest_text(files_, best) == manifest && verify_checkpoint(files_, best).empty()) return;
    const TemporaryFolder staged(files_, run_ / (kTemporaryPrefix + std::string(kBest)));
    std::vector<std::string> names = files_.list(source);
    // The manifest last, as in a commit.
    std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name != kManifestName; });
    for (const std::string& name : names) {
      needed += files_.size(source / name);
      link_or_copy(files_, source / name, staged.path() / name);
    }
    if (const std::string problem = verify_checkpoint(files_, staged.path()); !problem.empty())
      throw OutputError("cannot save " + what + " in " + run_.string() + ": the checkpoint is damaged: " + problem +
                        ". What was saved before is untouched");
    files_.sync_directory(staged.path());
    replace(staged.path(), best);
  } catch (const FileError& error) {
    throw_output_error(files_, run_, what, needed, error);
  }
}

std::vector<std::filesystem::path> CheckpointStore::list() const { return step_folders(files_, run_); }

std::filesystem::path CheckpointStore::folder_of(int64_t step) const {
  return run_ / kCheckpoints / step_folder_name(step);
}

void CheckpointStore::remove_temporary() {
  try {
    restore_set_aside(files_, run_);
    const auto is_ours = [](const std::string& name, const std::string& kind) {
      return starts_with(name, kTemporaryPrefix + kind) || starts_with(name, kSetAsidePrefix + kind);
    };
    for (const Path& folder : {run_, run_ / kCheckpoints}) {
      if (!files_.is_directory(folder)) continue;
      for (const std::string& name : files_.list(folder)) {
        if (is_ours(name, kStepPrefix) || is_ours(name, std::string("remove-") + kStepPrefix) || is_ours(name, kBest))
          files_.remove_all(folder / name);
      }
    }
  } catch (const FileError& error) {
    throw OutputError(std::string("cannot clean up after an interrupted save: ") + error.what());
  }
}

std::string step_folder_name(int64_t step) {
  if (step < 0) throw std::logic_error("a checkpoint's step is not negative");
  const std::string digits = std::to_string(step);
  const size_t zeros = digits.size() < kStepDigits ? kStepDigits - digits.size() : 0;
  return kStepPrefix + std::string(zeros, '0') + digits;
}

std::optional<int64_t> step_of_folder_name(const std::string& name) {
  if (!starts_with(name, kStepPrefix)) return std::nullopt;
  const std::string digits = name.substr(sizeof kStepPrefix - 1);
  if (digits.size() < kStepDigits || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  const int64_t step = std::stoll(digits);
  return step_folder_name(step) == name ? std::optional(step) : std::nullopt;
}

std::vector<std::filesystem::path> step_folders(FileSystem& files, const std::filesystem::path& run) {
  const Path checkpoints = run / kCheckpoints;
  if (!files.is_directory(checkpoints)) return {};
  std::vector<std::pair<int64_t, Path>> found;
  for (const std::string& name : files.list(checkpoints)) {
    const std::optional<int64_t> step = step_of_folder_name(name);
    if (step && files.is_directory(checkpoints / name)) found.emplace_back(*step, checkpoints / name);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<Path> folders;
  folders.reserve(found.size());
  for (auto& [step, folder] : found) folders.push_back(std::move(folder));
  return folders;
}

std::optional<std::filesystem::path> find_best(FileSystem& files, const std::filesystem::path& run) {
  const Path best = run / kBest;
  for (const Path& place : {best, set_aside_place(best)}) {
    if (files.is_directory(place)) return place;
  }
  return std::nullopt;
}

void restore_set_aside(FileSystem& files, const std::filesystem::path& run) {
  restore_in(files, run);
  restore_in(files, run / kCheckpoints);
}

}  // namespace mgtrain
