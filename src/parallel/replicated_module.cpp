#include "parallel/replicated_module.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/utils.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/clock.h"
#include "parallel/device_errors.h"

namespace mgtrain {
namespace {

/// Puts the default CPU generator back as it was: a module's constructor may draw initial values nobody wants.
class GeneratorKeeper {
 public:
  GeneratorKeeper() : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~GeneratorKeeper() {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(state_);
  }
  GeneratorKeeper(const GeneratorKeeper&) = delete;
  GeneratorKeeper& operator=(const GeneratorKeeper&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

// In-place operations on a tensor raise its version, the sum of which stands still if none was run.
uint64_t version_sum(const FlatParameters& flat) {
  uint64_t sum = 0;
  for (const auto& [name, parameter] : flat.trainable()) sum += static_cast<uint64_t>(parameter._version());
  return sum;
}

std::string label_of(const std::vector<std::string>& labels, const std::vector<at::Device>& devices, size_t position) {
  return position < labels.size() ? labels[position] : devices[position].str();
}

}  // namespace

ReplicatedModule::ReplicatedModule(std::shared_ptr<Classifier> model, const ClassifierFactory& make_twin,
                                   std::vector<at::Device> devices, std::vector<std::string> device_labels)
    : model_(std::move(model)),
      parts_(model_->modules()),
      device_(devices.at(0)),
      label_(label_of(device_labels, devices, 0)),
      flat_(*model_, device_),
      devices_(std::move(devices)),
      cost_(std::make_shared<ReplicationCost>()),
      pass_(std::make_shared<std::optional<Pass>>()) {
  register_trainable();
  parameter_versions_ = version_sum(flat_);
  const GeneratorKeeper keeper;
  for (size_t position = 0; position < devices_.size(); ++position) {
    std::shared_ptr<ReplicatedModule> replica(new ReplicatedModule(make_twin(), *this, position));
    replica->label_ = label_of(device_labels, devices_, position);
    replicas_.push_back(std::move(replica));
  }
}

ReplicatedModule::ReplicatedModule(std::shared_ptr<Classifier> twin, const ReplicatedModule& primary, size_t position)
    : model_(std::move(twin)),
      parts_(model_->modules()),
      device_(primary.devices_[position]),
      position_(position),
      flat_(*model_, primary.flat_, device_,
            position == 0 ? FlatParameters::Storage::kShared : FlatParameters::Storage::kOwn),
      pass_(primary.pass_) {
  if (parts_.size() != primary.parts_.size()) {
    throw std::logic_error("a replica has " + std::to_string(parts_.size()) + " modules, its primary " +
                           std::to_string(primary.parts_.size()));
  }
  register_trainable();
}

void ReplicatedModule::register_trainable() {
  for (const auto& [name, parameter] : flat_.trainable()) {
    std::string flat_name = name;  // torch::nn wants no dots in a parameter's name
    std::replace(flat_name.begin(), flat_name.end(), '.', '/');
    register_parameter(flat_name, parameter);
  }
}

void ReplicatedModule::begin_forward(const std::vector<int64_t>& shares) {
  if (shares.empty() || shares.size() > replicas_.size()) throw std::logic_error("more shares than replicas, or none");
  next_ = 0;
  const uint64_t versions = version_sum(flat_);
  if (versions != parameter_versions_) {
    parameter_versions_ = versions;
    weights_changed();
  }
  Pass pass;
  for (const at::Device& device : devices_) {
    std::optional<c10::Stream> stream;
    if (!device.is_cpu()) stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    pass.streams.push_back(stream);
  }
  pass.shares = shares;
  pass.batch = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  pass_->emplace(std::move(pass));
}

void ReplicatedModule::end_forward() { pass_->reset(); }

std::shared_ptr<torch::nn::Module> ReplicatedModule::clone(const std::optional<at::Device>& device) const {
  const double start = SystemClock().monotonic_seconds();
  const size_t position = next_++;
  if (position >= replicas_.size() || (device && *device != devices_[position])) {
    throw std::logic_error("replica " + std::to_string(position) + " asked for on another device than it was built on");
  }
  const auto& replica = replicas_[position];
  replica->refresh_from(*this);
  cost_->seconds += SystemClock().monotonic_seconds() - start;
  return replica;
}

void ReplicatedModule::refresh_from(const ReplicatedModule& primary) {
  for (size_t i = 0; i < parts_.size(); ++i) {  // a module stands before its children, which train() changes too
    const bool training = primary.parts_[i]->is_training();
    if (parts_[i]->is_training() != training) parts_[i]->train(training);
  }
  if (generation_ == primary.generation_) return;
  if (position_ != 0) {
    const bool whole = whole_generation_ != primary.whole_generation_;
    const at::Tensor& source = whole ? primary.flat_.bytes() : primary.flat_.changing();
    (whole ? flat_.bytes() : flat_.changing()).copy_(source, /*non_blocking=*/true);
    ++primary.cost_->copies;
    primary.cost_->bytes += source.numel();
  }
  generation_ = primary.generation_;
  whole_generation_ = primary.whole_generation_;
}

at::Tensor ReplicatedModule::forward(at::Tensor images) {
  if (!pass_->has_value()) throw std::logic_error("a replica's forward outside begin_forward and end_forward");
  const Pass& pass = **pass_;
  const double start = SystemClock().monotonic_seconds();
  at::Tensor logits;
  try {
    // parallel_apply's workers are bare threads: neither the caller's modes nor the device are set in them.
    const at::ThreadLocalStateGuard caller_state(pass.thread_state);
    c10::OptionalStreamGuard stream_and_device;
    if (pass.streams[position_]) stream_and_device.reset_stream(*pass.streams[position_]);
    logits = model_->forward(std::move(images));
  } catch (...) {
    rethrow_as_device_error(
        {.device = label_, .phase = "forward", .samples = pass.shares.at(position_), .batch = pass.batch});
  }
  forward_seconds_ += SystemClock().monotonic_seconds() - start;
  return logits;
}

std::vector<double> ReplicatedModule::take_forward_seconds() {
  std::vector<double> seconds;
  for (const auto& replica : replicas_) seconds.push_back(std::exchange(replica->forward_seconds_, 0.0));
  return seconds;
}

}  // namespace mgtrain
