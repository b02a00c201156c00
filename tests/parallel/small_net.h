// A small convolutional classifier for the tests of parallel/, with a hook in its forward, and what they train it on.
#pragma once

#include <ATen/Parallel.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "comm/sync_batch_norm.h"
#include "data/batch.h"
#include "model/resnet.h"
#include "parallel/strategy.h"

namespace mgtrain::test {

/// Called in every forward, in the thread that runs it. Shared by a model and its twins.
using ForwardHook = std::function<void(const at::Tensor& images)>;

struct SmallNetOptions {
  bool batch_norm = true;
  int64_t width = 8;
  at::ScalarType dtype = at::kFloat;
  std::shared_ptr<ForwardHook> hook = std::make_shared<ForwardHook>();
};

class SmallNet final : public Classifier {
 public:
  explicit SmallNet(SmallNetOptions options) : options_(std::move(options)) {
    namespace nn = torch::nn;
    const int64_t w = options_.width;
    conv1 = register_module("conv1", nn::Conv2d(nn::Conv2dOptions(3, w, 3).padding(1).bias(!options_.batch_norm)));
    conv2 = register_module("conv2",
                            nn::Conv2d(nn::Conv2dOptions(w, 2 * w, 3).stride(2).padding(1).bias(!options_.batch_norm)));
    if (options_.batch_norm) {
      norm1 = register_module("norm1", nn::BatchNorm2d(w));
      norm2 = register_module("norm2", nn::BatchNorm2d(2 * w));
    }
    fc = register_module("fc", nn::Linear(2 * w, 5));
    to(options_.dtype);
  }

  at::Tensor forward(at::Tensor x) override {
    if (*options_.hook) (*options_.hook)(x);
    x = conv1(x);
    if (norm1) x = normalised(*norm1, x);
    x = conv2(torch::relu(x));
    if (norm2) x = normalised(*norm2, x);
    return fc(torch::adaptive_avg_pool2d(torch::relu(x), {1, 1}).flatten(1));
  }

  void set_norm_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group) override { norm_group_ = group; }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear fc{nullptr};

 private:
  at::Tensor normalised(torch::nn::BatchNorm2dImpl& norm, const at::Tensor& x) {
    return norm_group_ && is_training() ? sync_batch_norm(norm, x, norm_group_) : norm.forward(x);
  }

  SmallNetOptions options_;
  c10::intrusive_ptr<c10d::ProcessGroup> norm_group_;
};

/// The same initial values at each call.
inline std::shared_ptr<SmallNet> make_net(const SmallNetOptions& options, bool channels_last = false) {
  torch::manual_seed(11);
  auto net = std::make_shared<SmallNet>(options);
  if (channels_last) {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters())
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
  return net;
}

inline ClassifierFactory twin_of(const SmallNetOptions& options) {
  return [options] { return std::make_shared<SmallNet>(options); };
}

inline StrategyOptions cpu_replicas(size_t count, bool channels_last = false) {
  StrategyOptions options{.devices = std::vector<at::Device>(count, at::Device(at::kCPU)),
                          .channels_last = channels_last};
  for (size_t i = 0; i < count; ++i) options.device_labels.push_back("cpu replica " + std::to_string(i));
  return options;
}

/// Random images of 8 x 8 with labels of 5 classes; a function of (count, seed).
inline Batch make_batch(int64_t count, uint64_t seed = 0, at::ScalarType dtype = at::kFloat) {
  torch::manual_seed(1000 + seed);
  Batch batch{.images = torch::randn({count, 3, 8, 8}, dtype),
              .labels = torch::randint(0, 5, {count}, at::kLong),
              .samples = std::vector<int64_t>(static_cast<size_t>(count))};
  std::iota(batch.samples.begin(), batch.samples.end(), 0);
  return batch;
}

inline StepSums step(Strategy& strategy, const Batch& batch) {
  return strategy.forward_backward({&batch, 1}, batch.count());
}

/// Largest absolute difference over the largest absolute value of `expected`.
inline double relative_difference(const at::Tensor& actual, const at::Tensor& expected) {
  const auto a = actual.detach().to(at::kCPU, at::kDouble), e = expected.detach().to(at::kCPU, at::kDouble);
  const double scale = e.abs().max().item<double>();
  return (a - e).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

}  // namespace mgtrain::test
