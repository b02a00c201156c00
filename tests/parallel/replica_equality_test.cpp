// What N replicas compute equals one model that runs the N chunks in replica order.
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "parallel/chunk_reference.h"
#include "parallel/data_parallel.h"
#include "parallel/small_net.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

struct Case {
  size_t replicas;
  int64_t batch;
  bool channels_last;
  at::ScalarType dtype;
};

struct Pair {
  std::shared_ptr<SmallNet> model, reference;
  std::unique_ptr<Strategy> strategy;
};

Pair make_pair(const Case& c) {
  const SmallNetOptions net{.dtype = c.dtype};
  Pair pair{.model = make_net(net, c.channels_last), .reference = make_net(net, c.channels_last)};
  pair.strategy = make_data_parallel(pair.model, twin_of(net), cpu_replicas(c.replicas, c.channels_last));
  return pair;
}

void train_both(const Pair& pair, const Case& c, int steps) {
  const auto options = torch::optim::SGDOptions(0.05).momentum(0.9);
  torch::optim::SGD optimizer(pair.model->parameters(), options), reference(pair.reference->parameters(), options);
  for (int i = 0; i < steps; ++i) {
    const Batch batch = make_batch(c.batch, static_cast<uint64_t>(i), c.dtype);
    step(*pair.strategy, batch);
    optimizer.step();
    reference_gradients(*pair.reference, batch, c.replicas, c.channels_last);
    reference.step();
  }
}

}  // namespace

TEST_CASE("two CPU replicas leave the same bits as the two chunks run in turn, over 5 steps", "[parallel]") {
  const bool channels_last = GENERATE(false, true);
  const int64_t batch = GENERATE(32, 13);
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble);
  const Case c{.replicas = 2, .batch = batch, .channels_last = channels_last, .dtype = dtype};
  CAPTURE(channels_last, batch, dtype);
  const Pair pair = make_pair(c);
  const at::Tensor before = pair.model->conv1->weight.clone();
  train_both(pair, c, 5);
  CHECK(relative_difference(pair.model->conv1->weight, before) > 1e-3);
  const auto actual = pair.strategy->full_state();
  const auto expected = make_single_device(pair.reference, cpu_replicas(1))->full_state();
  REQUIRE(actual.size() == 14);  // 8 parameters, 6 buffers
  for (size_t i = 0; i < actual.size(); ++i) {
    INFO(actual[i].first);
    CHECK(actual[i].first == expected[i].first);
    CHECK(at::equal(actual[i].second, expected[i].second));
  }
  CHECK(pair.model->conv2->weight.is_contiguous(at::MemoryFormat::ChannelsLast) == channels_last);
}

// The reference adds the chunks' gradients last to first, ReduceAdd first to last: equal but for rounding in fp64.
TEST_CASE("three and four replicas equal the chunks run in turn to 1e-11 in fp64, over 5 steps", "[parallel]") {
  const size_t replicas = GENERATE(3u, 4u);
  const bool channels_last = GENERATE(false, true);
  const int64_t batch = GENERATE(24, 22);
  const Case c{.replicas = replicas, .batch = batch, .channels_last = channels_last, .dtype = at::kDouble};
  CAPTURE(replicas, channels_last, batch);
  const Pair pair = make_pair(c);
  train_both(pair, c, 5);
  const auto actual = pair.model->named_parameters(), expected = pair.reference->named_parameters();
  for (const auto& item : actual) {
    INFO(item.key());
    CHECK(relative_difference(item.value(), expected[item.key()]) < 1e-11);
  }
  const auto statistics = pair.model->named_buffers(), expected_statistics = pair.reference->named_buffers();
  for (const auto& item : statistics) {
    INFO(item.key());
    CHECK(relative_difference(item.value(), expected_statistics[item.key()]) < 1e-11);
  }
}

// fp32 sums in another order: 1e-3 of a gradient's largest value bounds what one step can differ by.
TEST_CASE("three and four replicas' fp32 gradients of one step equal the chunks run in turn to 1e-3", "[parallel]") {
  const size_t replicas = GENERATE(3u, 4u);
  const bool channels_last = GENERATE(false, true);
  const int64_t batch = GENERATE(24, 22);
  const Case c{.replicas = replicas, .batch = batch, .channels_last = channels_last, .dtype = at::kFloat};
  CAPTURE(replicas, channels_last, batch);
  const Pair pair = make_pair(c);
  const Batch data = make_batch(c.batch);
  step(*pair.strategy, data);
  reference_gradients(*pair.reference, data, replicas, channels_last);
  const auto actual = pair.model->named_parameters(), expected = pair.reference->named_parameters();
  for (const auto& item : actual) {
    INFO(item.key());
    CHECK(relative_difference(item.value().grad(), expected[item.key()].grad()) < 1e-3);
  }
}

TEST_CASE("updating every copy by itself and updating the primary, then copying, give the same bits", "[parallel]") {
  const std::string kind = GENERATE("sgd", "adam");
  CAPTURE(kind);
  const auto make_optimizer = [&](std::vector<at::Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
    if (kind == "sgd") {
      return std::make_unique<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(0.05).momentum(0.9));
    }
    return std::make_unique<torch::optim::Adam>(std::move(parameters), torch::optim::AdamOptions(1e-2));
  };
  const SmallNetOptions options;
  SelfUpdatingCopies chapter({make_net(options), make_net(options)}, [&](Classifier& copy) {
    const std::shared_ptr<torch::optim::Optimizer> optimizer = make_optimizer(copy.parameters());
    return [optimizer] { optimizer->step(); };
  });
  const auto model = make_net(options);
  const auto card = make_data_parallel(model, twin_of(options), cpu_replicas(2));
  const auto optimizer = make_optimizer(model->parameters());
  for (uint64_t i = 0; i < 5; ++i) {
    const Batch batch = make_batch(16, i);
    chapter.step(batch);
    step(*card, batch);
    optimizer->step();
  }
  for (const auto& item : model->named_parameters()) {
    INFO(item.key());
    for (const auto& copy : chapter.copies) CHECK(at::equal(item.value(), copy->named_parameters()[item.key()]));
  }
  for (const auto& item : model->named_buffers()) {
    CHECK(at::equal(item.value(), chapter.copies[0]->named_buffers()[item.key()]));
  }
}

}  // namespace mgtrain::test
