// Ranks that normalise together, against torch's BatchNorm on the concatenated batch.
#include "comm/sync_batch_norm.h"

#include <ATen/OpMathType.h>
#include <ATen/autocast_mode.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "support/counting_group.h"
#include "support/run_ranks.h"

namespace mgtrain::test {
namespace {

using Shares = std::vector<int64_t>;  // samples of each rank
using Layer = std::shared_ptr<torch::nn::BatchNorm2dImpl>;

struct Setting {
  at::ScalarType dtype = at::kDouble;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  std::optional<double> momentum = 0.1;
  bool affine = true, track = true, autocast = false;
};

/// What a step leaves: y, dx of the whole batch; the layer's gradients and statistics.
struct Result {
  at::Tensor y, dx, dweight, dbias;
  std::vector<at::Tensor> statistics;  // running mean, running variance, number of batches
};

struct Data {
  at::Tensor x_NCHW, dy_NCHW;
};

Data draw(int64_t samples, int64_t channels = 5, int64_t side = 4) {
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({samples, channels, side, side}, at::kDouble);
  const at::Tensor sample = torch::arange(samples, at::kDouble).view({-1, 1, 1, 1});
  // Samples, and so ranks, differ in mean and spread.
  return {.x_NCHW = x * (1 + sample / 4) + sample, .dy_NCHW = torch::randn(x.sizes(), at::kDouble)};
}

Layer make_layer(int64_t channels, const Setting& setting) {
  torch::manual_seed(4);
  const auto layer = std::make_shared<torch::nn::BatchNorm2dImpl>(torch::nn::BatchNormOptions(channels)
                                                                      .momentum(setting.momentum)
                                                                      .affine(setting.affine)
                                                                      .track_running_stats(setting.track));
  const torch::NoGradGuard no_gradients;
  if (setting.affine) {
    layer->weight.uniform_(0.5, 2);
    layer->bias.uniform_(-1, 1);
  }
  const at::ScalarType dtype = at::toOpMathType(setting.dtype);
  for (at::Tensor& tensor : layer->parameters()) tensor.set_data(tensor.to(dtype));
  for (at::Tensor& tensor : layer->buffers())
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(dtype));
  return layer;
}

template <class Forward>
Result step(const Layer& layer, const at::Tensor& x_NCHW, const at::Tensor& dy_NCHW, const Setting& setting,
            const Forward& forward) {
  const at::Tensor x = x_NCHW.clone(setting.format).to(setting.dtype).requires_grad_();
  const at::Tensor dy = dy_NCHW.clone(setting.format).to(setting.dtype);
  Result result;
  result.y = forward(x);
  if (setting.affine) layer->zero_grad();
  result.y.backward(dy);
  result.dx = x.grad();
  if (setting.affine) {
    result.dweight = layer->weight.grad().clone();
    result.dbias = layer->bias.grad().clone();
  }
  if (setting.track)
    result.statistics = {layer->running_mean.clone(), layer->running_var.clone(), layer->num_batches_tracked.clone()};
  return result;
}

/// The same step twice on each rank; what each has after the second.
std::vector<Result> on_shares(const Shares& shares, const Data& data, const Setting& setting) {
  std::vector<Layer> layers;
  for (size_t rank = 0; rank < shares.size(); ++rank) layers.push_back(make_layer(data.x_NCHW.size(1), setting));
  const auto x = data.x_NCHW.split_with_sizes(shares), dy = data.dy_NCHW.split_with_sizes(shares);
  std::vector<Result> results(shares.size());
  on_ranks(static_cast<int>(shares.size()), [&](int rank, const Group& group) {
    at::autocast::set_autocast_enabled(at::kCPU, setting.autocast);
    const auto at = static_cast<size_t>(rank);
    for (int repeat = 0; repeat < 2; ++repeat) {
      results[at] = step(layers[at], x[at], dy[at], setting,
                         [&](const at::Tensor& own) { return sync_batch_norm(*layers[at], own, group); });
    }
    at::autocast::set_autocast_enabled(at::kCPU, false);
  });
  return results;
}

/// One rank's view of all: batches put together, gradients summed, statistics of the first one.
Result whole(const std::vector<Result>& ranks) {
  Result all = ranks[0];
  std::vector<at::Tensor> y, dx;
  for (const Result& rank : ranks) y.push_back(rank.y), dx.push_back(rank.dx);
  all.y = at::cat(y);
  all.dx = at::cat(dx);
  for (size_t rank = 1; rank < ranks.size() && all.dweight.defined(); ++rank) {
    all.dweight = all.dweight + ranks[rank].dweight;
    all.dbias = all.dbias + ranks[rank].dbias;
  }
  return all;
}

/// torch's BatchNorm on the whole batch, in fp64 whatever the setting.
Result by_torch(const Data& data, Setting setting) {
  setting.dtype = at::kDouble;
  const Layer layer = make_layer(data.x_NCHW.size(1), setting);
  Result result;
  for (int repeat = 0; repeat < 2; ++repeat) {
    result = step(layer, data.x_NCHW, data.dy_NCHW, setting, [&](const at::Tensor& x) { return layer->forward(x); });
  }
  return result;
}

/// Largest difference over the largest value of what is expected.
double difference(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.detach().to(at::kDouble), e = expected.detach().to(at::kDouble);
  return (a - e).abs().max().item<double>() / e.abs().max().item<double>();
}

double largest_difference(const Result& actual, const Result& expected) {
  double largest = std::max(difference(actual.y, expected.y), difference(actual.dx, expected.dx));
  if (expected.dweight.defined()) {
    largest = std::max(largest, difference(actual.dweight, expected.dweight));
    largest = std::max(largest, difference(actual.dbias, expected.dbias));
  }
  for (size_t i = 0; i < expected.statistics.size(); ++i)
    largest = std::max(largest, difference(actual.statistics[i], expected.statistics[i]));
  return largest;
}

bool same_statistics(const std::vector<Result>& ranks) {
  for (const Result& rank : ranks)
    for (size_t i = 0; i < rank.statistics.size(); ++i)
      if (!at::equal(rank.statistics[i], ranks[0].statistics[i])) return false;
  return true;
}

int64_t total(const Shares& shares) { return std::accumulate(shares.begin(), shares.end(), int64_t{0}); }

}  // namespace

