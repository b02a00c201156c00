#include "data/dataset_parts.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "data/cifar.h"
#include "data/data_file.h"
#include "data/idx.h"
#include "data/synthetic.h"

namespace mgtrain {
namespace {

using Path = std::filesystem::path;

Path folder_of(const Path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? path
         : path.parent_path().empty()               ? Path(".")
                                                    : path.parent_path();
}

/// What a folder holds, for a message: a few names.
std::string contents(const Path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) names.push_back(entry->path().filename().string());
  if (error) return "it cannot be read: " + error.message();
  if (names.empty()) return "it is empty";
  std::ranges::sort(names);
  std::string text = "it holds ";
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i > 0 ? ", " : "") + names[i];
  return text + (names.size() > kShown ? ", ..." : "");
}

/// What lies at a path that is no data set.
std::string what_lies_at(const Path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    // As torchvision keeps CIFAR: without a suffix.
    if (std::filesystem::exists(path / "data_batch_1", error) || std::filesystem::exists(path / "train", error))
      return contents(path) + "; Python's version of CIFAR is not read: the binary version is";
    return contents(path);
  }
  std::vector<uint8_t> begin(512);
  DataFile file(path);
  if (file.compressed()) return "this is another file; unpack it if it is an archive (`tar xzf`)";
  begin.resize(file.read(begin));
  return "this is another file" + guess_foreign(begin);
}

std::string recognise(const Path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw DataError(path.string() + ": no such file or folder; expected a data set (scripts/get_data.sh fetches some)");
  }
  std::vector<std::string> formats;
  const IdxParts idx = find_idx(path);
  if (idx.train || idx.val) formats.emplace_back("idx");
  const CifarParts ten = find_cifar10(path), hundred = find_cifar100(path);
  if (!ten.train.empty() || !ten.val.empty()) formats.emplace_back("cifar10");
  if (!hundred.train.empty() || !hundred.val.empty()) formats.emplace_back("cifar100");
  if (formats.size() == 1) return formats.front();
  if (formats.empty()) {
    throw DataError(
        path.string() +
        ": no data set is recognised; expected train-images-idx3-ubyte and its like (MNIST), data_batch_1.bin "
        "(CIFAR-10) or train.bin (CIFAR-100), or a folder with them; " +
        what_lies_at(path));
  }
  throw DataError(path.string() + ": both " + formats[0] + " and " + formats[1] +
                  " are there; say which is meant with --data-format");
}

/// dataset.json of a data folder: {"name": ..., "classes": [...]}.
void read_description(const Path& folder, DatasetInfo& info, Faults& faults) {
  const Path file = folder / "dataset.json";
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return;
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto is_text = [](const nlohmann::json& value) { return value.is_string(); };
  const nlohmann::json classes = json.is_object() ? json.value("classes", nlohmann::json::array()) : nlohmann::json();
  if (!json.is_object() || !classes.is_array() || !std::ranges::all_of(classes, is_text) ||
      (json.contains("name") && !json["name"].is_string())) {
    faults.add(file.string() + R"(: expected {"name": "a text", "classes": ["a text", ...]})");
    return;
  }
  info.name = json.value("name", info.name);
  info.class_names = classes.get<std::vector<std::string>>();
}

/// Names go into files that must be UTF-8.
bool is_utf8(const std::string& text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

std::vector<std::string> numbered_names(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

/// Header and labels of an IDX part; the largest label is told.
DatasetPart inspect_idx_part(const IdxFiles& files, DatasetInfo& info, int64_t& largest_label, Faults& faults) {
  DatasetPart part{.files = {files.images, files.labels}};
  const auto images = faults.attempt([&] { return read_idx_images_header(files.images, faults); });
  const auto labels = faults.attempt([&] { return read_idx_labels(files.labels, faults); });
  if (!images || !labels) return part;
  if (images->count != static_cast<int64_t>(labels->size())) {
    faults.add(files.images.string() + ": " + std::to_string(images->count) + " images, and " + files.labels.string() +
               " has " + std::to_string(labels->size()) +
               " labels; expected the same number: are the files of one set and part?");
    return part;
  }
  if (info.height != 0 && (info.height != images->height || info.width != images->width)) {
    faults.add(files.images.string() + ": images of " + std::to_string(images->height) + " x " +
               std::to_string(images->width) + ", the training images are " + std::to_string(info.height) + " x " +
               std::to_string(info.width));
    return part;
  }
  info.height = images->height;
  info.width = images->width;
  part.num_samples = images->count;
  largest_label = std::max<int64_t>(largest_label, *std::ranges::max_element(*labels));
  return part;
}

std::vector<uint8_t> labels_again(const IdxFiles& files) {
  Faults told(/*collect=*/true);
  return told.attempt([&] { return read_idx_labels(files.labels, told); }).value_or(std::vector<uint8_t>());
}

void check_labels(const IdxFiles& files, int64_t num_classes, Faults& faults) {
  const std::vector<uint8_t> labels = labels_again(files);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < num_classes) continue;
    faults.add(files.labels.string() + ": record " + std::to_string(i) + " has the label " + std::to_string(labels[i]) +
               ", expected 0 to " + std::to_string(num_classes - 1));
  }
}

