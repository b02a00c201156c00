// pytorch/pytorch#2610, caffe2!674: code that assumed device 0 or a sorted list. (What --gpus makes of a list is tested
// in mg_06_device_order_test.cpp; here, what runs.)
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>

#include "parallel/small_net.h"
#include "support/catch.h"

namespace mgtrain::test {

TEST_CASE("MG 6: --gpus 1,0 computes with cuda:1 as the primary", "[.gpu]") {
  if (!at::hasCUDA() || at::accelerator::deviceCount() < 2) {
    WARN("not run: needs 2 GPUs");
    return;
  }
  const SmallNetOptions net;
  const auto model = make_net(net);
  const StrategyOptions options{.devices = {at::Device(at::kCUDA, 1), at::Device(at::kCUDA, 0)}};
  const auto strategy = make_data_parallel(model, twin_of(net), options);
  for (int64_t count : {8, 5, 1}) {
    CHECK(step(*strategy, make_batch(count)).loss_sum.device() == options.devices[0]);
    CHECK(strategy->evaluate(make_batch(count)).logits_NK.device() == options.devices[0]);
  }
  for (const at::Tensor& parameter : model->parameters()) {
    CHECK(parameter.device() == options.devices[0]);
    CHECK(parameter.grad().device() == options.devices[0]);
  }
}

TEST_CASE("MG 6: --gpus 1, allocates nothing on other GPUs", "[.gpu]") {
  if (!at::hasCUDA() || at::accelerator::deviceCount() < 2) {
    WARN("not run: needs 2 GPUs");
    return;
  }
  const auto allocations = [] {
    const auto stats = at::accelerator::getDeviceStats(0);
    return stats.allocation[0].allocated;
  };
  const int64_t before = allocations();
  const SmallNetOptions net;
  const auto strategy = make_single_device(make_net(net), {.devices = {at::Device(at::kCUDA, 1)}});
  step(*strategy, make_batch(8));
  strategy->evaluate(make_batch(3));
  CHECK(allocations() == before);
}

}  // namespace mgtrain::test
