#include "parallel/data_parallel.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "data/epoch_order.h"
#include "parallel/parallel_forward.h"

namespace mgtrain {
namespace {

/// Shares of the replicas that get any sample.
std::vector<int64_t> used_shares(int64_t count, size_t replicas) {
  std::vector<int64_t> shares = even_shares(count, static_cast<int64_t>(replicas));
  std::erase(shares, 0);
  return shares;
}

}  // namespace

// parallel_apply runs a replica on each intra-op thread, so there must be as many, whatever OMP_NUM_THREADS says; on
// the CPU backward then uses as many cores as the replicas had.
DataParallel::DataParallel(std::shared_ptr<Classifier> model, const ClassifierFactory& make_twin,
                           const StrategyOptions& options)
    : LocalStrategy(model, options, static_cast<int>(options.devices.size())),
      replicated_(std::make_shared<ReplicatedModule>(model, make_twin, options.devices, options.device_labels)) {}

at::Tensor DataParallel::logits(const at::Tensor& images) {
  const std::vector<int64_t> shares = used_shares(images.size(0), options().devices.size());
  struct Pass {
    ReplicatedModule& module;
    ~Pass() { module.end_forward(); }
  } const pass{*replicated_};
  replicated_->begin_forward(shares);
  return parallel_forward(replicated_, images, options().devices, shares);
}

void DataParallel::take_times(StepTimes& times) {
  const double replicate = replicated_->cost().seconds;
  const std::vector<double> forward = replicated_->take_forward_seconds();
  if (primary().is_cpu()) {
    times.replica_forward_seconds = forward;
    times.replicate_seconds = replicate - std::exchange(replicate_seconds_, replicate);
  } else {
    times = {};  // what was measured is the time to launch the work
  }
}

std::unique_ptr<Strategy> make_data_parallel(std::shared_ptr<Classifier> model, const ClassifierFactory& make_twin,
                                             const StrategyOptions& options) {
  if (options.devices.size() < 2) {
    throw std::logic_error("data parallelism over " + std::to_string(options.devices.size()) + " devices");
  }
  try {
    return std::make_unique<DataParallel>(std::move(model), make_twin, options);
  } catch (...) {
    rethrow_as_device_error(work_of_all(options, "set-up of the replicas", 0));
  }
}

}  // namespace mgtrain
