// pytorch/pytorch#19540: with C++ data_parallel MNIST stayed at chance, as replicas had no gradient path to the
// weights.
#include <torch/optim/sgd.h>

#include "parallel/small_net.h"
#include "support/catch.h"

namespace mgtrain::test {

TEST_CASE("MG 14: a step on two replicas moves the weights as a step on one device", "[issues]") {
  const SmallNetOptions net{.batch_norm = false, .dtype = at::kDouble};
  const auto many = make_net(net), one = make_net(net), before = make_net(net);
  const auto strategy = make_data_parallel(many, twin_of(net), cpu_replicas(2));
  const auto single = make_single_device(one, cpu_replicas(1));
  torch::optim::SGD many_optimizer(many->parameters(), 0.1), one_optimizer(one->parameters(), 0.1);
  const Batch batch = make_batch(16, 0, at::kDouble);
  step(*strategy, batch);
  many_optimizer.step();
  step(*single, batch);
  one_optimizer.step();
  for (const auto& item : many->named_parameters()) {
    INFO(item.key());
    CHECK(relative_difference(item.value(), before->named_parameters()[item.key()]) > 1e-5);
    CHECK(relative_difference(item.value(), one->named_parameters()[item.key()]) < 1e-12);
  }
}

TEST_CASE("MG 14: two replicas learn a task to more than 95 % in two epochs", "[issues]") {
  // Noise, in which the class says the channel and sign of a faint checkerboard: nothing a mean pixel gives away.
  const auto make_set = [](uint64_t seed) {
    Batch set = make_batch(960, seed);
    const at::Tensor cell = torch::arange(8);
    const at::Tensor board = ((cell.unsqueeze(0) + cell.unsqueeze(1)).remainder(2) * 2 - 1).to(at::kFloat);
    for (int64_t i = 0; i < set.count(); ++i) {
      const int64_t label = set.labels[i].item<int64_t>();
      set.images[i][label % 3] += board * (label < 3 ? 1.0 : -1.0);
    }
    return set;
  };
  const Batch train = make_set(1), test = make_set(2);
  const SmallNetOptions net;
  const auto model = make_net(net);
  const auto strategy = make_data_parallel(model, twin_of(net), cpu_replicas(2));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int64_t start = 0; start < train.count(); start += 25) {  // the last batch has 10
      const int64_t count = std::min<int64_t>(25, train.count() - start);
      step(*strategy, {.images = train.images.narrow(0, start, count),
                       .labels = train.labels.narrow(0, start, count),
                       .samples = std::vector<int64_t>(static_cast<size_t>(count))});
      optimizer.step();
    }
  }
  const EvalSums sums = strategy->evaluate(test);
  CHECK(sums.logits_NK.argmax(1).eq(sums.labels_N).to(at::kFloat).mean().item<double>() > 0.95);
}

}  // namespace mgtrain::test
