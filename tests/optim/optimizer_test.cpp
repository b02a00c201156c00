#include "optim/optimizer.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <limits>

#include "base/error.h"
#include "support/catch.h"

using namespace mgtrain;

namespace {

OptimConfig config_of(const std::string& optimizer) {
  OptimConfig config;
  config.optimizer = optimizer;
  return config;
}

NamedTensors parameters_of(uint64_t seed) {
  torch::manual_seed(seed);
  NamedTensors parameters;
  parameters.emplace_back("conv.weight", torch::randn({4, 3, 3, 3}).set_requires_grad(true));
  parameters.emplace_back("bn.weight", torch::randn({4}).set_requires_grad(true));
  return parameters;
}

void set_gradients(NamedTensors& parameters, int64_t step) {
  torch::manual_seed(static_cast<uint64_t>(1000 + step));
  for (auto& [name, parameter] : parameters) parameter.mutable_grad() = torch::randn_like(parameter.detach());
}

NamedTensors copy_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.emplace_back(name, tensor.detach().clone());
  return copies;
}

bool equal(const NamedTensors& one, const NamedTensors& other) {
  if (one.size() != other.size()) return false;
  for (size_t i = 0; i < one.size(); ++i)
    if (one[i].first != other[i].first || !torch::equal(one[i].second, other[i].second)) return false;
  return true;
}

