#include "model/resnet_spec.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace mgtrain {
namespace {

struct Variant {
  std::string_view name;
  bool bottleneck;
  std::array<int, 4> blocks;
};

constexpr std::array kVariants{
    Variant{"resnet18", false, {2, 2, 2, 2}},  Variant{"resnet34", false, {3, 4, 6, 3}},
    Variant{"resnet50", true, {3, 4, 6, 3}},   Variant{"resnet101", true, {3, 4, 23, 3}},
    Variant{"resnet152", true, {3, 8, 36, 3}},
};
constexpr int64_t kExpansion = 4;
constexpr int64_t kLargestCifarInput = 64;

const Variant& find_variant(const std::string& name) {
  const auto found = std::ranges::find(kVariants, name, &Variant::name);
  if (found != kVariants.end()) return *found;
  std::string known;
  for (const Variant& variant : kVariants) known += (known.empty() ? "" : ", ") + std::string(variant.name);
  throw ConfigError("model.name: \"" + name + "\" is not a model; choose one of " + known);
}

Stem resolve_stem(const std::string& stem, int64_t height, int64_t width) {
  if (stem == "cifar") return Stem::kCifar;
  if (stem == "imagenet") return Stem::kImagenet;
  if (stem == "auto") return std::max(height, width) <= kLargestCifarInput ? Stem::kCifar : Stem::kImagenet;
  throw ConfigError("model.stem: \"" + stem + "\" is not a stem; choose auto, cifar or imagenet");
}

void require_positive(const char* what, int64_t value) {
  if (value < 1) throw ConfigError(std::string(what) + " is " + std::to_string(value) + ", expected at least 1");
}

int64_t windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  return (size + 2 * padding - kernel) / stride + 1;
}

/// Appends layers to a unit while following the shape [channels, height, width] of the data through it.
struct Flow {
  UnitSpec& unit;
  int64_t channels, height, width;

  void conv(std::string name, int64_t out_channels, int64_t kernel, int64_t stride) {
    const int64_t padding = kernel / 2;
    height = windows(height, kernel, stride, padding);
    width = windows(width, kernel, stride, padding);
    const int64_t parameters = out_channels * channels * kernel * kernel;
    unit.layers.push_back({LayerSpec::Kind::kConv, std::move(name), channels, out_channels, kernel, stride, padding,
                           height, width, parameters, parameters * height * width});
    channels = out_channels;
  }
  void batch_norm(std::string name) {
    unit.layers.push_back(
        {LayerSpec::Kind::kBatchNorm, std::move(name), channels, channels, 1, 1, 0, height, width, 2 * channels, 0});
  }
  void max_pool() {
    height = windows(height, 3, 2, 1);
    width = windows(width, 3, 2, 1);
  }
  void finish() {
    unit.out_channels = channels;
    unit.out_height = height;
    unit.out_width = width;
  }
};

UnitSpec make_stem(const ResNetSpec& spec) {
  UnitSpec unit{.kind = UnitSpec::Kind::kStem, .name = "stem", .in_channels = spec.in_channels, .channels = spec.width};
  Flow flow{unit, spec.in_channels, spec.height, spec.input_width};
  const bool imagenet = spec.stem == Stem::kImagenet;
  unit.stride = imagenet ? 4 : 1;
  flow.conv("conv1", spec.width, imagenet ? 7 : 3, imagenet ? 2 : 1);
  flow.batch_norm("bn1");
  if (imagenet) flow.max_pool();
  flow.finish();
  return unit;
}

