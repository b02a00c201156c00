#include <torch/nn/module.h>

#include <stdexcept>
#include <utility>

#include "parallel/flat_parameters.h"
#include "parallel/local_strategy.h"

namespace mgtrain {
namespace {

class SingleDevice final : public LocalStrategy {
 public:
  SingleDevice(const std::shared_ptr<Classifier>& model, const StrategyOptions& options)
      : LocalStrategy(model, options, options.threads), flat_(*model, options.devices.front()) {}

 private:
  at::Tensor logits(const at::Tensor& images) override {
    return model()->forward(images.to(primary(), /*non_blocking=*/true));
  }

  void take_times(StepTimes& times) override {
    if (primary().is_cpu()) {
      times.replica_forward_seconds = {times.forward_seconds};
    } else {
      times = {};  // what was measured is the time to launch the work
    }
  }

  FlatParameters flat_;
};

}  // namespace

std::unique_ptr<Strategy> make_single_device(std::shared_ptr<Classifier> model, const StrategyOptions& options) {
  if (options.devices.size() != 1) {
    throw std::logic_error("one device wanted, " + std::to_string(options.devices.size()) + " given");
  }
  try {
    return std::make_unique<SingleDevice>(model, options);
  } catch (...) {
    rethrow_as_device_error(work_of_all(options, "set-up of the model", 0));
  }
}

}  // namespace mgtrain
