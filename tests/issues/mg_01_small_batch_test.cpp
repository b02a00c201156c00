// pytorch/pytorch#16432, #9226: DataParallel failed when a batch had fewer samples than there were devices.
#include <torch/optim/sgd.h>

#include "parallel/small_net.h"
#include "support/catch.h"

namespace mgtrain::test {

// fp32 gradients summed over replicas in another order: 1e-6 of the largest weight, as the row asks.
TEST_CASE("MG 1: a batch smaller than the replicas trains on those it reaches, as one replica would", "[issues]") {
  const auto [replicas, last] = GENERATE(std::pair<size_t, int64_t>{4, 3}, std::pair<size_t, int64_t>{2, 1});
  CAPTURE(replicas, last);
  const SmallNetOptions net{.batch_norm = false};
  const auto many = make_net(net), one = make_net(net);
  const auto strategy = make_data_parallel(many, twin_of(net), cpu_replicas(replicas));
  const auto single = make_single_device(one, cpu_replicas(1));
  torch::optim::SGD many_optimizer(many->parameters(), 0.1), one_optimizer(one->parameters(), 0.1);
  for (int64_t count : {int64_t{8}, last}) {  // an epoch of one whole batch and its tail
    const Batch batch = make_batch(count, static_cast<uint64_t>(count));
    step(*strategy, batch);
    many_optimizer.step();
    step(*single, batch);
    one_optimizer.step();
  }
  for (const auto& item : many->named_parameters()) {
    INFO(item.key());
    CHECK(relative_difference(item.value(), one->named_parameters()[item.key()]) < 1e-6);
  }
}

TEST_CASE("MG 1: BatchNorm trains on a tail of one sample, on one of four replicas", "[issues]") {
  const SmallNetOptions net;
  const auto model = make_net(net), alone = make_net(net);
  const auto strategy = make_data_parallel(model, twin_of(net), cpu_replicas(4));
  const auto single = make_single_device(alone, cpu_replicas(1));
  const Batch batch = make_batch(1);
  CHECK(step(*strategy, batch).loss_sum.item<double>() ==
        Approx(step(*single, batch).loss_sum.item<double>()).epsilon(1e-6));
  CHECK(at::equal(model->norm1->running_mean, alone->norm1->running_mean));
}

}  // namespace mgtrain::test
