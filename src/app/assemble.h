// From values of the plan to the parts that compute: image transform, strategy, and what a checkpoint says of model
// and data so that eval and predict can build them again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/augment.h"
#include "data/dataset_info.h"
#include "data/image_set.h"
#include "devices/device.h"
#include "model/resnet.h"
#include "model/resnet_spec.h"
#include "parallel/strategy.h"

namespace mgtrain {

/// How images reach the model: what must be the same in training, evaluation and prediction.
struct InputFormat {
  int64_t channels = 0, height = 0, width = 0;  // as the model takes them
  ChannelStats normalization;                   // empty: pixels / 255 only
};

/// `config.normalize` resolved; `stats`: the training images' own. Throws ConfigError for another number of channels.
InputFormat input_format(const DataConfig& config, const DatasetInfo& dataset, const ChannelStats& stats);

/// Images of `stored` shape into that format. Crop and flip are drawn only where a batch asks for augmentation.
Transform make_transform(const InputFormat& input, ImageShape stored, const DataConfig& config, MemoryFormat format,
                         uint64_t seed);

/// One device: alone; several: torch::nn::parallel over them. Takes the model over.
std::unique_ptr<Strategy> make_strategy(const std::shared_ptr<ResNet>& model, const std::vector<Device>& devices,
                                        bool channels_last, double label_smoothing);

/// run.json's description of model and data, and back. The readers throw CheckpointError naming `source`.
std::string model_json(const ResNetSpec& spec, const std::string& dtype);
std::string dataset_json(const DatasetInfo& dataset, const InputFormat& input);
struct ModelDescription {
  ResNetSpec spec;
  bool float64 = false;
};
ModelDescription read_model_json(const std::string& text, const std::string& source);
InputFormat read_dataset_json(const std::string& text, const std::string& source);

}  // namespace mgtrain
