// A model ready to train: built, initialised from one seed, in dtype and memory format, frozen where asked.
#pragma once

#include <c10/core/ScalarType.h>

#include <memory>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "model/resnet.h"

namespace mgtrain {

/// Initial weights as torchvision draws them (kaiming normal fan_out for convolutions, ones and zeros for norms,
/// uniform for the head) from a private generator seeded by `seed`: the global generator is not touched.
void initialize_weights(ResNet& model, uint64_t seed, bool zero_init_residual);

/// Floating tensors to `dtype`; counters stay whole numbers, which torch::nn::Module::to(dtype) would not leave them.
void convert_floating(torch::nn::Module& model, c10::ScalarType dtype);
/// 4-D parameters to channels-last strides.
void convert_to_channels_last(torch::nn::Module& model);

/// On the CPU.
std::shared_ptr<ResNet> make_model(const ResNetSpec& spec, const ModelConfig& config, uint64_t seed,
                                   c10::ScalarType dtype, bool channels_last);

/// Sets requires_grad(false) on parameters whose name starts with one of `prefixes` (a whole dotted component).
/// Throws ConfigError for a prefix that matches none, or if nothing is left to train.
void freeze_parameters(torch::nn::Module& model, const std::vector<std::string>& prefixes);

}  // namespace mgtrain
