#include "model/make_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/init.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "config/nearest_name.h"

namespace mgtrain {
namespace {

/// Whether `name` is `prefix`, or lies below it: "layer1" holds "layer1.0.conv1.weight" but not "layer10.x".
bool starts_with_component(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '.');
}

}  // namespace

// The order of draws is that of the layers; each tensor is drawn in its logical order whatever its strides.
void initialize_weights(ResNet& model, uint64_t seed, bool zero_init_residual) {
  const torch::NoGradGuard no_gradients;
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  auto parameters = model.named_parameters();
  const auto parameter = [&](const std::string& name) { return parameters[name]; };
  for (const UnitSpec& unit : model.spec().units) {
    const bool block = unit.kind == UnitSpec::Kind::kBasicBlock || unit.kind == UnitSpec::Kind::kBottleneck;
    const std::string last_norm = unit.name + (unit.kind == UnitSpec::Kind::kBottleneck ? ".bn3" : ".bn2");
    for (const LayerSpec& layer : unit.layers) {
      at::Tensor weight = parameter(layer.name + ".weight");
      switch (layer.kind) {
        case LayerSpec::Kind::kConv: {
          // Kaiming normal over the fan out, for ReLU.
          const double fan_out = static_cast<double>(layer.out_channels * layer.kernel * layer.kernel);
          weight.copy_(at::normal(0, std::sqrt(2 / fan_out), weight.sizes(), generator, at::TensorOptions(at::kFloat)));
          break;
        }
        case LayerSpec::Kind::kBatchNorm:
          weight.fill_(zero_init_residual && block && layer.name == last_norm ? 0 : 1);
          parameter(layer.name + ".bias").zero_();
          break;
        case LayerSpec::Kind::kLinear: {
          // As torch.nn.Linear: uniform within 1 / sqrt(inputs), weight and bias alike.
          const double bound = 1 / std::sqrt(static_cast<double>(layer.in_channels));
          for (at::Tensor tensor : {weight, parameter(layer.name + ".bias")}) {
            at::Tensor drawn = at::empty(tensor.sizes(), at::kFloat);
            tensor.copy_(drawn.uniform_(-bound, bound, generator));
          }
          break;
        }
      }
    }
  }
}

void convert_floating(torch::nn::Module& model, c10::ScalarType dtype) {
  const torch::NoGradGuard no_gradients;
  std::vector<at::Tensor> tensors = model.parameters();
  for (const at::Tensor& buffer : model.buffers()) tensors.push_back(buffer);
  for (at::Tensor& tensor : tensors) {
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(dtype));
  }
}

void convert_to_channels_last(torch::nn::Module& model) {
  for (at::Tensor& parameter : model.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
}

std::shared_ptr<ResNet> make_model(const ResNetSpec& spec, const ModelConfig& config, uint64_t seed,
                                   c10::ScalarType dtype, bool channels_last) {
  auto model = std::make_shared<ResNet>(spec);
  initialize_weights(*model, seed, config.zero_init_residual);
  convert_floating(*model, dtype);
  if (channels_last) convert_to_channels_last(*model);
  return model;
}

void freeze_parameters(torch::nn::Module& model, const std::vector<std::string>& prefixes) {
  if (prefixes.empty()) return;
  const auto parameters = model.named_parameters();
  for (const std::string& prefix : prefixes) {
    bool found = false;
    for (const auto& item : parameters) {
      if (!starts_with_component(item.key(), prefix)) continue;
      at::Tensor(item.value()).set_requires_grad(false);
      found = true;
    }
    if (found) continue;
    std::vector<std::string> names;
    for (const auto& item : parameters) {
      for (size_t dot = item.key().find('.'); dot != std::string::npos; dot = item.key().find('.', dot + 1))
        names.push_back(item.key().substr(0, dot));
      names.push_back(item.key());
    }
    const std::string nearest = nearest_name(prefix, names);
    throw ConfigError(
        "model.freeze: no parameter's name starts with \"" + prefix + "\"" +
        (nearest.empty() ? "; such as conv1, layer1 or layer4.1.bn2" : "; did you mean " + nearest + "?"));
  }
  if (std::ranges::none_of(parameters, [](const auto& item) { return item.value().requires_grad(); }))
    throw ConfigError("model.freeze: nothing is left to train");
}

}  // namespace mgtrain
