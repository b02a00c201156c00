#include "app/assemble.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "devices/torch_device.h"

namespace mgtrain {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> numbers(std::string_view text) {
  std::vector<double> values;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    double value = 0;
    std::from_chars(item.data(), item.data() + item.size(), value);
    values.push_back(value);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return values;
}

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

}  // namespace

InputFormat input_format(const DataConfig& config, const DatasetInfo& dataset, const ChannelStats& stats) {
  InputFormat input{.channels = dataset.channels, .height = dataset.input_height, .width = dataset.input_width};
  if (config.normalize == "none") return input;
  if (config.normalize == "dataset") {
    input.normalization = stats;
    // A channel of one value has no deviation; its difference from the mean is 0 whatever the divisor.
    for (double& deviation : input.normalization.stddev) deviation = deviation > 0 ? deviation : 1;
    return input;
  }
  const size_t half = config.normalize.find(';');
  input.normalization = {.mean = numbers(std::string_view(config.normalize).substr(0, half)),
                         .stddev = numbers(std::string_view(config.normalize).substr(half + 1))};
  if (static_cast<int64_t>(input.normalization.mean.size()) != dataset.channels) {
    throw ConfigError("data.normalize: " + config.normalize + " gives " +
                      std::to_string(input.normalization.mean.size()) + " channels, and images of " + dataset.name +
                      " have " + std::to_string(dataset.channels) + "; expected one mean and one deviation a channel");
  }
  return input;
}

Transform make_transform(const InputFormat& input, ImageShape stored, const DataConfig& config, MemoryFormat format,
                         uint64_t seed) {
  return {.input = stored,
          .output_height = input.height,
          .output_width = input.width,
          .crop_padding = config.crop_padding,
          .flip = config.flip,
          .mean = floats(input.normalization.mean),
          .stddev = floats(input.normalization.stddev),
          .format = format,
          .seed = seed};
}

std::unique_ptr<Strategy> make_strategy(const std::shared_ptr<ResNet>& model, const std::vector<Device>& devices,
                                        bool channels_last, double label_smoothing) {
  StrategyOptions options{.label_smoothing = label_smoothing, .channels_last = channels_last};
  for (const Device& device : devices) {
    options.devices.push_back(to_torch(device));
    options.device_labels.push_back(device.label());
  }
  options.threads = devices.front().threads;
  return devices.size() == 1 ? make_single_device(model, options) : make_data_parallel(model, options);
}

std::string model_json(const ResNetSpec& spec, const std::string& dtype) {
  Json json;
  json["name"] = spec.name;
  json["width"] = spec.width;
  json["stem"] = spec.stem == Stem::kCifar ? "cifar" : "imagenet";
  json["in_channels"] = spec.in_channels;
  json["height"] = spec.height;
  json["input_width"] = spec.input_width;
  json["classes"] = spec.num_classes;
  json["dtype"] = dtype;
  return json.dump();
}

std::string dataset_json(const DatasetInfo& dataset, const InputFormat& input) {
  Json json;
  json["name"] = dataset.name;
  json["format"] = dataset.format;
  json["channels"] = input.channels;
  json["height"] = input.height;
  json["width"] = input.width;
  json["mean"] = input.normalization.mean;
  json["stddev"] = input.normalization.stddev;
  return json.dump();
}

ModelDescription read_model_json(const std::string& text, const std::string& source) {
  try {
    const Json json = Json::parse(text);
    return {.spec = make_resnet_spec(json.at("name"), json.at("width"), json.at("stem"), json.at("in_channels"),
                                     json.at("height"), json.at("input_width"), json.at("classes")),
            .float64 = json.at("dtype") == "float64"};
  } catch (const Json::exception& error) {
    throw CheckpointError(source + ": its description of the model cannot be read: " + error.what());
  }
}

InputFormat read_dataset_json(const std::string& text, const std::string& source) {
  try {
    const Json json = Json::parse(text);
    InputFormat input{.channels = json.at("channels"), .height = json.at("height"), .width = json.at("width")};
    input.normalization.mean = json.at("mean").get<std::vector<double>>();
    input.normalization.stddev = json.at("stddev").get<std::vector<double>>();
    const size_t channels = input.normalization.mean.size();
    if (channels != input.normalization.stddev.size() ||
        (channels != 0 && static_cast<int64_t>(channels) != input.channels))
      throw CheckpointError(source + ": its normalisation is not one mean and deviation a channel");
    return input;
  } catch (const Json::exception& error) {
    throw CheckpointError(source + ": its description of the data cannot be read: " + error.what());
  }
}

}  // namespace mgtrain