TEST_CASE("ranks normalise as torch's BatchNorm does the whole batch, whatever the shares", "[comm]") {
  const Shares shares = GENERATE(Shares{4}, Shares{3, 3}, Shares{5, 1}, Shares{1, 4, 2}, Shares{1, 1}, Shares{0, 3},
                                 Shares{3, 0}, Shares{2, 0, 1, 0}, Shares{0, 0, 1}, Shares{2, 2, 2, 2});
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  const std::optional<double> momentum = GENERATE(std::optional<double>(0.1), std::optional<double>());
  CAPTURE(shares, format, momentum.value_or(-1));
  const Data data = draw(total(shares));
  const Setting setting{.format = format, .momentum = momentum};
  const std::vector<Result> ranks = on_shares(shares, data, setting);
  CHECK(largest_difference(whole(ranks), by_torch(data, setting)) < 1e-12);  // fp64; sums in another order
  CHECK(same_statistics(ranks));
  CHECK(ranks[0].statistics[2].item<int64_t>() == 2);
  for (const Result& rank : ranks) CHECK(rank.y.is_contiguous(format));
}

TEST_CASE("a layer without weights, or without running statistics, is normalised as well", "[comm]") {
  const Setting setting = GENERATE(Setting{.affine = false}, Setting{.track = false});
  const Data data = draw(5);
  CHECK(largest_difference(whole(on_shares({3, 0, 2}, data, setting)), by_torch(data, setting)) < 1e-12);
}

TEST_CASE("in fp32 ranks normalise to 1e-5 of fp64", "[comm]") {
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  CAPTURE(format);
  const Data data = draw(9, 16, 8);
  const Setting setting{.dtype = at::kFloat, .format = format};
  // Some 100 roundings of 6e-8, of sums that are near the largest value.
  CHECK(largest_difference(whole(on_shares({4, 2, 3}, data, setting)), by_torch(data, setting)) < 1e-5);
}

TEST_CASE("a variance far below the mean keeps its digits in fp32, as does a mean of many values", "[comm]") {
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  CAPTURE(format);
  torch::manual_seed(5);
  // Rounded here, so that the reference sees the same values. 128 x 32 x 32 values a channel, in many pieces.
  const at::Tensor x = (torch::randn({128, 16, 32, 32}, at::kFloat) + 1000).to(at::kDouble);
  const Data data{.x_NCHW = x, .dy_NCHW = torch::ones_like(x)};
  const Setting setting{.dtype = at::kFloat, .format = format, .momentum = 1};
  const Result actual = whole(on_shares({100, 28}, data, setting)), expected = by_torch(data, setting);
  // E[x^2] - E[x]^2 in fp32 would be off by 1e6 * 6e-8 = 0.06.
  CHECK(difference(actual.statistics[1], expected.statistics[1]) < 1e-4);
  // Sums in float over all of a rank's values are off by 1e-5 and more.
  CHECK(difference(actual.statistics[0], expected.statistics[0]) < 2e-6);
}

