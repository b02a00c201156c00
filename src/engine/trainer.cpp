#include "engine/trainer.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/signals.h"
#include "engine/assertions.h"
#include "optim/clip.h"
#include "parallel/device_errors.h"

namespace mgtrain {
namespace {

bool improves(const std::string& metric, double value, const std::optional<double>& best) {
  if (std::isnan(value)) return false;
  if (!best || std::isnan(*best)) return true;
  return metric == "val.loss" ? value < *best : value > *best;
}

std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

std::string number(double value) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << value;
  return text.str();
}

}  // namespace

Trainer::Trainer(TrainerSettings settings, TrainerParts parts, TrainState state)
    : settings_(std::move(settings)),
      parts_(parts),
      state_(std::move(state)),
      parameters_(tensors_of(parts_.strategy.trainable_parameters())),
      report_due_(settings_.log_every, settings_.steps_per_epoch, settings_.total_steps,
                  parts_.clock.monotonic_seconds()),
      eval_due_(settings_.train.eval_every, settings_.steps_per_epoch, settings_.total_steps,
                parts_.clock.monotonic_seconds()),
      save_due_(settings_.checkpoint.save_every, settings_.steps_per_epoch, settings_.total_steps,
                parts_.clock.monotonic_seconds()),
      last_epoch_(std::max<int64_t>(0, state_.sample_offset > 0 ? state_.epoch : state_.epoch - 1)),
      started_(parts_.clock.monotonic_seconds()),
      elapsed_before_(state_.elapsed_seconds),
      scaling_(settings_.num_devices) {}

TrainOutcome Trainer::run() {
  try {
    return train();
  } catch (...) {
    // What is being written is still worth having, and is told before how the run ended.
    try {
      if (parts_.checkpointer != nullptr) parts_.checkpointer->finish();
    } catch (const Error& error) {
      parts_.observer.on_warning("checkpoint", error.what());
    }
    throw;
  }
}

TrainOutcome Trainer::train() {
  // What a signal or a kill cut off at this boundary is made up for.
  const bool over = state_.step >= settings_.total_steps;
  const bool eval_was_due = state_.step > 0 && (eval_due_.due(state_.step, parts_.clock.monotonic_seconds()) || over);
  if (over || (eval_was_due && state_.last_eval_step < state_.step)) {
    if (const auto outcome = step_boundary({.evaluate = eval_was_due && state_.last_eval_step < state_.step}))
      return *outcome;
  }
  for (;;) {
    while (!parts_.feed.has_next() && !parts_.feed.start(state_.epoch, state_.sample_offset)) end_epoch();
    train_step();
    if (const auto outcome = step_boundary(what_is_due())) return *outcome;
  }
}

// Nothing here waits for the device, but for the sums of the step before.
void Trainer::train_step() {
  const StepData data = parts_.feed.next();
  const int64_t count = data.global_count;
  const double start = parts_.clock.monotonic_seconds();
  const StepSums sums = parts_.strategy.forward_backward(data.micro_batches, count);
  settle();
  agreed_ = settled_;
  const double between = parts_.clock.monotonic_seconds();

  update(sums, count);
  const double end = parts_.clock.monotonic_seconds();
  if (parts_.trace != nullptr) parts_.trace->on_samples(state_.step + 1, state_.epoch, data.samples);
  state_.step += 1;
  state_.samples_seen += count;
  state_.sample_offset += count;
  if (!parts_.feed.has_next()) end_epoch();

  const double wait = parts_.feed.take_wait_seconds();
  data_wait_ += wait;
  forward_backward_ += between - start;
  update_ += end - between;
  train_seconds_ += wait + end - start;
  samples_here_ += count;
  steps_here_ += 1;
  estimate_scaling(between - start, end - between);
}

void Trainer::update(const StepSums& sums, int64_t count) try {
  const std::vector<at::Tensor> gradients = gradients_of(parameters_);
  const at::Tensor norm = gradient_norm(gradients);
  if (settings_.clip_grad > 0) clip_gradients(gradients, norm, settings_.clip_grad);
  at::Tensor loss_sum = sums.loss_sum, top1 = sums.top1;
  std::vector<at::Tensor> requests;
  if (!alone()) {
    const at::Tensor own = at::cat({at::stack({loss_sum.to(at::kDouble), top1.to(at::kDouble)}),
                                    torch::tensor(to_numbers(own_requests()), at::kDouble).to(loss_sum.device())});
    requests = parts_.strategy.sum_over_ranks(own).unbind();
    loss_sum = requests[0];
    top1 = requests[1];
    requests.erase(requests.begin(), requests.begin() + 2);
    timed_ = {};
  }
  const at::Tensor finite = at::isfinite(loss_sum).logical_and(at::isfinite(norm));
  const at::Tensor found_inf = finite.logical_not().to(at::kFloat).reshape({1});
  parts_.optimizer.step(parts_.schedule.at(state_.step), found_inf);
  last_epoch_ = state_.epoch;
  std::vector<at::Tensor> scalars = {loss_sum, top1, norm, found_inf};
  scalars.insert(scalars.end(), requests.begin(), requests.end());
  pending_.emplace(
      Pending{.step = state_.step + 1, .epoch = state_.epoch, .count = count, .scalars = DeviceScalars(scalars)});
} catch (...) {
  rethrow_as_device_error({.device = parts_.strategy.primary().str(), .phase = "update", .batch = count});
}

