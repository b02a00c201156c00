// What a run needs of memory and disk, estimated from the model's description. Rough on purpose: the sums are exact,
// the surcharges for work space are stated here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "model/resnet_spec.h"

namespace mgtrain {

/// Parameters that train when those under `frozen` prefixes (whole dotted components, as "layer1" or "conv1.weight")
/// do not. Throws ConfigError for a prefix that names none, or if nothing is left to train.
int64_t count_trainable_parameters(const ResNetSpec& spec, const std::vector<std::string>& frozen);

/// Bytes of one checkpoint: weights and statistics, optimizer state, counters and headers.
uint64_t estimate_checkpoint_bytes(const ResNetSpec& spec, const OptimConfig& optim, int64_t trainable,
                                   int64_t element_bytes);

/// Bytes a device needs while it trains `chunk` images at once: weights, gradients, (on the primary) optimizer state,
/// saved activations, and 25 % of the activations for gradients in flight and convolution work space; on a GPU also
/// 0.6 GiB for the CUDA context and libraries.
uint64_t estimate_device_bytes(const ResNetSpec& spec, const OptimConfig& optim, int64_t trainable,
                               int64_t element_bytes, int64_t chunk, bool primary, bool gpu);

}  // namespace mgtrain
