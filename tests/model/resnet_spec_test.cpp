#include "model/resnet_spec.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/catch.h"

using namespace mgtrain;

namespace {

std::vector<std::string> layer_names(const UnitSpec& unit) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : unit.layers) names.push_back(layer.name);
  return names;
}

const LayerSpec& layer(const ResNetSpec& spec, const std::string& name) {
  for (const UnitSpec& unit : spec.units) {
    for (const LayerSpec& candidate : unit.layers) {
      if (candidate.name == name) return candidate;
    }
  }
  throw std::logic_error("no layer " + name);
}

}  // namespace

TEST_CASE("ImageNet ResNets have torchvision's numbers of parameters and multiply-adds", "[model]") {
  struct Known {
    const char* name;
    int64_t parameters, macs, units;
  };
  // torchvision's documented num_params; MACs by hooks over torchvision's convolutions and fc at 224 x 224.
  const Known known =
      GENERATE(Known{"resnet18", 11'689'512, 1'814'073'344, 10}, Known{"resnet34", 21'797'672, 3'663'761'408, 18},
               Known{"resnet50", 25'557'032, 4'089'184'256, 18}, Known{"resnet101", 44'549'160, 7'801'405'440, 35},
               Known{"resnet152", 60'192'808, 11'513'626'624, 52});
  const ResNetSpec spec = make_resnet_spec(known.name, 64, "auto", 3, 224, 224, 1000);
  CHECK(spec.stem == Stem::kImagenet);
  CHECK(spec.num_parameters() == known.parameters);
  CHECK(spec.macs_per_image() == known.macs);
  CHECK(static_cast<int64_t>(spec.units.size()) == known.units);
}

TEST_CASE("the CIFAR ResNet18 has 11,173,962 parameters and 555.4 million multiply-adds", "[model]") {
  const ResNetSpec spec = make_resnet_spec("resnet18", 64, "auto", 3, 32, 32, 10);
  CHECK(spec.stem == Stem::kCifar);
  CHECK(spec.num_parameters() == 11'173'962);
  CHECK(spec.macs_per_image() == 555'422'720);
  CHECK(spec.num_buffers_elements() == 9600);  // torchvision's 20 BatchNorms hold 4,800 channels
}

TEST_CASE("a basic block's layers carry torchvision's names, in its order", "[model]") {
  const ResNetSpec spec = make_resnet_spec("resnet18", 8, "cifar", 1, 28, 28, 10);
  CHECK(layer_names(spec.units.front()) == std::vector<std::string>{"conv1", "bn1"});
  CHECK(spec.units[1].name == "layer1.0");
  CHECK_FALSE(spec.units[1].downsample);
  CHECK(layer_names(spec.units[3]) == std::vector<std::string>{"layer2.0.conv1", "layer2.0.bn1", "layer2.0.conv2",
                                                               "layer2.0.bn2", "layer2.0.downsample.0",
                                                               "layer2.0.downsample.1"});
  CHECK(layer_names(spec.units.back()) == std::vector<std::string>{"fc"});
  CHECK(spec.units.back().out_channels == 10);
}

TEST_CASE("a bottleneck strides in conv2, expands by 4 and downsamples in layer1.0", "[model]") {
  const ResNetSpec spec = make_resnet_spec("resnet50", 64, "imagenet", 3, 224, 224, 1000);
  CHECK(spec.units[1].downsample);
  CHECK(layer(spec, "layer2.0.conv1").stride == 1);
  CHECK(layer(spec, "layer2.0.conv2").stride == 2);
  CHECK(layer(spec, "layer2.0.conv3").out_channels == 512);
  CHECK(layer(spec, "layer2.0.downsample.0").kernel == 1);
  CHECK(layer(spec, "layer2.0.downsample.0").stride == 2);
  CHECK(layer(spec, "layer2.0.downsample.0").padding == 0);
  CHECK(layer(spec, "layer4.2.conv3").out_height == 7);
  CHECK(layer(spec, "fc").in_channels == 2048);
}

TEST_CASE("shapes follow the stem, the stages and odd sizes", "[model]") {
  const ResNetSpec cifar = make_resnet_spec("resnet18", 64, "cifar", 1, 28, 28, 10);
  CHECK(cifar.units.front().out_height == 28);
  CHECK(layer(cifar, "layer4.1.conv2").out_height == 4);
  const ResNetSpec imagenet = make_resnet_spec("resnet18", 64, "imagenet", 3, 33, 65, 10);
  CHECK(layer(imagenet, "conv1").out_height == 17);
  CHECK(layer(imagenet, "conv1").out_width == 33);
  CHECK(imagenet.units.front().out_height == 9);
  CHECK(imagenet.units.front().out_width == 17);
  CHECK(layer(imagenet, "layer4.1.conv2").out_height == 2);
  CHECK(layer(imagenet, "layer4.1.conv2").out_width == 3);
}

TEST_CASE("stem auto is cifar up to 64 pixels", "[model]") {
  CHECK(make_resnet_spec("resnet18", 8, "auto", 3, 64, 64, 10).stem == Stem::kCifar);
  CHECK(make_resnet_spec("resnet18", 8, "auto", 3, 64, 65, 10).stem == Stem::kImagenet);
}

TEST_CASE("kept activations are what PyTorch's autograd saves, plus at most the shortcuts' outputs", "[model]") {
  struct Known {
    const char* name;
    const char* stem;
    int64_t size, elements;
  };
  // Storage behind autograd's saved tensors of torchvision's models (10 classes), counted by saved_tensors_hooks.
  const Known known =
      GENERATE(Known{"resnet18", "cifar", 32, 1'177'440}, Known{"resnet18", "imagenet", 224, 5'549'760},
               Known{"resnet50", "cifar", 32, 6'391'776}, Known{"resnet50", "imagenet", 224, 21'503'936});
  INFO(known.name << " " << known.stem);
  const ResNetSpec spec = make_resnet_spec(known.name, 64, known.stem, 3, known.size, known.size, 10);
  const int64_t elements = spec.activation_elements_per_image();
  CHECK(elements >= known.elements * 0.95);
  CHECK(elements <= known.elements * 1.10);
}

TEST_CASE("an unknown model, stem or size is refused by name", "[model]") {
  CHECK_THROWS_WITH(make_resnet_spec("resnet19", 64, "auto", 3, 32, 32, 10), Catch::Contains("resnet19"));
  CHECK_THROWS_WITH(make_resnet_spec("resnet18", 64, "tiny", 3, 32, 32, 10), Catch::Contains("tiny"));
  CHECK_THROWS_AS(make_resnet_spec("resnet18", 0, "auto", 3, 32, 32, 10), ConfigError);
  CHECK_THROWS_AS(make_resnet_spec("resnet18", 64, "auto", 3, 0, 32, 10), ConfigError);
}
