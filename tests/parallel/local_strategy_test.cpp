// What every strategy driven by the training thread does: sums, exact gradients over micro-batches, evaluation. The
// same checks for one device and for replicas; the nets have no BatchNorm where a batch is cut in different ways.
#include <cmath>

#include "parallel/small_net.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

std::unique_ptr<Strategy> make_strategy(const std::shared_ptr<SmallNet>& model, const SmallNetOptions& net,
                                        size_t devices, double label_smoothing = 0) {
  StrategyOptions options = cpu_replicas(devices);
  options.label_smoothing = label_smoothing;
  return devices == 1 ? make_single_device(model, options) : make_data_parallel(model, twin_of(net), options);
}

Batch slice(const Batch& batch, int64_t start, int64_t count) {
  return {.images = batch.images.narrow(0, start, count),
          .labels = batch.labels.narrow(0, start, count),
          .samples = {batch.samples.begin() + start, batch.samples.begin() + start + count}};
}

}  // namespace

// fp64 sums of up to 13 terms in another order: 1e-12 of the largest is generous.
TEST_CASE("loss and gradient are those of the mean over the global batch, however it is cut", "[parallel]") {
  const size_t devices = GENERATE(1u, 2u, 3u, 4u);
  const double smoothing = GENERATE(0.0, 0.1);
  const std::vector<int64_t> sizes = GENERATE(std::vector<int64_t>{13}, std::vector<int64_t>{5, 5, 3},
                                              std::vector<int64_t>{1, 11, 1}, std::vector<int64_t>{2, 2, 2, 7});
  CAPTURE(devices, smoothing, sizes);
  const SmallNetOptions net{.batch_norm = false, .dtype = at::kDouble};
  const auto model = make_net(net), plain = make_net(net);
  const auto strategy = make_strategy(model, net, devices, smoothing);
  const Batch batch = make_batch(13, 0, at::kDouble);
  std::vector<Batch> micro_batches;
  int64_t start = 0;
  for (int64_t size : sizes) {
    micro_batches.push_back(slice(batch, start, size));
    start += size;
  }

  const at::Tensor logits = plain->forward(batch.images);
  const at::Tensor mean = at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Mean, -100, smoothing);
  mean.backward();
  for (int repeat = 0; repeat < 2; ++repeat) {  // gradients of an earlier step must not be added to
    const StepSums sums = strategy->forward_backward(micro_batches, 13);
    CHECK(sums.loss_sum.scalar_type() == at::kDouble);
    CHECK(sums.loss_sum.item<double>() / 13 == Approx(mean.item<double>()).epsilon(1e-12));
    CHECK(sums.top1.item<int64_t>() == logits.argmax(1).eq(batch.labels).sum().item<int64_t>());
    CHECK_FALSE(sums.loss_sum.requires_grad());
    const auto expected = plain->named_parameters();
    for (const auto& [name, parameter] : strategy->trainable_parameters()) {
      INFO(name);
      CHECK(relative_difference(parameter.grad(), expected[name].grad()) < 1e-12);
    }
  }
}

TEST_CASE("evaluation gives logits in sample order, without gradients, for any batch size", "[parallel]") {
  const size_t devices = GENERATE(1u, 2u, 4u);
  const int64_t count = GENERATE(1, 3, 8, 9);
  CAPTURE(devices, count);
  const SmallNetOptions net;
  const auto model = make_net(net);
  const auto strategy = make_strategy(model, net, devices);
  step(*strategy, make_batch(12));
  const Batch batch = make_batch(count, 3);
  const EvalSums sums = strategy->evaluate(batch);
  CHECK(sums.logits_NK.sizes() == at::IntArrayRef({count, 5}));
  CHECK_FALSE(sums.logits_NK.requires_grad());
  CHECK(at::equal(sums.labels_N, batch.labels));
  CHECK(model->is_training());
  model->eval();
  const torch::NoGradGuard no_grad;
  for (int64_t i = 0; i < count; ++i)
    CHECK(relative_difference(sums.logits_NK[i], model->forward(batch.images.narrow(0, i, 1))[0]) < 1e-5);
}

TEST_CASE("full_state lists parameters then buffers, live; trainable_parameters what is not frozen", "[parallel]") {
  const size_t devices = GENERATE(1u, 2u);
  const SmallNetOptions net;
  const auto model = make_net(net);
  model->fc->bias.set_requires_grad(false);
  const auto strategy = make_strategy(model, net, devices);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : strategy->full_state()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"conv1.weight", "conv2.weight", "norm1.weight", "norm1.bias", "norm2.weight",
                                          "norm2.bias", "fc.weight", "fc.bias", "norm1.running_mean",
                                          "norm1.running_var", "norm1.num_batches_tracked", "norm2.running_mean",
                                          "norm2.running_var", "norm2.num_batches_tracked"});
  CHECK(strategy->trainable_parameters().size() == 7);
  {
    const torch::NoGradGuard no_grad;
    strategy->full_state()[0].second.fill_(0.5);
  }
  CHECK(model->conv1->weight.eq(0.5).all().item<bool>());
  CHECK(strategy->primary() == at::Device(at::kCPU));
}

TEST_CASE("a step reports the seconds of each replica's forward on the CPU", "[parallel]") {
  const size_t devices = GENERATE(1u, 3u);
  const SmallNetOptions net;
  const auto strategy = make_strategy(make_net(net), net, devices);
  step(*strategy, make_batch(9));
  const StepTimes times = strategy->last_times();
  REQUIRE(times.replica_forward_seconds.size() == devices);
  for (double seconds : times.replica_forward_seconds) CHECK((seconds > 0 && seconds <= times.forward_seconds));
  CHECK(times.backward_seconds > 0);
  CHECK(times.replicate_seconds >= 0);
}

TEST_CASE("one device runs with the thread count the plan gives, and puts the caller's back", "[parallel]") {
  SmallNetOptions net;
  int seen = 0;
  *net.hook = [&](const at::Tensor&) { seen = at::get_num_threads(); };
  StrategyOptions options = cpu_replicas(1);
  options.threads = 3;
  const int before = at::get_num_threads();
  const auto strategy = make_single_device(make_net(net), options);
  step(*strategy, make_batch(4));
  CHECK(seen == 3);
  CHECK(at::get_num_threads() == before);
}

TEST_CASE("counts that do not add up are refused as a bug", "[parallel]") {
  const SmallNetOptions net;
  const auto strategy = make_strategy(make_net(net), net, 2);
  const Batch batch = make_batch(4);
  CHECK_THROWS_AS(strategy->forward_backward({&batch, 1}, 5), std::logic_error);
  CHECK_THROWS_AS(strategy->forward_backward({}, 0), std::logic_error);
  Batch torn = batch;
  torn.samples.pop_back();
  CHECK_THROWS_AS(strategy->evaluate(torn), std::logic_error);
}

}  // namespace mgtrain::test