/// Where nothing names the classes, a damaged label would add some. In a set of any size every class occurs, but for
/// class 0 where labels count from 1.
void check_no_class_is_skipped(const IdxFiles& files, int64_t num_classes, Faults& faults) {
  constexpr int64_t kEnoughPerClass = 20;
  const std::vector<uint8_t> labels = labels_again(files);
  std::vector<int64_t> counts(static_cast<size_t>(num_classes), 0);
  for (const uint8_t label : labels) ++counts[label];
  const auto occurring = std::ranges::count_if(counts, [](int64_t count) { return count > 0; });
  if (static_cast<int64_t>(labels.size()) < kEnoughPerClass * occurring) return;
  const auto skipped = std::find(counts.begin() + 1, counts.end(), 0);
  if (skipped == counts.end()) return;
  const auto next = std::find_if(skipped, counts.end(), [](int64_t count) { return count > 0; });
  const auto label = static_cast<uint8_t>(next - counts.begin());
  const auto record = std::ranges::find(labels, label) - labels.begin();
  faults.add(files.labels.string() + ": record " + std::to_string(record) + " has the label " + std::to_string(label) +
             ", and no record has the label " + std::to_string(skipped - counts.begin()) +
             "; a damaged file? If it is meant, name the classes in a dataset.json beside it: "
             R"({"classes": ["a text", ...]})");
}

void inspect_idx(const Path& path, DatasetInfo& info, Faults& faults) {
  const IdxParts parts = find_idx(path);
  if (!parts.train && !parts.val) {
    throw DataError(path.string() + ": no IDX files (train-images-idx3-ubyte and its like) as --data-format says; " +
                    what_lies_at(path));
  }
  info.channels = 1;
  read_description(folder_of(path), info, faults);
  int64_t largest_label = -1;
  if (parts.train) info.train = inspect_idx_part(*parts.train, info, largest_label, faults);
  int64_t largest_in_val = -1;
  if (parts.val) info.val = inspect_idx_part(*parts.val, info, largest_in_val, faults);
  // Without names the training labels say which classes there are.
  if (!parts.train) largest_label = largest_in_val;
  info.num_classes = info.class_names.empty() ? largest_label + 1 : static_cast<int64_t>(info.class_names.size());
  if (info.class_names.empty()) {
    info.class_names = numbered_names(info.num_classes);
    if (info.num_classes > 0 && parts.train) check_no_class_is_skipped(*parts.train, info.num_classes, faults);
  }
  if (info.num_classes == 0) return;  // no labels, as told
  if (parts.train) check_labels(*parts.train, info.num_classes, faults);
  if (parts.val) check_labels(*parts.val, info.num_classes, faults);
}

CifarLabels cifar_labels(const std::string& format, const DataConfig& config) {
  if (format == "cifar10") return CifarLabels::kTen;
  return config.labels == "coarse" ? CifarLabels::kCoarse : CifarLabels::kFine;
}

DatasetPart inspect_cifar_part(std::vector<Path> files, CifarLabels labels, Faults& faults) {
  DatasetPart part;
  for (const Path& file : files)
    part.num_samples += faults.attempt([&] { return count_cifar_records(file, labels, faults); });
  part.files = std::move(files);
  return part;
}