std::string refusal(Optimizer& optimizer, const NamedTensors& state) {
  try {
    optimizer.load_state(state);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

const char* const kAll[] = {"sgd", "adam", "adamw"};

}  // namespace

TEST_CASE("one update of SGD is what its formula says", "[optim]") {
  OptimConfig config = config_of("sgd");
  config.momentum = 0.5;
  config.nesterov = true;
  config.weight_decay = 0.1;
  NamedTensors parameters{{"w", torch::tensor({2.0}, torch::kDouble).set_requires_grad(true)}};
  Optimizer optimizer(config, parameters);
  at::Tensor& w = parameters[0].second;
  w.mutable_grad() = torch::tensor({1.0}, torch::kDouble);
  optimizer.step(0.5, {});
  // Gradient 1 + 0.1 * 2; momentum the same; Nesterov: 1.2 + 0.5 * 1.2.
  CHECK(w.item<double>() == Approx(2 - 0.5 * 1.8).epsilon(1e-14));
  CHECK(optimizer.state()[0].first == "momentum.w");
  CHECK(optimizer.state()[0].second.item<double>() == Approx(1.2).epsilon(1e-14));
}

TEST_CASE("a second update of SGD adds to the momentum, and takes the learning rate of its own step", "[optim]") {
  OptimConfig config = config_of("sgd");
  config.momentum = 0.5;
  config.nesterov = false;
  config.weight_decay = 0;
  NamedTensors parameters{{"w", torch::tensor({2.0}, torch::kDouble).set_requires_grad(true)}};
  Optimizer optimizer(config, parameters);
  at::Tensor& w = parameters[0].second;
  w.mutable_grad() = torch::tensor({1.0}, torch::kDouble);
  optimizer.step(0.5, {});
  w.mutable_grad() = torch::tensor({3.0}, torch::kDouble);
  optimizer.step(0.25, {});
  // Momentum 1, then 0.5 * 1 + 3.
  CHECK(w.item<double>() == Approx(2 - 0.5 * 1 - 0.25 * 3.5).epsilon(1e-14));
  CHECK(optimizer.state()[0].second.item<double>() == Approx(3.5).epsilon(1e-14));
}

TEST_CASE("SGD without momentum leaves none behind, whether Nesterov is asked for or not", "[optim]") {
  for (const bool nesterov : {false, true}) {
    OptimConfig config = config_of("sgd");
    config.momentum = 0;
    config.nesterov = nesterov;
    config.weight_decay = 0.1;
    NamedTensors parameters{{"w", torch::tensor({2.0}, torch::kDouble).set_requires_grad(true)}};
    Optimizer optimizer(config, parameters);
    at::Tensor& w = parameters[0].second;
    w.mutable_grad() = torch::tensor({1.0}, torch::kDouble);
    optimizer.step(0.5, {});
    CHECK(w.item<double>() == Approx(2 - 0.5 * 1.2).epsilon(1e-14));
    CHECK(optimizer.state()[0].second.item<double>() == 0);
  }
}

TEST_CASE("the first update of Adam and AdamW is what their formulas say", "[optim]") {
  for (const char* name : {"adam", "adamw"}) {
    OptimConfig config = config_of(name);
    config.beta1 = 0.8;
    config.beta2 = 0.9;
    config.eps = 0.5;
    config.weight_decay = 0.1;
    NamedTensors parameters{{"w", torch::tensor({2.0}, torch::kDouble).set_requires_grad(true)}};
    Optimizer optimizer(config, parameters);
    at::Tensor& w = parameters[0].second;
    w.mutable_grad() = torch::tensor({3.0}, torch::kDouble);
    optimizer.step(0.5, {});
    // The bias corrections undo the betas, so the step is rate * g / (|g| + eps). Adam adds the decay to the gradient,
    // AdamW takes it from the weight.
    const bool decoupled = config.optimizer == "adamw";
    const double g = decoupled ? 3 : 3 + 0.1 * 2, decayed = decoupled ? 2 * (1 - 0.5 * 0.1) : 2;
    CHECK(w.item<double>() == Approx(decayed - 0.5 * g / (g + 0.5)).epsilon(1e-14));
    const NamedTensors state = optimizer.state();
    REQUIRE(state.size() == 3);
    CHECK(state[0].first == "exp_avg.w");
    CHECK(state[0].second.item<double>() == Approx(0.2 * g).epsilon(1e-14));
    CHECK(state[1].first == "exp_avg_sq.w");
    CHECK(state[1].second.item<double>() == Approx(0.1 * g * g).epsilon(1e-14));
    CHECK(state[2].second.item<float>() == 1);
  }
}

TEST_CASE("any found_inf but 0 cancels, also the very first update", "[optim]") {
  for (const char* name : kAll) {
    for (const float found : {1.0F, 3.0F, std::numeric_limits<float>::quiet_NaN()}) {
      NamedTensors parameters = parameters_of(7);
      const NamedTensors before = copy_of(parameters);
      Optimizer optimizer(config_of(name), parameters);
      set_gradients(parameters, 0);
      parameters[1].second.mutable_grad().fill_(std::numeric_limits<float>::quiet_NaN());
      optimizer.step(0.1, torch::full({1}, found));
      CHECK(equal(copy_of(parameters), before));
      for (const auto& [key, tensor] : optimizer.state()) CHECK(tensor.eq(0).all().item<bool>());
    }
  }
}

TEST_CASE("an update that found_inf cancels moves no weight and no state", "[optim]") {
  for (const char* name : kAll) {
    NamedTensors parameters = parameters_of(1);
    Optimizer optimizer(config_of(name), parameters);
    set_gradients(parameters, 0);
    optimizer.step(0.1, torch::zeros({1}));
    const NamedTensors weights = copy_of(parameters), state = copy_of(optimizer.state());
    CHECK(state.back().first == "step");
    CHECK(state.back().second.item<float>() == 1);
    set_gradients(parameters, 1);
    parameters[0].second.mutable_grad().fill_(std::numeric_limits<float>::infinity());
    optimizer.step(0.1, torch::ones({1}));
    CHECK(equal(copy_of(parameters), weights));
    CHECK(equal(copy_of(optimizer.state()), state));
    // Goes on as if it had not been.
    NamedTensors other = parameters_of(1);
    Optimizer without(config_of(name), other);
    for (const int64_t step : {0, 2}) {
      set_gradients(other, step);
      without.step(0.1, {});
    }
    set_gradients(parameters, 2);
    optimizer.step(0.1, torch::zeros({1}));
    CHECK(equal(copy_of(parameters), copy_of(other)));
  }
}

TEST_CASE("a state that was saved and loaded goes on bit for bit, also one from before the first update", "[optim]") {
  for (const char* name : kAll) {
    for (const int64_t split : {0, 10}) {
      NamedTensors whole = parameters_of(2), cut = parameters_of(2);
      Optimizer unbroken(config_of(name), whole);
      auto optimizer = std::make_unique<Optimizer>(config_of(name), cut);
      for (int64_t step = 0; step < 20; ++step) {
        if (step == split) {
          const NamedTensors state = copy_of(optimizer->state());
          optimizer = std::make_unique<Optimizer>(config_of(name), cut);
          optimizer->load_state(state);
        }
        set_gradients(whole, step);
        set_gradients(cut, step);
        unbroken.step(0.01 * static_cast<double>(step + 1), {});
        optimizer->step(0.01 * static_cast<double>(step + 1), {});
      }
      CHECK(equal(copy_of(whole), copy_of(cut)));
      CHECK(equal(copy_of(unbroken.state()), copy_of(optimizer->state())));
    }
  }
}

TEST_CASE("a state that does not fit is refused by name, and nothing is loaded", "[optim]") {
  NamedTensors parameters = parameters_of(3);
  Optimizer optimizer(config_of("adam"), parameters);
  const NamedTensors before = copy_of(optimizer.state());
  NamedTensors state = copy_of(optimizer.state());
  for (auto& [name, tensor] : state) tensor.fill_(7);
  NamedTensors missing(state.begin() + 1, state.end());
  CHECK(refusal(optimizer, missing).find(state[0].first + " is missing") != std::string::npos);
  NamedTensors shape = state;
  shape[1].second = torch::zeros({5});
  CHECK(refusal(optimizer, shape).find(shape[1].first) != std::string::npos);
  NamedTensors extra = state;
  extra.emplace_back("exp_avg.fc.weight", torch::zeros({2}));
  CHECK(refusal(optimizer, extra).find("exp_avg.fc.weight") != std::string::npos);
  NamedTensors type = state;
  type[0].second = type[0].second.to(torch::kDouble);
  CHECK(refusal(optimizer, type).find(type[0].first + " has another type") != std::string::npos);
  NamedTensors renamed = state;
  renamed[0].first = "exp_avg.conv9.weight";
  CHECK(refusal(optimizer, renamed).find(state[0].first + " is missing") != std::string::npos);
  CHECK(refusal(optimizer, renamed).find("exp_avg.conv9.weight is not of this optimizer") != std::string::npos);
  Optimizer sgd(config_of("sgd"), parameters);
  CHECK(refusal(sgd, state).find("momentum.conv.weight is missing") != std::string::npos);
  CHECK(equal(copy_of(optimizer.state()), before));
  CHECK(refusal(optimizer, state).empty());
  CHECK(optimizer.state()[0].second.eq(7).all().item<bool>());
}

TEST_CASE("gradients in other strides than the parameter's count by position", "[optim]") {
  for (const char* name : kAll) {
    NamedTensors plain = parameters_of(4), last = parameters_of(4);
    {
      const torch::NoGradGuard no_gradients;
      last[0].second.set_data(last[0].second.contiguous(at::MemoryFormat::ChannelsLast));
    }
    Optimizer one(config_of(name), plain), other(config_of(name), last);
    for (int64_t step = 0; step < 3; ++step) {
      set_gradients(plain, step);
      set_gradients(last, step);
      // set_gradients() gives the gradient of `last` its strides; take those of `plain`.
      last[0].second.mutable_grad() = plain[0].second.grad().clone();
      last[1].second.mutable_grad() = plain[1].second.grad().clone();
      one.step(0.1, {});
      other.step(0.1, {});
    }
    CHECK(torch::equal(plain[0].second, last[0].second));
  }
}

TEST_CASE("norms and biases are spared from decay where that is asked for", "[optim]") {
  OptimConfig config = config_of("sgd");
  config.weight_decay = 0.5;
  config.decay_norms = false;
  NamedTensors parameters = parameters_of(5);
  const NamedTensors before = copy_of(parameters);
  Optimizer optimizer(config, parameters);
  for (auto& [name, parameter] : parameters) parameter.mutable_grad() = torch::zeros_like(parameter.detach());
  optimizer.step(0.1, {});
  CHECK(torch::equal(parameters[1].second, before[1].second));
  CHECK_FALSE(torch::equal(parameters[0].second, before[0].second));
}

TEST_CASE("an update without a gradient is a bug", "[optim]") {
  NamedTensors parameters = parameters_of(6);
  Optimizer optimizer(config_of("sgd"), parameters);
  CHECK_THROWS_AS(optimizer.step(0.1, {}), std::logic_error);
}
