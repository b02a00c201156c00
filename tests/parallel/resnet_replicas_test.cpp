// The network that is trained, with the optimizers that train it: N replicas equal the N chunks run in turn.
#include "model/make_model.h"
#include "optim/optimizer.h"
#include "parallel/chunk_reference.h"
#include "parallel/small_net.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

struct Case {
  size_t replicas;
  int64_t batch, width;
  bool channels_last;
  at::ScalarType dtype;
  std::string optimizer;
};

std::shared_ptr<ResNet> make_resnet(const Case& c) {
  return make_model(make_resnet_spec("resnet18", c.width, "cifar", 3, 16, 16, 5), {}, /*seed=*/7, c.dtype,
                    c.channels_last);
}

Batch images_16(int64_t count, uint64_t seed, at::ScalarType dtype) {
  Batch batch = make_batch(count, seed, dtype);
  torch::manual_seed(seed);
  batch.images = torch::randn({count, 3, 16, 16}, dtype);
  return batch;
}

NamedTensors parameters_of(Classifier& model) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters()) parameters.emplace_back(item.key(), item.value());
  return parameters;
}

struct Pair {
  std::shared_ptr<ResNet> model, reference;
  std::unique_ptr<Strategy> strategy;
};

OptimConfig optim_config(const std::string& optimizer) {
  OptimConfig config;
  config.optimizer = optimizer;
  return config;
}

Pair train_both(const Case& c, int steps) {
  Pair pair{.model = make_resnet(c), .reference = make_resnet(c)};
  pair.strategy = make_data_parallel(pair.model, cpu_replicas(c.replicas, c.channels_last));
  const OptimConfig config = optim_config(c.optimizer);
  Optimizer optimizer(config, pair.strategy->trainable_parameters()), reference(config, parameters_of(*pair.reference));
  for (int i = 0; i < steps; ++i) {
    const Batch batch = images_16(c.batch, static_cast<uint64_t>(i), c.dtype);
    step(*pair.strategy, batch);
    reference_gradients(*pair.reference, batch, c.replicas, c.channels_last);
    optimizer.step(0.05, {});
    reference.step(0.05, {});
  }
  return pair;
}

}  // namespace

TEST_CASE("ResNet18 on two CPU replicas leaves the bits of the two chunks run in turn, over 5 steps", "[parallel]") {
  const std::string optimizer = GENERATE("sgd", "adam");
  const int64_t batch = GENERATE(16, 13);
  const bool channels_last = GENERATE(false, true);
  CAPTURE(optimizer, batch, channels_last);
  const Pair pair = train_both({.replicas = 2,
                                .batch = batch,
                                .width = channels_last ? 16 : 8,  // narrower nets run in nchw
                                .channels_last = channels_last,
                                .dtype = at::kFloat,
                                .optimizer = optimizer},
                               5);
  const auto expected = make_single_device(pair.reference, cpu_replicas(1))->full_state();
  const auto actual = pair.strategy->full_state();
  REQUIRE(actual.size() == 122);  // 62 parameters, 60 buffers
  const auto start = make_resnet({.width = pair.model->spec().width, .dtype = at::kFloat})->named_parameters();
  for (const auto& item : start) {
    INFO(item.key());
    CHECK(relative_difference(pair.model->named_parameters()[item.key()], item.value()) > 1e-3);  // it has trained
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    INFO(actual[i].first);
    CHECK(actual[i].first == expected[i].first);
    CHECK(at::equal(actual[i].second, expected[i].second));
  }
}

TEST_CASE("ResNet18 on three and four replicas: to 1e-11 in fp64 after 5 steps, gradients to 1e-3 in fp32 after one",
          "[parallel]") {
  const size_t replicas = GENERATE(3u, 4u);
  const bool channels_last = GENERATE(false, true);
  CAPTURE(replicas, channels_last);
  const Pair exact = train_both({.replicas = replicas,
                                 .batch = 14,
                                 .width = 8,
                                 .channels_last = channels_last,
                                 .dtype = at::kDouble,
                                 .optimizer = "sgd"},
                                5);
  const auto expected = make_single_device(exact.reference, cpu_replicas(1))->full_state();
  const auto actual = exact.strategy->full_state();
  for (size_t i = 0; i < actual.size(); ++i) {
    INFO(actual[i].first);
    CHECK(relative_difference(actual[i].second, expected[i].second) < 1e-11);
  }
  const Pair one_step = train_both({.replicas = replicas,
                                    .batch = 14,
                                    .width = 16,
                                    .channels_last = channels_last,
                                    .dtype = at::kFloat,
                                    .optimizer = "sgd"},
                                   1);
  const auto gradients = one_step.model->named_parameters(), wanted = one_step.reference->named_parameters();
  for (const auto& item : gradients) {
    INFO(item.key());
    CHECK(relative_difference(item.value().grad(), wanted[item.key()].grad()) < 1e-3);
  }
}

TEST_CASE("copies of ResNet18 that update themselves leave the bits of updating the primary and copying",
          "[parallel]") {
  const std::string kind = GENERATE("sgd", "adam");
  const bool channels_last = GENERATE(false, true);
  CAPTURE(kind, channels_last);
  const Case c{.width = channels_last ? 16 : 8, .channels_last = channels_last, .dtype = at::kFloat};
  const OptimConfig config = optim_config(kind);
  SelfUpdatingCopies chapter({make_resnet(c), make_resnet(c)}, [&](Classifier& copy) {
    const auto optimizer = std::make_shared<Optimizer>(config, parameters_of(copy));
    return [optimizer] { optimizer->step(0.05, {}); };
  });
  const auto model = make_resnet(c);
  const auto strategy = make_data_parallel(model, cpu_replicas(2, channels_last));
  Optimizer optimizer(config, strategy->trainable_parameters());
  for (uint64_t i = 0; i < 5; ++i) {
    const Batch batch = images_16(13, i, c.dtype);
    chapter.step(batch, channels_last);
    step(*strategy, batch);
    optimizer.step(0.05, {});
  }
  for (const auto& copy : chapter.copies) {
    const auto expected = copy->named_parameters();
    for (const auto& item : model->named_parameters()) {
      INFO(item.key());
      CHECK(at::equal(item.value(), expected[item.key()]));
    }
  }
  const auto statistics = chapter.copies[0]->named_buffers();
  for (const auto& item : model->named_buffers()) {
    INFO(item.key());
    CHECK(at::equal(item.value(), statistics[item.key()]));
  }
}

}  // namespace mgtrain::test
