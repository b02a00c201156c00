// The state of a ResNet as tensors in canonical names, from its description and without a module.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include "model/resnet_spec.h"
#include "optim/optimizer.h"

namespace mgtrain::test {

/// Parameters and buffers, the k-th tensor drawn from a generator seeded with `seed` + k; convolutions channels-last.
inline NamedTensors resnet_tensors(const ResNetSpec& spec, uint64_t seed) {
  NamedTensors tensors;
  const auto add = [&](const std::string& name, at::IntArrayRef shape) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed + tensors.size());
    at::Tensor tensor = at::randn(shape, generator);
    tensors.emplace_back(name, tensor.dim() == 4 ? tensor.contiguous(at::MemoryFormat::ChannelsLast) : tensor);
  };
  for (const UnitSpec& unit : spec.units) {
    for (const LayerSpec& layer : unit.layers) {
      if (layer.kind == LayerSpec::Kind::kConv) {
        add(layer.name + ".weight", {layer.out_channels, layer.in_channels, layer.kernel, layer.kernel});
      } else if (layer.kind == LayerSpec::Kind::kLinear) {
        add(layer.name + ".weight", {layer.out_channels, layer.in_channels});
        add(layer.name + ".bias", {layer.out_channels});
      } else {
        for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"})
          add(layer.name + part, {layer.out_channels});
        tensors.emplace_back(layer.name + ".num_batches_tracked",
                             at::scalar_tensor(static_cast<int64_t>(tensors.size()), at::kLong));
      }
    }
  }
  return tensors;
}

inline NamedTensors cloned(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.emplace_back(name, tensor.clone());
  return copies;
}

/// Whether two lists have the same names, types and values bit for bit.
inline bool same_tensors(const NamedTensors& one, const NamedTensors& other) {
  if (one.size() != other.size()) return false;
  for (size_t i = 0; i < one.size(); ++i) {
    if (one[i].first != other[i].first || one[i].second.scalar_type() != other[i].second.scalar_type() ||
        !at::equal(one[i].second, other[i].second))
      return false;
  }
  return true;
}

}  // namespace mgtrain::test
