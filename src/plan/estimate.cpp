#include "plan/estimate.h"

#include <set>

#include "base/error.h"

namespace mgtrain {
namespace {

constexpr double kWorkSpaceShare = 0.25;
constexpr uint64_t kCudaContextBytes = (uint64_t{6} << 30) / 10;
constexpr uint64_t kCheckpointOverheadBytes = 64 * 1024;  // headers of safetensors, run.json, manifest.json

struct NamedParameter {
  std::string name;
  int64_t elements;
};

std::vector<NamedParameter> parameters_of(const ResNetSpec& spec) {
  std::vector<NamedParameter> parameters;
  for (const UnitSpec& unit : spec.units) {
    for (const LayerSpec& layer : unit.layers) {
      const int64_t bias = layer.kind == LayerSpec::Kind::kConv ? 0 : layer.out_channels;
      parameters.push_back({layer.name + ".weight", layer.num_parameters - bias});
      if (bias > 0) parameters.push_back({layer.name + ".bias", bias});
    }
  }
  return parameters;
}

bool under(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '.');
}

/// Tensors of optimizer state per parameter.
int64_t optimizer_slots(const OptimConfig& optim) {
  if (optim.optimizer == "sgd") return optim.momentum > 0 ? 1 : 0;
  return 2;
}

}  // namespace

int64_t count_trainable_parameters(const ResNetSpec& spec, const std::vector<std::string>& frozen) {
  const std::vector<NamedParameter> parameters = parameters_of(spec);
  std::set<std::string> frozen_names;
  for (const std::string& prefix : frozen) {
    bool any = false;
    for (const NamedParameter& parameter : parameters) {
      if (!under(parameter.name, prefix)) continue;
      frozen_names.insert(parameter.name);
      any = true;
    }
    if (!any) {
      throw ConfigError("model.freeze: \"" + prefix + "\" is the start of no parameter's name of " + spec.name +
                        "; expected whole components such as conv1, layer1 or layer4.1.bn2");
    }
  }
  int64_t trainable = 0;
  for (const NamedParameter& parameter : parameters) {
    if (!frozen_names.contains(parameter.name)) trainable += parameter.elements;
  }
  if (trainable == 0) throw ConfigError("model.freeze: nothing is left to train; leave out at least fc");
  return trainable;
}

uint64_t estimate_checkpoint_bytes(const ResNetSpec& spec, const OptimConfig& optim, int64_t trainable,
                                   int64_t element_bytes) {
  int64_t counters = 0;  // num_batches_tracked, an int64 a BatchNorm
  for (const UnitSpec& unit : spec.units) {
    for (const LayerSpec& layer : unit.layers) counters += layer.kind == LayerSpec::Kind::kBatchNorm ? 8 : 0;
  }
  const int64_t elements = spec.num_parameters() + spec.num_buffers_elements() + trainable * optimizer_slots(optim);
  return static_cast<uint64_t>(elements * element_bytes + counters) + kCheckpointOverheadBytes;
}

uint64_t estimate_device_bytes(const ResNetSpec& spec, const OptimConfig& optim, int64_t trainable,
                               int64_t element_bytes, int64_t chunk, bool primary, bool gpu) {
  const int64_t state = primary ? trainable * optimizer_slots(optim) : 0;
  const int64_t fixed = spec.num_parameters() + spec.num_buffers_elements() + trainable + state;
  // In double: a huge batch times a huge image must not overflow on its way to a refusal.
  const double activations = static_cast<double>(spec.activation_elements_per_image()) * static_cast<double>(chunk);
  const double bytes =
      (static_cast<double>(fixed) + activations * (1 + kWorkSpaceShare)) * static_cast<double>(element_bytes);
  return static_cast<uint64_t>(bytes) + (gpu ? kCudaContextBytes : 0);
}

}  // namespace mgtrain