UnitSpec make_block(const UnitSpec& before, std::string name, bool bottleneck, int64_t planes, int64_t stride) {
  UnitSpec unit{.kind = bottleneck ? UnitSpec::Kind::kBottleneck : UnitSpec::Kind::kBasicBlock,
                .name = std::move(name),
                .in_channels = before.out_channels,
                .channels = planes,
                .stride = stride};
  const int64_t out_channels = planes * (bottleneck ? kExpansion : 1);
  unit.downsample = stride != 1 || before.out_channels != out_channels;
  Flow main{unit, before.out_channels, before.out_height, before.out_width};
  const std::string prefix = unit.name + ".";
  main.conv(prefix + "conv1", planes, bottleneck ? 1 : 3, bottleneck ? 1 : stride);
  main.batch_norm(prefix + "bn1");
  main.conv(prefix + "conv2", planes, 3, bottleneck ? stride : 1);
  main.batch_norm(prefix + "bn2");
  if (bottleneck) {
    main.conv(prefix + "conv3", out_channels, 1, 1);
    main.batch_norm(prefix + "bn3");
  }
  if (unit.downsample) {
    Flow shortcut{unit, before.out_channels, before.out_height, before.out_width};
    shortcut.conv(prefix + "downsample.0", out_channels, 1, stride);
    shortcut.batch_norm(prefix + "downsample.1");
  }
  main.finish();
  return unit;
}

UnitSpec make_head(const UnitSpec& before, int64_t num_classes) {
  UnitSpec unit{.kind = UnitSpec::Kind::kHead,
                .name = "head",
                .in_channels = before.out_channels,
                .channels = before.out_channels,
                .out_channels = num_classes,
                .out_height = 1,
                .out_width = 1};
  const int64_t weights = before.out_channels * num_classes;
  unit.layers.push_back({LayerSpec::Kind::kLinear, "fc", before.out_channels, num_classes, 1, 1, 0, 1, 1,
                         weights + num_classes, weights});
  return unit;
}

template <typename Count>
int64_t sum_over_layers(const ResNetSpec& spec, Count count) {
  int64_t sum = 0;
  for (const UnitSpec& unit : spec.units) {
    for (const LayerSpec& layer : unit.layers) sum += count(layer);
  }
  return sum;
}

}  // namespace

ResNetSpec make_resnet_spec(const std::string& name, int64_t width, const std::string& stem, int64_t in_channels,
                            int64_t height, int64_t input_width, int64_t num_classes) {
  const Variant& variant = find_variant(name);
  require_positive("model.width", width);
  require_positive("the number of image channels", in_channels);
  require_positive("the image height", height);
  require_positive("the image width", input_width);
  require_positive("the number of classes", num_classes);

  ResNetSpec spec{.name = name,
                  .width = width,
                  .in_channels = in_channels,
                  .height = height,
                  .input_width = input_width,
                  .num_classes = num_classes,
                  .stem = resolve_stem(stem, height, input_width)};
  spec.units.push_back(make_stem(spec));
  for (int stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < variant.blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      const std::string block_name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
      spec.units.push_back(make_block(spec.units.back(), block_name, variant.bottleneck, width << stage, stride));
    }
  }
  spec.units.push_back(make_head(spec.units.back(), num_classes));
  return spec;
}

int64_t ResNetSpec::num_parameters() const {
  return sum_over_layers(*this, [](const LayerSpec& layer) { return layer.num_parameters; });
}

int64_t ResNetSpec::num_buffers_elements() const {
  return sum_over_layers(*this, [](const LayerSpec& layer) {
    return layer.kind == LayerSpec::Kind::kBatchNorm ? 2 * layer.out_channels : 0;
  });
}

int64_t ResNetSpec::macs_per_image() const {
  return sum_over_layers(*this, [](const LayerSpec& layer) { return layer.macs; });
}

int64_t ResNetSpec::activation_elements_per_image() const {
  int64_t sum = in_channels * height * input_width;
  sum += sum_over_layers(
      *this, [](const LayerSpec& layer) { return layer.out_channels * layer.out_height * layer.out_width; });
  const UnitSpec& first = units.front();
  if (stem == Stem::kImagenet) sum += first.out_channels * first.out_height * first.out_width;
  return sum;
}

}  // namespace mgtrain
