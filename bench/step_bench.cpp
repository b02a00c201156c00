// Training steps of ResNet18 on one CPU device, as the trainer makes them. For each line on stdin it runs the steps and
// prints their images/s: scripts/bench/step.py asks it and a Python peer in turn.
//   step_bench WIDTH BATCH THREADS nchw|nhwc STEPS
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdlib>
#include <iostream>
#include <numeric>
#include <string>

#include "base/allocator.h"
#include "base/clock.h"
#include "model/make_model.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "parallel/strategy.h"

namespace {

using namespace mgtrain;

class StepBench {
 public:
  StepBench(int64_t width, int64_t count, int threads, bool channels_last) {
    const auto model = make_model(make_resnet_spec("resnet18", width, "cifar", 3, 32, 32, 10), {}, /*seed=*/1,
                                  at::kFloat, channels_last);
    strategy_ = make_single_device(model, {.devices = {at::kCPU}, .threads = threads, .channels_last = channels_last});
    optimizer_ = std::make_unique<Optimizer>(OptimConfig{}, strategy_->trainable_parameters());
    for (const auto& [name, parameter] : strategy_->trainable_parameters()) parameters_.push_back(parameter);
    batch_.images = torch::randn({count, 3, 32, 32});
    if (channels_last) batch_.images = batch_.images.contiguous(at::MemoryFormat::ChannelsLast);
    batch_.labels = torch::randint(0, 10, {count}, at::kLong);
    batch_.samples.resize(static_cast<size_t>(count));
    std::iota(batch_.samples.begin(), batch_.samples.end(), 0);
  }

  void step() {
    const StepSums sums = strategy_->forward_backward({&batch_, 1}, batch_.count());
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    const at::Tensor finite = at::isfinite(sums.loss_sum).logical_and(at::isfinite(gradient_norm(gradients)));
    optimizer_->step(0.01, finite.logical_not().to(at::kFloat).reshape({1}));
  }

  double images_per_second(int64_t steps) {
    const SystemClock clock;
    const double start = clock.monotonic_seconds();
    for (int64_t i = 0; i < steps; ++i) step();
    return static_cast<double>(steps * batch_.count()) / (clock.monotonic_seconds() - start);
  }

 private:
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<at::Tensor> parameters_;
  Batch batch_;
};

}  // namespace

int main(int argc, char** argv) {
  tune_allocator();  // as the program does
  if (argc != 6) {
    std::cerr << "usage: step_bench WIDTH BATCH THREADS nchw|nhwc STEPS\n";
    return 2;
  }
  const int threads = std::atoi(argv[3]);
  at::set_num_threads(threads);
  StepBench bench(std::atoll(argv[1]), std::atoll(argv[2]), threads, std::string(argv[4]) == "nhwc");
  bench.images_per_second(2);  // warm-up
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << bench.images_per_second(std::atoll(argv[5])) << std::endl;
  return 0;
}