TEST_CASE("sixteen-bit activations have statistics and weight gradients in fp32, under autocast too", "[comm]") {
  const auto dtype = GENERATE(at::kBFloat16, at::kHalf);
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  CAPTURE(dtype, format);
  Data data = draw(6, 16, 8);
  data.x_NCHW = data.x_NCHW.to(dtype).to(at::kDouble);  // what the ranks see
  data.dy_NCHW = data.dy_NCHW.to(dtype).to(at::kDouble);
  Setting setting{.dtype = dtype, .format = format};
  const std::vector<Result> ranks = on_shares({3, 0, 3}, data, setting);
  const Result actual = whole(ranks), expected = by_torch(data, setting);
  CHECK(actual.y.scalar_type() == dtype);
  CHECK(actual.dx.scalar_type() == dtype);
  const double rounding = dtype == at::kBFloat16 ? 1.0 / 256 : 1.0 / 2048;
  CHECK(difference(actual.y, expected.y) < rounding);        // one rounding
  CHECK(difference(actual.dx, expected.dx) < 2 * rounding);  // one of each of two terms
  CHECK(difference(actual.dweight, expected.dweight) < 1e-5);
  CHECK(difference(actual.dbias, expected.dbias) < 1e-5);
  for (size_t i = 0; i < 3; ++i) CHECK(difference(actual.statistics[i], expected.statistics[i]) < 1e-5);
  setting.autocast = true;
  const Result autocast = whole(on_shares({3, 0, 3}, data, setting));
  CHECK(at::equal(autocast.y, actual.y));
  CHECK(at::equal(autocast.dx, actual.dx));
}

TEST_CASE("x may be a cut of a larger tensor and dy an expanded one", "[comm]") {
  const Data data = draw(4);
  const Setting setting;
  std::vector<Layer> layers = {make_layer(5, setting), make_layer(5, setting)};
  std::vector<at::Tensor> dx(2);
  on_ranks(2, [&](int rank, const Group& group) {
    const auto at = static_cast<size_t>(rank);
    at::Tensor larger = at::zeros({2, 5, 4, 9}, at::kDouble);
    larger.narrow(3, 3, 4).copy_(data.x_NCHW.narrow(0, 2 * rank, 2));
    larger.requires_grad_();
    const at::Tensor y = sync_batch_norm(*layers[at], larger.narrow(3, 3, 4), group);
    y.backward(data.dy_NCHW.select(3, 0).unsqueeze(3).expand_as(data.x_NCHW).narrow(0, 2 * rank, 2));
    dx[at] = larger.grad().narrow(3, 3, 4);
  });
  const Layer layer = make_layer(5, setting);
  const at::Tensor x = data.x_NCHW.clone().requires_grad_();
  layer->forward(x).backward(data.dy_NCHW.select(3, 0).unsqueeze(3).expand_as(x));
  CHECK(difference(at::cat(dx), x.grad()) < 1e-12);
}

TEST_CASE("a layer costs one collective forward and one backward, and none backward where x needs no gradient",
          "[comm]") {
  const bool differentiate = GENERATE(true, false);
  const Data data = draw(3);
  std::vector<Layer> layers = {make_layer(5, {}), make_layer(5, {})};
  std::vector<std::pair<int, int>> forward(2), all(2);
  on_ranks(2, [&](int rank, const Group& group) {
    const auto at = static_cast<size_t>(rank);
    const auto counting = c10::make_intrusive<CountingGroup>(group);
    const at::Tensor x = data.x_NCHW.narrow(0, rank, 2 - rank).clone().requires_grad_(differentiate);
    const at::Tensor y = sync_batch_norm(*layers[at], x, counting);
    forward[at] = {counting->gathers, counting->reductions};
    y.sum().backward();
    all[at] = {counting->gathers, counting->reductions};
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(forward[rank] == std::pair(1, 0));
    CHECK(all[rank] == std::pair(1, differentiate ? 1 : 0));
    CHECK(layers[rank]->weight.grad().defined());
  }
}

TEST_CASE("repeated runs leave the same bits, and a world of one those of the layer", "[comm]") {
  const Setting setting{.dtype = at::kFloat};
  const Data data = draw(9, 8, 8);
  const auto bits = [&](const Shares& shares) {
    const Result result = whole(on_shares(shares, data, setting));
    return std::vector<at::Tensor>{
        result.y, result.dx, result.dweight, result.dbias, result.statistics[0], result.statistics[1]};
  };
  const auto same = [](const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
    return std::equal(one.begin(), one.end(), other.begin(),
                      [](const auto& a, const auto& b) { return at::equal(a, b); });
  };
  const auto first = bits({2, 4, 3});
  for (int run = 0; run < 10; ++run) CHECK(same(bits({2, 4, 3}), first));

  const Layer layer = make_layer(8, setting);
  Result alone;
  for (int repeat = 0; repeat < 2; ++repeat) {
    alone = step(layer, data.x_NCHW, data.dy_NCHW, setting, [&](const at::Tensor& x) { return layer->forward(x); });
  }
  CHECK(same(bits({9}), {alone.y, alone.dx, alone.dweight, alone.dbias, alone.statistics[0], alone.statistics[1]}));
}

TEST_CASE("a NaN of one rank reaches all, an empty one too", "[comm]") {
  Data data = draw(4);
  data.x_NCHW[3][2][0][0] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Result> ranks = on_shares({2, 0, 2}, data, {});
  for (const Result& rank : ranks) {
    CHECK(rank.statistics[0].isnan().sum().item<int64_t>() == 1);
    CHECK(rank.statistics[0][2].isnan().item<bool>());
  }
  CHECK(ranks[0].y.select(1, 2).isnan().all().item<bool>());
}

}  // namespace mgtrain::test
