// ResNet 18 to 152 as a torch::nn module built from a ResNetSpec. Parameter names, shapes, order and initialisation
// are torchvision's. Shapes: N batch, C channels, H height, W width, K classes.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/resnet_spec.h"

namespace c10d {
class ProcessGroup;
}

namespace mgtrain {

/// Any classifier the strategies can train: images [N, C, H, W] to logits [N, K].
class Classifier : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor images_NCHW) = 0;
  /// From here on BatchNorm in training is over the samples of all ranks of `group` (comm/sync_batch_norm.h); empty:
  /// over its own. Evaluation stays as it is. A classifier that cannot throws std::logic_error for a group.
  virtual void set_norm_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group);
};

class ResNet final : public Classifier {
 public:
  /// Builds the modules with undefined (empty, not drawn) values on the CPU; draws no random number.
  explicit ResNet(const ResNetSpec& spec);
  ~ResNet() override;

  /// images_NCHW: floating [N, in_channels, height, width] -> logits [N, K].
  at::Tensor forward(at::Tensor images_NCHW) override;
  void set_norm_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group) override;
  /// Runs units [first, last) only: what a pipeline stage does.
  at::Tensor forward_units(at::Tensor x, size_t first, size_t last);

  [[nodiscard]] const ResNetSpec& spec() const { return spec_; }

 private:
  class Unit;

  ResNetSpec spec_;
  c10::intrusive_ptr<c10d::ProcessGroup> norm_group_;
  std::vector<std::unique_ptr<Unit>>
      units_;  // how to compute them; their modules are registered under torchvision's names
};

}  // namespace mgtrain
