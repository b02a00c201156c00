// ResNets as a description: units, layers, shapes, parameters, multiply-adds. Modules, plan and balance derive
// from it. He et al., "Deep Residual Learning", 2015, table 1; names, shapes and layer order are torchvision's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mgtrain {

enum class Stem { kCifar, kImagenet };

struct LayerSpec {
  enum class Kind { kConv, kBatchNorm, kLinear };
  Kind kind;
  std::string name;  // "layer1.0.conv1"
  int64_t in_channels = 0, out_channels = 0, kernel = 1, stride = 1, padding = 0;
  int64_t out_height = 0, out_width = 0;
  int64_t num_parameters = 0;
  int64_t macs = 0;  // multiply-adds of one image, forward
};

/// A unit is what a pipeline may cut between: the stem, each residual block, the head.
struct UnitSpec {
  enum class Kind { kStem, kBasicBlock, kBottleneck, kHead };
  Kind kind;
  std::string name;                                                     // "stem", "layer1.0", "head"
  int64_t in_channels = 0, channels = 0, out_channels = 0, stride = 1;  // channels: the block's inner planes
  bool downsample = false;
  std::vector<LayerSpec> layers;
  int64_t out_height = 0, out_width = 0;
};

struct ResNetSpec {
  std::string name;  // "resnet18"
  int64_t width = 64, in_channels = 3, height = 0, input_width = 0, num_classes = 0;
  Stem stem = Stem::kCifar;
  std::vector<UnitSpec> units;

  [[nodiscard]] int64_t num_parameters() const;
  [[nodiscard]] int64_t num_buffers_elements() const;  // running means and variances
  [[nodiscard]] int64_t macs_per_image() const;
  /// Elements kept for backward per image: the image, every layer's output (ReLU and the shortcut's sum work in place)
  /// and the pooled stem.
  [[nodiscard]] int64_t activation_elements_per_image() const;
};

/// `stem` "auto": cifar up to 64 pixels, else imagenet. Throws ConfigError for an unknown name or an input too small.
ResNetSpec make_resnet_spec(const std::string& name, int64_t width, const std::string& stem, int64_t in_channels,
                            int64_t height, int64_t input_width, int64_t num_classes);

}  // namespace mgtrain
