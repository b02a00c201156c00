// Ranks compute what one device computes on the whole batch, and stay equal bit for bit.
#include "parallel/mesh_strategy.h"

#include <cstdlib>

#include "base/error.h"
#include "base/random.h"
#include "model/make_model.h"
#include "parallel/chunk_reference.h"
#include "parallel/small_net.h"
#include "support/catch.h"
#include "support/counting_group.h"
#include "support/run_ranks.h"

namespace mgtrain::test {
namespace {

/// The part of a batch that a rank gets.
Batch part_of(const Batch& batch, int64_t rank, int64_t ranks) {
  const ShareOfRank share = share_of_rank(batch.count(), rank, ranks);
  return {.images = batch.images.narrow(0, share.first, share.count),
          .labels = batch.labels.narrow(0, share.first, share.count),
          .samples = {batch.samples.begin() + share.first, batch.samples.begin() + share.first + share.count}};
}

MeshStrategy make_rank(const std::shared_ptr<Classifier>& model, const Group& group, MeshOptions mesh = {},
                       bool channels_last = false) {
  mesh.group = group;
  StrategyOptions options = cpu_replicas(1, channels_last);
  options.device_labels = {"cpu replica " + std::to_string(group->getRank())};
  return {model, options, mesh};
}

/// What the ranks have after some steps, by rank.
using States = std::vector<NamedTensors>;

NamedTensors copied(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.emplace_back(name, tensor.detach().clone());
  return copies;
}

NamedTensors gradients_of(Strategy& strategy) {
  NamedTensors gradients;
  for (const auto& [name, parameter] : strategy.trainable_parameters()) gradients.emplace_back(name, parameter.grad());
  return copied(gradients);
}

double largest_difference(const NamedTensors& actual, const NamedTensors& expected) {
  REQUIRE(actual.size() == expected.size());
  double largest = 0;
  for (size_t i = 0; i < actual.size(); ++i)
    largest = std::max(largest, relative_difference(actual[i].second, expected[i].second));
  return largest;
}

bool same_bits(const NamedTensors& one, const NamedTensors& other) {
  for (size_t i = 0; i < one.size(); ++i)
    if (!at::equal(one[i].second, other[i].second)) return false;
  return one.size() == other.size();
}

/// A step as it is cut in time.
using Step = std::vector<Batch>;

struct Case {
  int ranks;
  SmallNetOptions net;
  std::vector<Step> steps;
  bool bfloat16 = false, sync_batch_norm = false;
};

constexpr double kRate = 0.05, kMomentum = 0.9;

void update(const NamedTensors& parameters, std::vector<at::Tensor>& momentum) {
  const torch::NoGradGuard no_gradients;
  for (size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor parameter = parameters[i].second;
    if (momentum.size() == i) momentum.push_back(at::zeros_like(parameter));
    momentum[i].mul_(kMomentum).add_(parameter.grad());
    parameter.sub_(momentum[i], kRate);
  }
}

struct Outcome {
  States states, first_gradients;
  std::vector<double> loss_sums;  // of the first step, by rank
};

Outcome train_on_ranks(const Case& c) {
  const auto count = static_cast<size_t>(c.ranks);
  Outcome outcome{.states = States(count), .first_gradients = States(count), .loss_sums = std::vector<double>(count)};
  std::vector<std::shared_ptr<SmallNet>> nets;  // made in turn: the generator is the process's
  for (int rank = 0; rank < c.ranks; ++rank) nets.push_back(make_net(c.net));
  on_ranks(c.ranks, [&](int rank, const Group& group) {
    const auto at = static_cast<size_t>(rank);
    MeshStrategy strategy =
        make_rank(nets[at], group, {.sync_batch_norm = c.sync_batch_norm, .bfloat16_gradients = c.bfloat16});
    std::vector<at::Tensor> momentum;
    for (const Step& step : c.steps) {
      Step own;
      int64_t all = 0;
      for (const Batch& batch : step) {
        own.push_back(part_of(batch, rank, c.ranks));
        all += batch.count();
      }
      const StepSums sums = strategy.forward_backward(own, all);
      if (outcome.first_gradients[at].empty()) {
        outcome.first_gradients[at] = gradients_of(strategy);
        outcome.loss_sums[at] = strategy.sum_over_ranks(sums.loss_sum.reshape({1})).item<double>();
      }
      update(strategy.trainable_parameters(), momentum);
    }
    strategy.prepare_evaluation();
    outcome.states[at] = copied(strategy.full_state());
  });
  return outcome;
}

/// One device on the whole batches, or micro-batches.
Outcome train_on_one(const Case& c) {
  const auto net = make_net(c.net);
  const auto strategy = make_single_device(net, cpu_replicas(1));
  Outcome outcome;
  std::vector<at::Tensor> momentum;
  for (const Step& step : c.steps) {
    int64_t all = 0;
    for (const Batch& batch : step) all += batch.count();
    const StepSums sums = strategy->forward_backward(step, all);
    if (outcome.first_gradients.empty()) {
      outcome.first_gradients.push_back(gradients_of(*strategy));
      outcome.loss_sums.push_back(sums.loss_sum.item<double>());
    }
    update(strategy->trainable_parameters(), momentum);
  }
  outcome.states.push_back(copied(strategy->full_state()));
  return outcome;
}

}  // namespace

TEST_CASE("ranks equal one device on the whole batch in fp64, whatever the shares and pieces", "[parallel]") {
  RandomStream random(17, RandomPurpose::kSyntheticImage, 0, 0);
  const char* asked = std::getenv("MGTEST_CASES");
  const int trials = asked != nullptr ? std::stoi(asked) : 40;
  double largest = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const bool norms = trial % 2 == 1;  // over all ranks: then each micro-batch of one device has the same statistics
    Case c{.ranks = 1 + static_cast<int>(random.below(4)),
           .net = {.batch_norm = norms, .dtype = at::kDouble},
           .sync_batch_norm = norms};
    const uint32_t pieces = 1 + random.below(3);
    for (uint64_t step = 0; step < 5; ++step) {
      Step batches;
      for (uint32_t piece = 0; piece < pieces; ++piece)
        batches.push_back(
            make_batch(1 + random.below(9), 100 * static_cast<uint64_t>(trial) + 10 * step + piece, at::kDouble));
      c.steps.push_back(std::move(batches));
    }
    CAPTURE(trial, c.ranks, pieces, norms);
    const Outcome actual = train_on_ranks(c), expected = train_on_one(c);
    // Sums over samples in another order: some 1e-11 after five steps.
    const double difference = largest_difference(actual.states[0], expected.states[0]);
    CHECK(difference < 1e-9);
    largest = std::max(largest, difference);
    CHECK(std::abs(actual.loss_sums[0] / expected.loss_sums[0] - 1) < 1e-12);
    for (const NamedTensors& state : actual.states) CHECK(same_bits(state, actual.states[0]));
  }
  if (asked != nullptr) WARN(trials << " cases: largest difference " << largest);
}

