// huggingface/transformers#608, pytorch/pytorch#37359, #67253: the mean of per-replica means is not the batch's mean.
#include "parallel/small_net.h"
#include "support/catch.h"

namespace mgtrain::test {

TEST_CASE("MG 5: 13 samples on 2 replicas leave the loss and gradient of one replica", "[issues]") {
  const SmallNetOptions net{.batch_norm = false, .dtype = at::kDouble};
  const auto many = make_net(net), one = make_net(net);
  const auto strategy = make_data_parallel(many, twin_of(net), cpu_replicas(2));
  const auto single = make_single_device(one, cpu_replicas(1));
  Batch batch = make_batch(13, 0, at::kDouble);
  batch.images[12] *= 100;  // a sample that a wrong weight (1/12 for 1/13) would show in
  const double loss = step(*strategy, batch).loss_sum.item<double>();
  CHECK(loss == Approx(step(*single, batch).loss_sum.item<double>()).epsilon(1e-6));
  for (const auto& item : many->named_parameters()) {
    INFO(item.key());
    CHECK(relative_difference(item.value().grad(), one->named_parameters()[item.key()].grad()) < 1e-6);
  }
}

}  // namespace mgtrain::test
