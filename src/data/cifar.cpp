#include "data/cifar.h"

#include <algorithm>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "data/data_file.h"

namespace mgtrain {
namespace {

using Path = std::filesystem::path;

constexpr int64_t kSide = 32, kPlane = kSide * kSide, kPixels = 3 * kPlane;
constexpr uint64_t kLargestNames = 1 << 16;    // of a file of names; the published ones have some 1,000 bytes
constexpr int64_t kPublishedRecords = 10'000;  // of each file of CIFAR-10

int64_t label_bytes(CifarLabels labels) { return labels == CifarLabels::kTen ? 1 : 2; }
int64_t record_bytes(CifarLabels labels) { return label_bytes(labels) + kPixels; }

Path folder_of(const Path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? path
         : path.parent_path().empty()               ? Path(".")
                                                    : path.parent_path();
}

std::vector<Path> existing(const Path& path, const std::vector<std::string>& names) {
  std::vector<Path> files;
  std::error_code error;
  for (const std::string& name : names)
    if (std::filesystem::exists(folder_of(path) / name, error)) files.push_back(folder_of(path) / name);
  return files;
}

std::vector<std::string> batch_names() {
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back("data_batch_" + std::to_string(i) + ".bin");
  return names;
}

/// Whether `path` is a folder, or a file with a name of the set.
bool may_be(const Path& path, std::vector<std::string> names, const std::vector<std::string>& more) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return true;
  names.insert(names.end(), more.begin(), more.end());
  return std::ranges::find(names, path.filename().string()) != names.end();
}

/// What else a file of this size could be.
std::string hint(uint64_t bytes, CifarLabels labels) {
  const bool ten = labels == CifarLabels::kTen;
  const auto other = static_cast<uint64_t>(record_bytes(ten ? CifarLabels::kFine : CifarLabels::kTen));
  if (bytes % other != 0) return "; the file is cut or padded, fetch it again";
  return std::string("; it has the size of ") + (ten ? "CIFAR-100" : "CIFAR-10") + " records: --data-format " +
         (ten ? "cifar100" : "cifar10") + " reads those";
}

}  // namespace

CifarParts find_cifar10(const Path& path) {
  if (!may_be(path, batch_names(), {"test_batch.bin", "batches.meta.txt"})) return {};
  return {.train = existing(path, batch_names()), .val = existing(path, {"test_batch.bin"})};
}

CifarParts find_cifar100(const Path& path) {
  if (!may_be(path, {"train.bin", "test.bin"}, {"fine_label_names.txt", "coarse_label_names.txt"})) return {};
  return {.train = existing(path, {"train.bin"}), .val = existing(path, {"test.bin"})};
}

void check_cifar10_is_whole(const std::vector<Path>& train, int64_t num_samples, Faults& faults) {
  const std::vector<std::string> all = batch_names();
  if (train.empty() || train.size() == all.size()) return;
  const bool gap = train.back().filename() != all[train.size() - 1];
  const bool published = num_samples == kPublishedRecords * static_cast<int64_t>(train.size());
  if (!gap && !published) return;
  std::string missing;
  for (const std::string& name : all) {
    const bool there = std::ranges::any_of(train, [&](const Path& file) { return file.filename() == name; });
    if (!there) missing += (missing.empty() ? "" : ", ") + name;
  }
  faults.add(folder_of(train.front()).string() + ": " + missing +
             " not there; expected data_batch_1.bin to data_batch_5.bin: unpack the archive again");
}

int64_t cifar_classes(CifarLabels labels) {
  return labels == CifarLabels::kTen ? 10 : labels == CifarLabels::kCoarse ? 20 : 100;
}

std::vector<std::string> cifar_class_names(const Path& folder, CifarLabels labels, Faults& faults) {
  const Path file = folder / (labels == CifarLabels::kTen      ? "batches.meta.txt"
                              : labels == CifarLabels::kCoarse ? "coarse_label_names.txt"
                                                               : "fine_label_names.txt");
  std::vector<std::string> names;
  if (std::error_code error; !std::filesystem::exists(file, error)) return names;
  DataFile stored(file);
  const std::vector<uint8_t> bytes = stored.read_up_to(kLargestNames + 1);
  if (bytes.size() > kLargestNames) {
    faults.add(file.string() + ": more than " + std::to_string(kLargestNames) + " bytes; expected " +
               std::to_string(cifar_classes(labels)) + " names of classes, a line each");
    return names;
  }
  std::istringstream lines(std::string(bytes.begin(), bytes.end()));
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  const auto wanted = static_cast<size_t>(cifar_classes(labels));
  if (!names.empty() && names.size() != wanted) {
    faults.add(file.string() + ": " + std::to_string(names.size()) + " names of classes, expected " +
               std::to_string(wanted));
    names.clear();
  }
  return names;
}

int64_t count_cifar_records(const Path& path, CifarLabels labels, Faults& faults) {
  DataFile file(path);
  const uint64_t bytes = file.stored_bytes();
  const auto record = static_cast<uint64_t>(record_bytes(labels));
  if (file.compressed()) {
    faults.add(path.string() + ": is gzip-compressed; expected raw records: unpack it with `gunzip` or `tar xzf`");
    return 0;
  }
  if (bytes % record == 0) return static_cast<int64_t>(bytes / record);
  std::vector<uint8_t> begin(512);
  begin.resize(file.read(begin));
  const std::string foreign = guess_foreign(begin);
  faults.add(path.string() + ": " + std::to_string(bytes) + " bytes are no whole number of records of " +
             std::to_string(record) + " bytes" + (foreign.empty() ? hint(bytes, labels) : foreign));
  return 0;
}

void read_cifar(const Path& path, CifarLabels labels, ImageSet& into, Faults& faults) {
  Faults told(/*collect=*/true);
  const int64_t count = count_cifar_records(path, labels, told);
  const int64_t limits[2] = {labels == CifarLabels::kTen ? 10 : 20, 100};
  DataFile file(path);
  std::vector<uint8_t> record(static_cast<size_t>(record_bytes(labels)));
  into.pixels.reserve(into.pixels.size() + static_cast<size_t>(count * kPixels));
  for (int64_t i = 0; i < count; ++i) {
    if (file.read(record) != record.size()) {
      faults.add(path.string() + ": ends within record " + std::to_string(i) + " of " + std::to_string(count));
      return;
    }
    for (int64_t b = 0; b < label_bytes(labels); ++b) {
      const int64_t value = record[static_cast<size_t>(b)];
      if (value < limits[b]) continue;
      const char* which = labels == CifarLabels::kTen ? "label" : b == 0 ? "coarse label" : "fine label";
      faults.add(path.string() + ": record " + std::to_string(i) + " has the " + which + " " + std::to_string(value) +
                 ", expected 0 to " + std::to_string(limits[b] - 1) + "; the file is damaged, or of another format");
    }
    into.labels.push_back(record[labels == CifarLabels::kFine ? 1 : 0]);
    const uint8_t* planes = record.data() + label_bytes(labels);
    const size_t before = into.pixels.size();
    into.pixels.resize(before + static_cast<size_t>(kPixels));
    uint8_t* out = into.pixels.data() + before;
    for (int64_t p = 0; p < kPlane; ++p)
      for (int64_t c = 0; c < 3; ++c) *out++ = planes[c * kPlane + p];
  }
}

}  // namespace mgtrain
