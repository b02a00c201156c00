#include "data/cifar.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "data/data_file.h"

namespace mgtrain {
namespace {

using Path = std::filesystem::path;

constexpr int64_t kSide = 32, kPlane = kSide * kSide, kPixels = 3 * kPlane;

int64_t label_bytes(CifarLabels labels) { return labels == CifarLabels::kTen ? 1 : 2; }
int64_t record_bytes(CifarLabels labels) { return label_bytes(labels) + kPixels; }

Path folder_of(const Path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? path
         : path.parent_path().empty()               ? Path(".")
                                                    : path.parent_path();
}

std::vector<Path> existing(const Path& folder, const std::vector<std::string>& names) {
  std::vector<Path> files;
  std::error_code error;
  for (const std::string& name : names)
    if (std::filesystem::is_regular_file(folder / name, error)) files.push_back(folder / name);
  return files;
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
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back("data_batch_" + std::to_string(i) + ".bin");
  return {.train = existing(folder_of(path), names), .val = existing(folder_of(path), {"test_batch.bin"})};
}

CifarParts find_cifar100(const Path& path) {
  return {.train = existing(folder_of(path), {"train.bin"}), .val = existing(folder_of(path), {"test.bin"})};
}

int64_t cifar_classes(CifarLabels labels) {
  return labels == CifarLabels::kTen ? 10 : labels == CifarLabels::kCoarse ? 20 : 100;
}

std::vector<std::string> cifar_class_names(const Path& folder, CifarLabels labels, Faults& faults) {
  const Path file = folder / (labels == CifarLabels::kTen      ? "batches.meta.txt"
                              : labels == CifarLabels::kCoarse ? "coarse_label_names.txt"
                                                               : "fine_label_names.txt");
  std::ifstream stream(file);
  std::vector<std::string> names;
  for (std::string line; std::getline(stream, line);) {
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
  const uint64_t bytes = DataFile(path).stored_bytes();
  const auto record = static_cast<uint64_t>(record_bytes(labels));
  if (bytes % record == 0) return static_cast<int64_t>(bytes / record);
  std::vector<uint8_t> begin(512);
  DataFile file(path);
  begin.resize(file.compressed() ? 0 : file.read(begin));
  const std::string foreign =
      file.compressed() ? "; it is gzip-compressed: unpack it with `gunzip` or `tar xzf`" : guess_foreign(begin);
  faults.add(path.string() + ": " + std::to_string(bytes) + " bytes are no whole number of records of " +
             std::to_string(record) + " bytes" + (foreign.empty() ? hint(bytes, labels) : foreign));
  return 0;
}

void read_cifar(const Path& path, CifarLabels labels, ImageSet& into, Faults& faults) {
  const int64_t count = count_cifar_records(path, labels, faults);
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
                 ", expected 0 to " + std::to_string(limits[b] - 1));
    }
    into.labels.push_back(record[labels == CifarLabels::kFine ? 1 : 0]);
    const uint8_t* planes = record.data() + label_bytes(labels);
    for (int64_t p = 0; p < kPlane; ++p)
      for (int64_t c = 0; c < 3; ++c) into.pixels.push_back(planes[c * kPlane + p]);
  }
}

}  // namespace mgtrain