TEST_CASE("in fp32 the ranks' first gradients equal one device's to 1e-3", "[parallel]") {
  const bool norms = GENERATE(false, true);
  Case c{.ranks = 3, .net = {.batch_norm = norms}, .sync_batch_norm = norms};
  c.steps = {{make_batch(10, 1)}};
  CAPTURE(norms);
  CHECK(largest_difference(train_on_ranks(c).first_gradients[2], train_on_one(c).first_gradients[0]) < 1e-3);
}

TEST_CASE("two ranks with BatchNorm leave the gradients of the two chunks run in turn, and rank 0's statistics",
          "[parallel]") {
  const SmallNetOptions net{.dtype = at::kDouble};
  Case c{.ranks = 2, .net = net};
  c.steps = {{make_batch(9, 1, at::kDouble)}};
  const Outcome actual = train_on_ranks(c);
  const auto reference = make_net(net);
  reference_gradients(*reference, c.steps[0][0], 2, false);
  for (const auto& [name, gradient] : actual.first_gradients[0]) {
    INFO(name);
    CHECK(relative_difference(gradient, reference->named_parameters()[name].grad()) < 1e-12);  // order of two sums
  }
  for (const auto& [name, tensor] : actual.states[1]) {
    const at::Tensor* buffer = reference->named_buffers().find(name);
    INFO(name);
    if (buffer != nullptr) CHECK(relative_difference(tensor, *buffer) < 1e-12);
  }
}

TEST_CASE("an empty rank leaves its own statistics alone, and a run repeats its bits", "[parallel]") {
  Case c{.ranks = 4, .net = {.width = 4}};
  c.steps = {{make_batch(8, 1)}, {make_batch(3, 2)}, {make_batch(8, 3), make_batch(2, 4)}};
  const Outcome first = train_on_ranks(c);
  for (int run = 0; run < 3; ++run) CHECK(same_bits(train_on_ranks(c).states[3], first.states[0]));
}

TEST_CASE(
    "a rank without samples joins the norms of all in any micro-batch, and has their statistics without a broadcast",
    "[parallel]") {
  Case c{.ranks = 3, .net = {.width = 4, .dtype = at::kDouble}, .sync_batch_norm = true};
  const auto batch = [](int64_t count, uint64_t seed) { return make_batch(count, seed, at::kDouble); };
  c.steps = {{batch(2, 1), batch(6, 2)}, {batch(6, 3), batch(1, 4)}, {batch(1, 5), batch(2, 6), batch(1, 7)}};
  const Outcome actual = train_on_ranks(c), expected = train_on_one(c);
  CHECK(largest_difference(actual.states[2], expected.states[0]) < 1e-9);  // sums in another order
  for (const NamedTensors& state : actual.states) CHECK(same_bits(state, actual.states[0]));
}

