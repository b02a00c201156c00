#include "optim/optimizer.h"

#include <ATen/ATen.h>

#include <map>
#include <stdexcept>

#include "base/error.h"

namespace mgtrain {
namespace {

enum class Kind { kSgd, kAdam, kAdamW };

Kind kind_of(const std::string& name) {
  if (name == "sgd") return Kind::kSgd;
  if (name == "adam") return Kind::kAdam;
  if (name == "adamw") return Kind::kAdamW;
  throw std::logic_error("no optimizer " + name);
}

/// Parameters that share a weight decay, with their state.
struct Group {
  double weight_decay = 0;
  std::vector<at::Tensor> parameters, first, second;  // first: momentum, or exp_avg; second: exp_avg_sq

  /// The gradients in the strides of the parameters: the kernels walk both alike.
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> list;
    list.reserve(parameters.size());
    for (const at::Tensor& parameter : parameters) {
      const at::Tensor& gradient = parameter.grad();
      if (!gradient.defined()) throw std::logic_error("an update without a gradient");
      list.push_back(gradient.strides() == parameter.strides() ? gradient : at::empty_like(parameter).copy_(gradient));
    }
    return list;
  }
};

}  // namespace

struct Optimizer::Impl {
  OptimConfig config;
  Kind kind;
  NamedTensors parameters;
  std::vector<Group> groups;
  NamedTensors first, second;  // by parameter, in their order
  at::Tensor step;             // [1] float32, on the device: an update that found_inf cancels is not counted
};

Optimizer::Optimizer(const OptimConfig& config, NamedTensors parameters) : impl_(std::make_unique<Impl>()) {
  if (parameters.empty()) throw std::logic_error("an optimizer without parameters");
  const at::NoGradGuard no_gradients;
  impl_->config = config;
  impl_->kind = kind_of(config.optimizer);
  impl_->parameters = std::move(parameters);
  impl_->step = at::zeros({1}, impl_->parameters.front().second.options().dtype(at::kFloat).requires_grad(false));
  std::map<double, Group> by_decay;
  for (const auto& [name, parameter] : impl_->parameters) {
    // Norms and biases are the parameters of one dimension.
    const double decay = config.decay_norms || parameter.dim() > 1 ? config.weight_decay : 0;
    Group& group = by_decay[decay];
    group.weight_decay = decay;
    group.parameters.push_back(parameter);
    // A momentum of zero makes the first update's the gradient itself, as torch.optim has it.
    group.first.push_back(at::zeros_like(parameter.detach()));
    impl_->first.emplace_back((impl_->kind == Kind::kSgd ? "momentum." : "exp_avg.") + name, group.first.back());
    if (impl_->kind != Kind::kSgd) {
      group.second.push_back(at::zeros_like(parameter.detach()));
      impl_->second.emplace_back("exp_avg_sq." + name, group.second.back());
    }
  }
  for (auto& [decay, group] : by_decay) impl_->groups.push_back(std::move(group));
}

Optimizer::~Optimizer() = default;

void Optimizer::step(double learning_rate, const at::Tensor& found_inf) {
  const at::NoGradGuard no_gradients;
  const OptimConfig& config = impl_->config;
  // The kernels compare with 1.
  std::optional<at::Tensor> skip;
  if (found_inf.defined()) skip = found_inf.ne(0).to(at::kFloat);
  impl_->step += skip ? 1 - *skip : at::ones_like(impl_->step);
  for (const Group& group : impl_->groups) {
    const std::vector<at::Tensor> gradients = group.gradients();
    if (impl_->kind == Kind::kSgd) {
      const bool with_momentum = config.momentum != 0;
      at::_fused_sgd_(group.parameters, gradients, with_momentum ? at::TensorList(group.first) : at::TensorList(),
                      group.weight_decay, config.momentum, learning_rate, /*dampening=*/0,
                      config.nesterov && with_momentum, /*maximize=*/false, /*is_first_step=*/false, {}, skip);
      continue;
    }
    const std::vector<at::Tensor> steps(group.parameters.size(), impl_->step.squeeze());
    const auto update = [&](auto&& fused_update) {
      fused_update(group.parameters, gradients, group.first, group.second, at::TensorList(), steps, learning_rate,
                   config.beta1, config.beta2, group.weight_decay, config.eps, /*amsgrad=*/false, /*maximize=*/false,
                   std::nullopt, skip);
    };
    if (impl_->kind == Kind::kAdam) {
      update([](auto&&... arguments) { at::_fused_adam_(arguments...); });
    } else {
      update([](auto&&... arguments) { at::_fused_adamw_(arguments...); });
    }
  }
}

NamedTensors Optimizer::state() {
  NamedTensors all = impl_->first;
  all.insert(all.end(), impl_->second.begin(), impl_->second.end());
  all.emplace_back("step", impl_->step);
  return all;
}

void Optimizer::load_state(const NamedTensors& state) {
  const at::NoGradGuard no_gradients;
  std::map<std::string, at::Tensor> from(state.begin(), state.end());
  const NamedTensors into = this->state();
  std::string problems;
  int count = 0;
  const auto problem = [&](const std::string& text) {
    constexpr int kShown = 10;
    if (++count <= kShown) problems += (problems.empty() ? "" : ", ") + text;
  };
  for (const auto& [name, tensor] : into) {
    const auto found = from.find(name);
    if (found == from.end()) {
      problem(name + " is missing");
    } else if (found->second.sizes() != tensor.sizes()) {
      problem(name + " has another shape");
    } else if (found->second.scalar_type() != tensor.scalar_type()) {
      problem(name + " has another type");
    }
  }
  if (from.size() != into.size() || count > 0) {
    std::map<std::string, at::Tensor> known(into.begin(), into.end());
    for (const auto& [name, tensor] : from)
      if (!known.contains(name)) problem(name + " is not of this optimizer");
  }
  if (count > 0) {
    throw CheckpointError("the optimizer's state does not fit (" + std::to_string(count) + " tensors): " + problems +
                          (count > 10 ? ", ..." : "") + "; expected that of the same optimizer and model");
  }
  for (const auto& [name, tensor] : into) at::Tensor(tensor).copy_(from.at(name));
}

}  // namespace mgtrain