/// Where a device fails in the middle of its work, the host learns of it here.
std::vector<double> Trainer::read_pending() try { return pending_->scalars.read(); } catch (...) {
  rethrow_as_device_error({.device = parts_.strategy.primary().str(),
                           .phase = "work of step " + std::to_string(pending_->step),
                           .batch = pending_->count});
}

void Trainer::end_epoch() {
  state_.epoch += 1;
  state_.sample_offset = 0;
}

/// Reads the sums of the last step. Throws NonFiniteError.
void Trainer::settle() {
  if (!pending_) return;
  const std::vector<double> values = read_pending();
  const double loss = values[0] / static_cast<double>(pending_->count);
  if (values[3] != 0) {
    throw NonFiniteError("step " + std::to_string(pending_->step) + " (epoch " + std::to_string(pending_->epoch + 1) +
                         "): the loss is " + number(loss) + " and the norm of the gradient " + number(values[2]) +
                         "; expected finite numbers. The weights were not updated by that step; checkpoints are of "
                         "earlier ones. A lower --lr, a longer --warmup or --clip-grad 1 may help");
  }
  if (!alone()) settled_ = requests_of(std::span(values).subspan(4));
  state_.loss_sum_since_report += values[0];
  state_.top1_since_report += static_cast<int64_t>(values[1]);
  state_.samples_since_report += pending_->count;
  last_loss_ = loss;
  last_grad_norm_ = values[2];
  has_loss_ = true;
  pending_.reset();
}

/// Whether a schedule is due: with several ranks one in minutes is due when the first rank's clock has said so.
bool Trainer::agreed_due(Schedule& schedule, const Every& every, bool Requests::*request) {
  const bool due = schedule.due(state_.step, parts_.clock.monotonic_seconds());
  if (alone() || every.unit != Every::Unit::kMinutes) return due;
  if (due && parts_.strategy.place().rank == 0) timed_.*request = true;
  return agreed_.*request;
}

Requests Trainer::own_requests() const {
  Requests requests = timed_;
  if (const int signal = stop_signal(); signal != 0) {
    const bool interrupted = exit_code_of_signal(signal) == ExitCode::kInterrupted;
    (interrupted ? requests.interrupt : requests.terminate) = true;
  }
  requests.time_limit = parts_.strategy.place().rank == 0 && time_is_up();
  return requests;
}

Trainer::Due Trainer::what_is_due() {
  const bool last = state_.step >= settings_.total_steps;
  // Each is asked at every step: a schedule sees every boundary.
  const bool report = report_due_.due(state_.step, parts_.clock.monotonic_seconds()),
             evaluate = agreed_due(eval_due_, settings_.train.eval_every, &Requests::evaluate),
             save = agreed_due(save_due_, settings_.checkpoint.save_every, &Requests::save);
  return {.report = report || last, .evaluate = evaluate || last, .save = save || last};
}

std::optional<TrainOutcome> Trainer::step_boundary(Due due) {
  if (parts_.checkpointer != nullptr) parts_.checkpointer->collect();
  std::optional<TrainOutcome> outcome = stop_request();
  if (due.report || due.evaluate || due.save || outcome) settle();
  if (due.report) report_step();
  bool new_best = false;
  if (due.evaluate && parts_.evaluator != nullptr && !(outcome && outcome->exit_code != ExitCode::kDone)) {
    if (evaluate()) {
      new_best = state_.best_step == state_.step;
      if (settings_.train.early_stop > 0 && state_.evals_without_improvement >= settings_.train.early_stop)
        outcome = TrainOutcome{.reason = "early stop"};
    }
    const std::optional<TrainOutcome> since = stop_request();
    if (since && !outcome) outcome = since;
  }
  const bool signalled = outcome && outcome->exit_code != ExitCode::kDone;
  if (state_.step >= settings_.total_steps && !signalled) outcome = TrainOutcome{.reason = "done"};
  state_.finished = outcome && (outcome->reason == "done" || outcome->reason == "early stop");
  if (due.save || new_best || outcome) {
    show_progress("save");
    update_elapsed();
    const double start = parts_.clock.monotonic_seconds();
    if (parts_.checkpointer != nullptr) {
      parts_.checkpointer->save(state_);
      if (outcome) parts_.checkpointer->finish();
    }
    saving_ += parts_.clock.monotonic_seconds() - start;
  } else {
    show_progress("train");
  }
  return outcome;
}

