#include "model/resnet.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include <map>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "comm/sync_batch_norm.h"

namespace mgtrain {
namespace {

// torch::nn::Conv2d and torch::nn::Linear draw initial weights as they are made, which every replica would throw away;
// these leave them to initialize_weights(), and compute the same.
class Convolution final : public torch::nn::Module {
 public:
  explicit Convolution(const LayerSpec& layer) : stride_(layer.stride), padding_(layer.padding) {
    weight_ =
        register_parameter("weight", at::empty({layer.out_channels, layer.in_channels, layer.kernel, layer.kernel}));
  }
  at::Tensor forward(const at::Tensor& x_NCHW) const {
    return at::conv2d(x_NCHW, weight_, /*bias=*/{}, {stride_, stride_}, {padding_, padding_});
  }

 private:
  at::Tensor weight_;
  int64_t stride_, padding_;
};

class Linear final : public torch::nn::Module {
 public:
  explicit Linear(const LayerSpec& layer) {
    weight_ = register_parameter("weight", at::empty({layer.out_channels, layer.in_channels}));
    bias_ = register_parameter("bias", at::empty({layer.out_channels}));
  }
  at::Tensor forward(const at::Tensor& x_NC) const { return at::linear(x_NC, weight_, bias_); }

 private:
  at::Tensor weight_, bias_;
};

using BatchNorm = torch::nn::BatchNorm2dImpl;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

std::shared_ptr<torch::nn::Module> make_layer(const LayerSpec& layer) {
  switch (layer.kind) {
    case LayerSpec::Kind::kConv:
      return std::make_shared<Convolution>(layer);
    case LayerSpec::Kind::kBatchNorm:
      return std::make_shared<BatchNorm>(layer.out_channels);
    case LayerSpec::Kind::kLinear:
      return std::make_shared<Linear>(layer);
  }
  throw std::logic_error("unknown kind of layer");
}

/// A module without a forward of its own: "layer1", "layer1.0", "layer1.0.downsample".
class Branch final : public torch::nn::Module {};

/// Registers `layer` under its dotted name, making the branches on the way in the order they are met.
void register_under(torch::nn::Module& root, const std::string& name, const std::shared_ptr<torch::nn::Module>& layer) {
  torch::nn::Module* parent = &root;
  size_t begin = 0;
  for (size_t dot; (dot = name.find('.', begin)) != std::string::npos; begin = dot + 1) {
    const std::string part = name.substr(begin, dot - begin);
    const auto children = parent->named_children();
    const std::shared_ptr<torch::nn::Module>* child = children.find(part);
    parent = child != nullptr ? child->get() : parent->register_module(part, std::make_shared<Branch>()).get();
  }
  parent->register_module(name.substr(begin), layer);
}

}  // namespace

/// The layers of a unit in the order of its description.
class ResNet::Unit {
 public:
  Unit(const UnitSpec& spec, const ResNetSpec& net, torch::nn::Module& root)
      : kind_(spec.kind), downsample_(spec.downsample), max_pool_(net.stem == Stem::kImagenet) {
    for (const LayerSpec& layer : spec.layers) {
      const std::shared_ptr<torch::nn::Module> module = make_layer(layer);
      register_under(root, layer.name, module);
      if (auto convolution = std::dynamic_pointer_cast<Convolution>(module)) convolutions_.push_back(convolution);
      if (auto norm = std::dynamic_pointer_cast<BatchNorm>(module)) norms_.push_back(norm);
      if (auto linear = std::dynamic_pointer_cast<Linear>(module)) linear_ = linear;
    }
  }

  [[nodiscard]] at::Tensor forward(const at::Tensor& x, const Group& norm_group) const {
    switch (kind_) {
      case UnitSpec::Kind::kStem: {
        const at::Tensor features = conv_norm(x, 0, norm_group).relu_();
        return max_pool_ ? at::max_pool2d(features, 3, 2, 1) : features;
      }
      case UnitSpec::Kind::kHead:
        return linear_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
      case UnitSpec::Kind::kBasicBlock:
      case UnitSpec::Kind::kBottleneck:
        return residual(x, norm_group);
    }
    throw std::logic_error("unknown kind of unit");
  }

 private:
  [[nodiscard]] at::Tensor conv_norm(const at::Tensor& x, size_t layer, const Group& norm_group) const {
    const at::Tensor features = convolutions_[layer]->forward(x);
    BatchNorm& norm = *norms_[layer];
    return norm_group && norm.is_training() ? sync_batch_norm(norm, features, norm_group) : norm.forward(features);
  }

  // In place where nothing that backward needs is overwritten.
  [[nodiscard]] at::Tensor residual(const at::Tensor& x, const Group& norm_group) const {
    const size_t main_layers = convolutions_.size() - (downsample_ ? 1 : 0);
    at::Tensor y = x;
    for (size_t layer = 0; layer < main_layers; ++layer) {
      y = conv_norm(y, layer, norm_group);
      if (layer + 1 < main_layers) y.relu_();
    }
    y += downsample_ ? conv_norm(x, main_layers, norm_group) : x;
    return y.relu_();
  }

  UnitSpec::Kind kind_;
  bool downsample_, max_pool_;
  std::vector<std::shared_ptr<Convolution>> convolutions_;
  std::vector<std::shared_ptr<BatchNorm>> norms_;  // one after each convolution
  std::shared_ptr<Linear> linear_;
};

void Classifier::set_norm_group(const Group& group) {
  if (group) throw std::logic_error("this classifier's norms cannot be over the samples of several ranks");
}

ResNet::ResNet(const ResNetSpec& spec) : spec_(spec) {
  for (const UnitSpec& unit : spec_.units) units_.push_back(std::make_unique<Unit>(unit, spec_, *this));
}

ResNet::~ResNet() = default;

at::Tensor ResNet::forward(at::Tensor images_NCHW) { return forward_units(std::move(images_NCHW), 0, units_.size()); }

void ResNet::set_norm_group(const Group& group) { norm_group_ = group; }

at::Tensor ResNet::forward_units(at::Tensor x, size_t first, size_t last) {
  if (first > last || last > units_.size()) throw std::logic_error("no such units");
  for (size_t unit = first; unit < last; ++unit) x = units_[unit]->forward(x, norm_group_);
  return x;
}

}  // namespace mgtrain