TEST_CASE(
    "norms of all ranks are a strategy's: evaluation is without a collective, and the model goes without after it",
    "[parallel]") {
  std::vector<std::shared_ptr<SmallNet>> nets = {make_net({}), make_net({})};
  const Batch all = make_batch(5);
  std::vector<at::Tensor> logits(2);
  std::vector<int> gathers(2);
  on_ranks(2, [&](int rank, const Group& group) {
    const auto at = static_cast<size_t>(rank);
    const auto counting = c10::make_intrusive<CountingGroup>(group);
    MeshStrategy strategy = make_rank(nets[at], group, {.sync_batch_norm = true});
    nets[at]->set_norm_group(counting);
    const Batch own = part_of(all, rank, 2);
    strategy.forward_backward({&own, 1}, 5);
    if (rank == 0) logits[0] = strategy.evaluate(all).logits_NK;
    if (rank == 0) logits[1] = strategy.evaluate(part_of(all, 0, 5)).logits_NK;
    gathers[at] = counting->gathers;
  });
  CHECK(gathers == std::vector<int>{2, 2});                                 // one a norm
  CHECK(relative_difference(logits[1], logits[0].narrow(0, 0, 1)) < 1e-5);  // an image's logits are its own, in fp32
  const auto alone = make_single_device(nets[1], cpu_replicas(1));
  CHECK_NOTHROW(step(*alone, all));  // no rank is left to wait for
}

TEST_CASE("a classifier that cannot share its norms refuses to", "[parallel]") {
  class Plain final : public Classifier {
   public:
    Plain() { weight = register_parameter("weight", at::ones({1})); }
    at::Tensor forward(at::Tensor x) override { return x.flatten(1) * weight; }
    at::Tensor weight;
  };
  const auto net = std::make_shared<Plain>();
  CHECK_THROWS_AS(on_ranks(1, [&](int, const Group& group) { make_rank(net, group, {.sync_batch_norm = true}); }),
                  std::logic_error);
}

TEST_CASE("gradients that travel as bfloat16 have its precision, alike on all ranks", "[parallel]") {
  Case c{.ranks = 2, .net = {.batch_norm = false}};
  c.steps = {{make_batch(16, 1)}};
  const NamedTensors exact = train_on_ranks(c).first_gradients[0];
  c.bfloat16 = true;
  const Outcome rounded = train_on_ranks(c);
  const double difference = largest_difference(rounded.first_gradients[0], exact);
  CHECK(difference > 1e-6);
  CHECK(difference < 1.0 / 128);  // two roundings to 8 bits of mantissa
  CHECK(same_bits(rounded.first_gradients[0], rounded.first_gradients[1]));
}

TEST_CASE("ranks start with the first one's weights, and refuse another model", "[parallel]") {
  std::vector<std::shared_ptr<SmallNet>> nets = {make_net({}), make_net({})};
  const at::Tensor wanted = nets[0]->conv1->weight.detach().clone();
  nets[1]->conv1->weight.data().fill_(7);
  on_ranks(2, [&](int rank, const Group& group) { make_rank(nets[static_cast<size_t>(rank)], group); });
  CHECK(at::equal(nets[1]->conv1->weight, wanted));

  nets[1] = make_net({.width = 9});
  CHECK_THROWS_WITH(
      on_ranks(2, [&](int rank, const Group& group) { make_rank(nets[static_cast<size_t>(rank)], group); }),
      Catch::Contains("rank 1 has another model than rank 0"));
}

TEST_CASE("a rank that fails ends all, with its device and error", "[parallel]") {
  const int failing = GENERATE(0, 2);
  const bool memory = GENERATE(false, true);
  CAPTURE(failing, memory);
  std::vector<std::shared_ptr<SmallNet>> nets;
  for (int rank = 0; rank < 3; ++rank) nets.push_back(make_net({}));
  std::string text;
  ExitCode code = ExitCode::kDone;
  try {
    on_ranks(3, [&](int rank, const Group& group) {
      auto net = nets[static_cast<size_t>(rank)];
      MeshStrategy strategy = make_rank(net, group);
      const Batch batch = part_of(make_batch(9), rank, 3);
      strategy.forward_backward({&batch, 1}, 9);
      if (rank == failing) {
        net->fc->weight.register_hook([memory](const at::Tensor&) {
          if (memory) throw std::bad_alloc();
          throw std::runtime_error("planted");
        });
      }
      strategy.forward_backward({&batch, 1}, 9);
    });
  } catch (const Error& error) {
    text = error.what();
    code = error.code();
  }
  CHECK(text.find("cpu replica " + std::to_string(failing)) != std::string::npos);
  CHECK(code == (memory ? ExitCode::kOutOfMemory : ExitCode::kDevice));
}

}  // namespace mgtrain::test
