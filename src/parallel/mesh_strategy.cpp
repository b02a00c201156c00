#include "parallel/mesh_strategy.h"

#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "parallel/classification_loss.h"
#include "parallel/device_errors.h"
#include "parallel/evaluation_mode.h"
#include "parallel/local_strategy.h"
#include "parallel/thread_count.h"

namespace mgtrain {
namespace {

/// Zero, with zeros as gradients, whatever the parameters hold: multiplying them by zero would keep a NaN alive.
class ZeroLoss final : public torch::autograd::Function<ZeroLoss> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::TensorList parameters) {
    context->save_for_backward(parameters.vec());
    return at::zeros({}, parameters.front().options().requires_grad(false));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list&) {
    torch::autograd::variable_list gradients;
    for (const at::Tensor& parameter : context->get_saved_variables()) gradients.push_back(at::zeros_like(parameter));
    return gradients;
  }
};

int64_t fingerprint(const torch::nn::Module& model) {
  std::ostringstream text;
  for (const auto& [name, tensor] : state_tensors(model))
    text << name << ' ' << tensor.scalar_type() << ' ' << tensor.sizes() << ' ' << tensor.requires_grad() << '\n';
  return static_cast<int64_t>(std::hash<std::string>{}(text.str()));
}

void wait(const c10::intrusive_ptr<c10d::Work>& work) { work->wait(); }

}  // namespace

MeshStrategy::MeshStrategy(std::shared_ptr<Classifier> model, StrategyOptions options, MeshOptions mesh)
    : model_(std::move(model)),
      options_(std::move(options)),
      mesh_(std::move(mesh)),
      flat_(*model_, options_.devices.at(0)) {
  if (options_.devices.size() != 1) throw std::logic_error("a rank has one device");
  const c10::DeviceGuard device(primary());
  check_same_model();
  state_changed();
  reducer_ = std::make_unique<GradientReducer>(trainable_parameters(), mesh_.group, mesh_.bfloat16_gradients);
  if (mesh_.sync_batch_norm) model_->set_norm_group(mesh_.group);
}

MeshStrategy::~MeshStrategy() {
  if (mesh_.sync_batch_norm) model_->set_norm_group({});  // the model may outlive the ranks
}

void MeshStrategy::check_same_model() const {
  const at::Tensor own = torch::full({1}, fingerprint(*model_), torch::TensorOptions(at::kLong).device(primary()));
  std::vector<std::vector<at::Tensor>> all(1);
  for (int rank = 0; rank < mesh_.group->getSize(); ++rank) all[0].push_back(at::empty_like(own));
  std::vector<at::Tensor> inputs = {own};
  wait(mesh_.group->allgather(all, inputs));
  for (size_t rank = 1; rank < all[0].size(); ++rank) {
    if (all[0][rank].item<int64_t>() == all[0][0].item<int64_t>()) continue;
    throw DeviceError(
        "rank " + std::to_string(rank) +
        " has another model than rank 0: a tensor's name, type or shape differs; start all ranks with the "
        "same program, config and data");
  }
}

StepSums MeshStrategy::forward_backward(const Batch& batch, int64_t global_count) {
  DeviceWork work{
      .device = device_label(options_, 0), .phase = "forward", .samples = batch.count(), .batch = batch.count()};
  try {
    const double start = SystemClock().monotonic_seconds();
    const at::Tensor images =
        options_.channels_last ? batch.images.contiguous(at::MemoryFormat::ChannelsLast) : batch.images;
    const at::Tensor logits = model_->forward(images.to(primary(), /*non_blocking=*/true));
    const ClassificationLoss loss = classification_loss(logits, batch.labels.to(primary(), /*non_blocking=*/true),
                                                        global_count, options_.label_smoothing);
    const double between = SystemClock().monotonic_seconds();
    work.phase = "backward";
    // The Reducer divides by the number of ranks.
    (loss.objective * place().ranks).backward();
    times_.forward_seconds += between - start;
    times_.backward_seconds += SystemClock().monotonic_seconds() - between;
    return loss.sums;
  } catch (...) {
    rethrow_as_device_error(work);
  }
}

StepSums MeshStrategy::join_without_samples() {
  std::vector<at::Tensor> parameters;
  for (const auto& [name, parameter] : trainable_parameters()) parameters.push_back(parameter);
  ZeroLoss::apply(at::TensorList(parameters)).backward();
  return {.loss_sum = at::zeros({}, at::TensorOptions(at::kDouble).device(primary())),
          .top1 = at::zeros({}, at::TensorOptions(at::kLong).device(primary()))};
}

StepSums MeshStrategy::forward_backward(std::span<const Batch> micro_batches, int64_t global_count) {
  if (micro_batches.empty()) throw std::logic_error("a step without a micro-batch");
  const ThreadCountGuard threads(options_.threads);
  const c10::DeviceGuard device(primary());
  const at::AutoGradMode with_gradients(true);
  for (at::Tensor& parameter : model_->parameters()) parameter.mutable_grad().reset();
  times_ = {};
  reducer_->begin_step();
  StepSums sums;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const Batch& batch = micro_batches[i];
    const bool last = i + 1 == micro_batches.size();
    if (last) reducer_->begin_reducing_backward();
    // With statistics of all ranks the others wait in each layer for this one, though it has nothing to add.
    if (batch.count() > 0 || mesh_.sync_batch_norm) {
      add_to(sums, forward_backward(batch, global_count));
    } else if (last || !sums.loss_sum.defined()) {
      add_to(sums, join_without_samples());
    }
  }
  return sums;
}

EvalSums MeshStrategy::evaluate(const Batch& batch) {
  const ThreadCountGuard threads(options_.threads);
  const c10::DeviceGuard device(primary());
  const torch::NoGradGuard no_gradients;
  const EvaluationMode evaluation(*model_);
  try {
    const at::Tensor images =
        options_.channels_last ? batch.images.contiguous(at::MemoryFormat::ChannelsLast) : batch.images;
    return {.logits_NK = model_->forward(images.to(primary(), /*non_blocking=*/true)),
            .labels_N = batch.labels.to(primary(), /*non_blocking=*/true)};
  } catch (...) {
    rethrow_as_device_error(work_of_all(options_, "evaluation", batch.count()));
  }
}

NamedTensors MeshStrategy::trainable_parameters() { return flat_.trainable(); }

NamedTensors MeshStrategy::full_state() { return state_tensors(*model_); }

void MeshStrategy::state_changed() { take_from_first_rank({{"state", flat_.bytes()}}); }

at::Tensor MeshStrategy::sum_over_ranks(at::Tensor values) {
  const c10::DeviceGuard device(primary());
  std::vector<at::Tensor> tensors = {values.contiguous()};
  wait(mesh_.group->allreduce(tensors));
  return tensors.front();
}

void MeshStrategy::take_from_first_rank(const NamedTensors& tensors) {
  const c10::DeviceGuard device(primary());
  const torch::NoGradGuard no_gradients;
  for (const auto& [name, tensor] : tensors) {
    std::vector<at::Tensor> sent = {tensor.contiguous()};
    wait(mesh_.group->broadcast(sent));
    if (!sent.front().is_same(tensor)) at::Tensor(tensor).copy_(sent.front());
  }
}

void MeshStrategy::prepare_evaluation() {
  if (mesh_.sync_batch_norm) return;  // all ranks have the same
  take_from_first_rank({{"statistics", flat_.buffers()}});
}

}  // namespace mgtrain
