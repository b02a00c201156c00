// CIFAR's binary files. The first byte says which labels, and whether the rest are records or the names of classes;
// records are read as they are, and repeated to a whole number of them.
#include <fstream>

#include "data/cifar.h"
#include "fuzz/bytes_as_file.h"
#include "fuzz/fuzz.h"
#include "support/temporary_folder.h"

using namespace mgtrain;

namespace {

constexpr size_t kRecord = 3 * 32 * 32;

void read_records(const uint8_t* data, size_t size, CifarLabels labels) {
  const fuzz::BytesAsFile file(data, size);
  Faults faults(/*collect=*/true);
  ImageSet images;
  faults.attempt([&] {
    const int64_t count = count_cifar_records(file.path(), labels, faults);
    read_cifar(file.path(), labels, images, faults);
    fuzz::demand(images.count() == count, "a label a record");
    return true;
  });
  fuzz::demand(images.pixels.size() == kRecord * images.labels.size(), "the pixels of each record");
  fuzz::touch(images.pixels);
  for (const int32_t label : images.labels) {
    fuzz::demand(label >= 0 && (label < cifar_classes(labels) || faults.count() > 0), "labels in range, or a fault");
  }
  for (const std::string& fault : faults.list()) fuzz::touch(std::string_view(fault));
}

void read_names(const std::string& text, CifarLabels labels) {
  static const test::TemporaryFolder folder;
  for (const char* name : {"batches.meta.txt", "coarse_label_names.txt", "fine_label_names.txt"}) {
    std::ofstream(folder.path() / name, std::ios::binary) << text;
  }
  Faults faults(/*collect=*/true);
  const auto names = faults.attempt([&] { return cifar_class_names(folder.path(), labels, faults); });
  fuzz::demand(names.empty() || names.size() == static_cast<size_t>(cifar_classes(labels)), "all names or none");
  fuzz::touch(names);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto labels = static_cast<CifarLabels>(data[0] % 3);
  if (data[0] >= 128) {
    read_names(fuzz::text_of(data + 1, size - 1), labels);
    return 0;
  }
  read_records(data + 1, size - 1, labels);
  std::vector<uint8_t> records;
  const size_t record = kRecord + (labels == CifarLabels::kTen ? 1 : 2);
  while (records.size() < 2 * record) records.insert(records.end(), data + 1, data + size);
  records.resize(2 * record);
  read_records(records.data(), records.size(), labels);
  return 0;
}
