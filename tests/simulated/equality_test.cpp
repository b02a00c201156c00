// Strategies on simulated devices leave the numbers of the CPU.
#include <c10/core/impl/VirtualGuardImpl.h>

#include "parallel/data_parallel.h"
#include "simulated/sim_training.h"
#include "support/catch.h"

namespace mgtrain::test {

using Names = std::vector<std::string>;

TEST_CASE("one simulated device leaves the bits of the CPU: weights, statistics, optimizer, logits", "[simulated]") {
  const int device = GENERATE(0, 3);
  const bool channels_last = GENERATE(false, true);
  const std::string optimizer = GENERATE("sgd", "adamw");
  CAPTURE(device, channels_last, optimizer);
  const StrategyOptions options = sim_devices({device}, channels_last);
  Training actual(options, optimizer);
  Reference expected(options, optimizer);
  const NamedTensors start = actual.state();
  actual.train(0, 3, 12);
  expected.train(0, 3, 12);
  CHECK(differing(start, actual.state()).size() > 100);  // it has trained
  CHECK(differing(actual.state(), expected.state()) == Names{});
  const Batch batch = resnet_batch(5, 99);
  const ThreadCountGuard one(1);
  CHECK(at::equal(actual.strategy->evaluate(batch).logits_NK.cpu(), expected.strategy->evaluate(batch).logits_NK));
}

TEST_CASE("two simulated devices leave the bits of the two chunks run in turn on the CPU", "[simulated]") {
  const std::vector<int> numbers = GENERATE(std::vector<int>{0, 1}, std::vector<int>{2, 0});
  const int64_t batch_size = GENERATE(16, 13);
  const bool channels_last = GENERATE(false, true);
  CAPTURE(numbers, batch_size, channels_last);
  const StrategyOptions options = sim_devices(numbers, channels_last);
  Training actual(options, "sgd");
  Reference expected(options, "sgd");
  actual.train(0, 3, batch_size);
  expected.train(0, 3, batch_size);
  CHECK(differing(actual.state(), expected.state()) == Names{});
}

TEST_CASE("evaluation on two devices after a step uses the statistics of that step on both", "[simulated]") {
  const StrategyOptions options = sim_devices({0, 1});
  Training actual(options, "sgd");
  Reference expected(options, "sgd");
  actual.train(0, 2, 16);
  expected.train(0, 2, 16);
  const Batch batch = resnet_batch(9, 99), first = resnet_batch(5, 0), second = resnet_batch(4, 0);
  const at::Tensor logits = actual.strategy->evaluate(batch).logits_NK;
  CHECK(logits.device() == sim::device(0));
  const ThreadCountGuard one(1);
  const auto chunk = [&](Batch like, int64_t from) {
    like.images = batch.images.narrow(0, from, like.count());
    return expected.strategy->evaluate(like).logits_NK;
  };
  CHECK(at::equal(logits.cpu(), at::cat({chunk(first, 0), chunk(second, 5)})));
}

// Gradients of four devices are added first to last, by the reference last to first.
TEST_CASE("four simulated devices equal the chunks run in turn to 1e-11 in fp64", "[simulated]") {
  const int64_t batch_size = GENERATE(16, 14, 3);
  CAPTURE(batch_size);
  const StrategyOptions options = sim_devices(first_devices(4));
  Training actual(options, "sgd", at::kDouble);
  Reference expected(options, "sgd", at::kDouble);
  actual.train(0, 3, batch_size);
  expected.train(0, 3, batch_size);
  const NamedTensors state = actual.state(), wanted = expected.state();
  REQUIRE(state.size() == wanted.size());
  for (size_t i = 0; i < state.size(); ++i) {
    INFO(state[i].first);
    CHECK(relative_difference(state[i].second, wanted[i].second) < 1e-11);
  }
}

TEST_CASE("25 runs on two and on four devices leave the same bits", "[simulated]") {
  const int devices = GENERATE(2, 4);
  NamedTensors first;
  for (int run = 0; run < 25; ++run) {
    CAPTURE(devices, run);
    Training training(sim_devices(first_devices(devices)), "sgd");
    training.train(0, 2, 9);
    if (run == 0) first = training.state();
    CHECK(differing(training.state(), first) == Names{});
  }
}

TEST_CASE("micro-batches on two devices leave the gradients of their chunks", "[simulated]") {
  const StrategyOptions options = sim_devices({0, 1});
  const auto model = make_resnet18(false, at::kDouble), reference = make_resnet18(false, at::kDouble);
  const auto strategy = make_data_parallel(model, options);
  const Batch first = resnet_batch(6, 1, at::kDouble), second = resnet_batch(5, 2, at::kDouble);
  strategy->forward_backward(std::vector{first, second}, 11);
  std::map<std::string, at::Tensor> wanted;
  for (const Batch& batch : {first, second}) {
    reference_gradients(*reference, batch, 2, false, 1);
    for (const auto& item : reference->named_parameters()) {
      const at::Tensor part = item.value().grad() * (static_cast<double>(batch.count()) / 11);
      at::Tensor& sum = wanted[item.key()];
      sum = sum.defined() ? sum + part : part;
    }
  }
  for (const auto& [name, parameter] : strategy->trainable_parameters()) {
    INFO(name);
    CHECK(relative_difference(parameter.grad(), wanted.at(name)) < 1e-12);  // one sum, weighted in another order
  }
}

TEST_CASE("each replica's forward has its own device as the current one", "[simulated]") {
  const SmallNetOptions net;
  *net.hook = [](const at::Tensor& images) {
    const at::Device current = c10::impl::VirtualGuardImpl(at::kPrivateUse1).getDevice();
    TORCH_CHECK(current == images.device(), "current device ", current, ", images on ", images.device());
    // What a layer would do that makes a tensor without saying where.
    const at::Tensor made = at::zeros({1}, images.options().device(at::kPrivateUse1));
    TORCH_CHECK((images + made).device() == images.device());
  };
  const auto strategy = make_data_parallel(make_net(net), twin_of(net), sim_devices({1, 0, 3}));
  CHECK_NOTHROW(step(*strategy, make_batch(7)));
  CHECK_NOTHROW(strategy->evaluate(make_batch(7)));
}

TEST_CASE("labels and sums are on the primary device", "[simulated]") {
  const std::vector<int> numbers = GENERATE(std::vector<int>{2}, std::vector<int>{1, 0});
  CAPTURE(numbers);
  const auto strategy = make_strategy_on(make_resnet18(), sim_devices(numbers));
  const StepSums sums = step(*strategy, resnet_batch(4, 1));
  const EvalSums eval = strategy->evaluate(resnet_batch(4, 2));
  for (const at::Tensor& tensor : {sums.loss_sum, sums.top1, eval.logits_NK, eval.labels_N})
    CHECK(tensor.device() == sim::device(numbers.front()));
  for (const auto& [name, tensor] : strategy->full_state()) CHECK(tensor.device() == sim::device(numbers.front()));
}

}  // namespace mgtrain::test
