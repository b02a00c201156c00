// `mgtrain predict RUN ITEM...`: the classes of pictures: PNG files, folders of them, FILE.idx:INDEX, or a list of
// these on stdin.
#include <torch/types.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/restored_model.h"
#include "base/error.h"
#include "data/decode_png.h"
#include "data/idx.h"
#include "observe/evaluation.h"
#include "observe/number_text.h"

namespace mgtrain {
namespace {

using Path = std::filesystem::path;

bool is_png(const Path& file) {
  std::string extension = file.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
  return extension == ".png";
}

/// A picture to classify: a PNG file, or one image of an IDX file.
struct Item {
  std::string name;  // as the user wrote it
  Path file;
  std::optional<int64_t> index;  // in an IDX file
};

/// Whether the name ends in :NUMBER; a file that is really named so counts as a file.
std::optional<Item> indexed_item(const std::string& name, FileSystem& files) {
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos || files.is_file(name)) return std::nullopt;
  int64_t index = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + colon + 1, end, index);
  if (error != std::errc() || rest != end || index < 0) return std::nullopt;
  return Item{.name = name, .file = name.substr(0, colon), .index = index};
}

void add_items(const std::string& name, FileSystem& files, std::vector<Item>& items) {
  if (const std::optional<Item> indexed = indexed_item(name, files)) {
    items.push_back(*indexed);
  } else if (files.is_directory(name)) {
    const size_t before = items.size();
    for (const std::string& entry : files.list(name))
      if (is_png(entry)) items.push_back({.name = (Path(name) / entry).string(), .file = Path(name) / entry});
    if (items.size() == before) throw DataError(name + ": no picture in this folder; expected files that end in .png");
  } else {
    items.push_back({.name = name, .file = name});
  }
}

std::vector<Item> items_of(const CommandLine& line, AppContext& context) {
  std::vector<Item> items;
  const std::vector<std::string> names(line.items.begin() + 1, line.items.end());
  if (names.empty())
    throw ConfigError("predict " + line.items.front() +
                      ": nothing to classify; name pictures, folders, FILE.idx:INDEX, or - for a list on stdin");
  for (const std::string& name : names) {
    if (name != "-") {
      add_items(name, context.files, items);
      continue;
    }
    for (std::string listed; std::getline(std::cin, listed);)
      if (!listed.empty()) add_items(listed, context.files, items);
  }
  return items;
}

Picture read_picture(const Item& item, int64_t channels, FileSystem& files) {
  if (!files.is_file(item.file)) throw DataError(item.file.string() + ": no such file; expected a PNG or an IDX file");
  if (item.index) return read_idx_image(item.file, *item.index, channels);
  const std::vector<std::byte> bytes = files.read(item.file, 0, files.size(item.file));
  return decode_png(bytes, item.file.string(), channels);
}

/// The pictures as the model takes them.
Batch batch_of(std::span<const Item> items, const RestoredModel& restored, bool channels_last, FileSystem& files) {
  const InputFormat& input = restored.input;
  const auto count = static_cast<int64_t>(items.size());
  at::Tensor images =
      at::empty({count, input.channels, input.height, input.width},
                at::TensorOptions(at::kFloat)
                    .memory_format(channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous));
  auto* out = images.mutable_data_ptr<float>();
  Batch batch;
  for (const Item& item : items) {
    const Picture picture = read_picture(item, input.channels, files);
    const Transform transform = make_transform(input, picture.shape, DataConfig(),
                                               channels_last ? MemoryFormat::kNhwc : MemoryFormat::kNchw, /*seed=*/0);
    transform_image(transform, picture.pixels, /*epoch=*/0, /*sample=*/0, /*augment=*/false, out);
    out += input.channels * input.height * input.width;
    batch.samples.push_back(static_cast<int64_t>(batch.samples.size()));
  }
  batch.images = restored.float64 ? images.to(at::kDouble) : images;
  batch.labels = at::zeros({count}, at::kLong);
  return batch;
}

void print(const Item& item, const RestoredModel& restored, const float* probabilities, const int64_t* classes,
           int64_t count, bool json, std::ostream& out) {
  if (json) {
    nlohmann::ordered_json line = {{"item", item.name}, {"predictions", nlohmann::ordered_json::array()}};
    for (int64_t k = 0; k < count; ++k) {
      line["predictions"].push_back({{"class", classes[k]},
                                     {"name", class_name(restored.record.class_names, static_cast<size_t>(classes[k]))},
                                     {"probability", probabilities[k]}});
    }
    out << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
    return;
  }
  out << item.name << ':';
  for (int64_t k = 0; k < count; ++k) {
    out << (k > 0 ? ", " : " ") << class_name(restored.record.class_names, static_cast<size_t>(classes[k])) << ' '
        << fixed_text(static_cast<double>(probabilities[k]), 4);
  }
  out << '\n';
}

}  // namespace

ExitCode run_predict(const CommandLine& line, AppContext& context) {
  const std::vector<Item> items = items_of(line, context);
  const RestoredModel restored = restore_model(line, context);
  RunConfig base;
  base.train.batch = restored.saved.train.batch;
  base.train.memory_format = restored.saved.train.memory_format;
  const CheckedConfig checked = config_over(base, line, context);
  const Inference inference = infer_on(restored, checked.values(), context);

  const int64_t shown = std::min<int64_t>(line.topk, restored.spec.num_classes);
  const auto batch_size = static_cast<size_t>(checked.values().train.batch);
  for (size_t begin = 0; begin < items.size(); begin += batch_size) {
    const auto part = std::span(items).subspan(begin, std::min(batch_size, items.size() - begin));
    const EvalSums sums =
        inference.strategy->evaluate(batch_of(part, restored, inference.channels_last, context.files));
    const at::NoGradGuard no_gradients;
    const at::Tensor probabilities = sums.logits_NK.to(at::kCPU, at::kDouble).softmax(1).to(at::kFloat);
    const auto [values, classes] = probabilities.topk(shown, 1);
    const at::Tensor values_NK = values.contiguous(), classes_NK = classes.contiguous();
    for (size_t i = 0; i < part.size(); ++i) {
      const auto row = static_cast<int64_t>(i) * shown;
      print(part[i], restored, values_NK.const_data_ptr<float>() + row, classes_NK.const_data_ptr<int64_t>() + row,
            shown, line.json, context.out);
    }
  }
  return ExitCode::kDone;
}

}  // namespace mgtrain