std::optional<TrainOutcome> Trainer::stop_request() const {
  const Requests requests = alone() ? own_requests() : agreed_;
  if (requests.interrupt) return TrainOutcome{.reason = "SIGINT", .exit_code = ExitCode::kInterrupted};
  if (requests.terminate) return TrainOutcome{.reason = "SIGTERM", .exit_code = ExitCode::kTerminated};
  if (requests.time_limit) return TrainOutcome{.reason = "time limit"};
  return std::nullopt;
}

bool Trainer::time_is_up() const {
  const double minutes = (parts_.clock.monotonic_seconds() - started_) / 60;
  return settings_.train.time_limit_minutes && minutes >= *settings_.train.time_limit_minutes;
}

void Trainer::report_step() {
  if (state_.samples_since_report == 0) return;
  const auto samples = static_cast<double>(state_.samples_since_report);
  const double seconds = train_seconds_ - reported_seconds_;
  parts_.observer.on_step({.step = state_.step,
                           .epoch = last_epoch_,
                           .samples_seen = state_.samples_seen,
                           .loss = state_.loss_sum_since_report / samples,
                           .top1 = static_cast<double>(state_.top1_since_report) / samples,
                           .learning_rate = parts_.schedule.at(state_.step - 1),
                           .grad_norm = last_grad_norm_,
                           .images_per_second = seconds > 0 ? samples / seconds : 0,
                           .data_wait_seconds = data_wait_,
                           .forward_backward_seconds = forward_backward_,
                           .optimizer_seconds = update_,
                           .checkpoint_seconds = saving_});
  reported_seconds_ = train_seconds_;
  data_wait_ = forward_backward_ = update_ = saving_ = 0;
  state_.loss_sum_since_report = 0;
  state_.top1_since_report = state_.samples_since_report = 0;
}

bool Trainer::evaluate() {
  std::optional<EvalReport> report = parts_.evaluator->run([&](int64_t) {
    show_progress("eval");
    return stop_signal() == 0;
  });
  if (!report) return false;
  report->step = state_.step;
  report->epoch = last_epoch_;
  const double value = metric_of(*report, settings_.checkpoint.best);
  report->is_best = improves(settings_.checkpoint.best, value, state_.best_value);
  state_.last_eval_step = state_.step;
  if (report->is_best) {
    state_.best_value = value;
    state_.best_step = state_.step;
    state_.evals_without_improvement = 0;
    best_eval_ = report;
  } else {
    state_.evals_without_improvement += 1;
  }
  last_eval_ = report;
  parts_.observer.on_eval(*report);
  if (!std::isfinite(report->loss)) {
    parts_.observer.on_warning("evaluation", "the evaluation at step " + std::to_string(state_.step) +
                                                 " gave a loss of " + number(report->loss) + ": it is never the best");
  }
  return true;
}

void Trainer::show_progress(const char* phase) {
  const double rate = mean_images_per_second();
  const double seconds_a_step = steps_here_ > 0 ? train_seconds_ / static_cast<double>(steps_here_) : 0;
  parts_.observer.on_progress(
      {.step = state_.step,
       .total_steps = settings_.total_steps,
       .epoch = last_epoch_,
       .loss = has_loss_ ? std::optional(last_loss_) : std::nullopt,
       .images_per_second = rate,
       .seconds_left = seconds_a_step * static_cast<double>(settings_.total_steps - state_.step),
       .phase = phase});
}

void Trainer::estimate_scaling(double forward_backward, double optimizer) {
  if (settings_.num_devices < 2 || scaling_report_) return;
  scaling_.add(forward_backward, optimizer, parts_.strategy.last_times().replica_forward_seconds);
  scaling_report_ = scaling_.report();
  if (!scaling_report_) return;
  parts_.observer.on_scaling(*scaling_report_);
  if (!scaling_report_->advice.empty()) parts_.observer.on_warning("scaling", scaling_report_->advice);
}

void Trainer::update_elapsed() {
  state_.elapsed_seconds = elapsed_before_ + parts_.clock.monotonic_seconds() - started_;
}

double Trainer::mean_images_per_second() const {
  return train_seconds_ > 0 ? static_cast<double>(samples_here_) / train_seconds_ : 0;
}

}  // namespace mgtrain