void inspect_cifar(const Path& path, const DataConfig& config, DatasetInfo& info, Faults& faults) {
  const CifarLabels labels = cifar_labels(info.format, config);
  const CifarParts parts = info.format == "cifar10" ? find_cifar10(path) : find_cifar100(path);
  if (parts.train.empty() && parts.val.empty()) {
    throw DataError(path.string() + ": no " +
                    (info.format == "cifar10" ? "CIFAR-10 files (data_batch_1.bin, test_batch.bin)"
                                              : "CIFAR-100 files (train.bin, test.bin)") +
                    " as --data-format says; " + what_lies_at(path));
  }
  info.channels = 3;
  info.height = info.width = 32;
  info.num_classes = cifar_classes(labels);
  info.name = info.format == "cifar10" ? "CIFAR-10" : labels == CifarLabels::kFine ? "CIFAR-100" : "CIFAR-100 (coarse)";
  info.class_names = cifar_class_names(folder_of(path), labels, faults);
  if (!std::ranges::all_of(info.class_names, is_utf8)) {
    faults.add(folder_of(path).string() + ": a name of a class is not UTF-8 text");
    info.class_names.clear();
  }
  if (info.class_names.empty()) info.class_names = numbered_names(info.num_classes);
  if (!parts.train.empty()) info.train = inspect_cifar_part(parts.train, labels, faults);
  if (labels == CifarLabels::kTen) check_cifar10_is_whole(parts.train, info.train.num_samples, faults);
  if (!parts.val.empty()) info.val = inspect_cifar_part(parts.val, labels, faults);
}

void inspect_synthetic(const std::string& text, DatasetInfo& info) {
  const SyntheticShape shape = parse_synthetic(text);
  info.channels = shape.image.channels;
  info.height = shape.image.height;
  info.width = shape.image.width;
  info.num_classes = shape.num_classes;
  info.class_names = numbered_names(shape.num_classes);
  info.name = "synthetic images";
  info.train.num_samples = shape.num_train;
  if (shape.num_val > 0) info.val = DatasetPart{.num_samples = shape.num_val};
}

ImageSet load_idx(const DatasetInfo& info, const DatasetPart& part, Faults& faults) {
  ImageSet set;
  const IdxImagesHeader expected{.count = part.num_samples, .height = info.height, .width = info.width};
  auto pixels = faults.attempt([&] { return read_idx_pixels(part.files.at(0), expected, faults); });
  const auto labels = faults.attempt([&] { return read_idx_labels(part.files.at(1), faults); });
  if (!pixels || !labels) return set;
  set.pixels = std::move(*pixels);
  set.labels.assign(labels->begin(), labels->end());
  return set;
}

}  // namespace

DatasetInfo inspect_parts(const DataConfig& config, const Path& path, Faults& faults) {
  DatasetInfo info;
  info.path = path;
  const bool synthetic = path.string().starts_with("synthetic:");
  if (synthetic && config.format != "auto" && config.format != "synthetic")
    throw ConfigError("--data " + path.string() + " has no files; --data-format " + config.format + " contradicts it");
  if (!synthetic && config.format == "synthetic")
    throw ConfigError("--data-format synthetic: --data " + path.string() + " is not synthetic:SHAPE");
  info.format = synthetic ? "synthetic" : config.format == "auto" ? recognise(path) : config.format;
  std::error_code error;
  if (!synthetic && !std::filesystem::exists(path, error)) recognise(path);  // says that it is not there
  const Path normal = std::filesystem::absolute(folder_of(path)).lexically_normal();
  info.name = (normal.has_filename() ? normal : normal.parent_path()).filename().string();
  if (info.format == "idx") inspect_idx(path, info, faults);
  if (info.format == "cifar10" || info.format == "cifar100") inspect_cifar(path, config, info, faults);
  if (info.format == "synthetic") inspect_synthetic(path.string(), info);
  info.input_height = config.resize > 0 ? config.resize : info.height;
  info.input_width = config.resize > 0 ? config.resize : info.width;
  return info;
}

ImageSet load_part(const DataConfig& config, const DatasetInfo& info, const DatasetPart& part, Faults& faults) {
  ImageSet set;
  if (info.format == "idx") {
    set = load_idx(info, part, faults);
  } else {
    for (const Path& file : part.files)
      faults.attempt([&] { read_cifar(file, cifar_labels(info.format, config), set, faults); });
  }
  set.shape = {.channels = info.channels, .height = info.height, .width = info.width};
  set.num_classes = info.num_classes;
  return set;
}

}  // namespace mgtrain
