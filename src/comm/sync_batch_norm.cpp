#include "comm/sync_batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

namespace mgtrain {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What the CPU's kernels work on at once: little enough to be in the cache when it is read again, and for their sums,
/// which in channels-last order are of x's own type. Sums over pieces are taken in float64.
constexpr int64_t kPieceElements = int64_t{1} << 17;

/// [first, end) of the samples of each piece.
std::vector<std::pair<int64_t, int64_t>> pieces_of(const at::Tensor& x_NCHW) {
  const int64_t samples = x_NCHW.size(0);
  if (x_NCHW.numel() == 0) return {};
  const int64_t most = x_NCHW.is_cpu() ? std::max<int64_t>(1, kPieceElements / (x_NCHW.numel() / samples)) : samples;
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (int64_t first = 0; first < samples; first += most) pieces.emplace_back(first, std::min(samples, first + most));
  return pieces;
}

// Statistics are a row of 2 C + 1 float64: means, sums of squared differences from them, and how many values a channel
// they are of. A row of zeros is of none.

struct Row {
  explicit Row(const at::Tensor& rows) {
    const int64_t channels = (rows.size(-1) - 1) / 2;
    mean = rows.narrow(-1, 0, channels);
    squares = rows.narrow(-1, channels, channels);
    count = rows.narrow(-1, 2 * channels, 1);
  }
  at::Tensor mean, squares, count;
};

/// Rows as one: Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances",
/// 1979. In the order of the rows, so each rank gets the same bits of the same ones.
at::Tensor together(const at::Tensor& rows) {
  if (rows.size(0) == 1) return rows[0];
  const Row part(rows);
  const at::Tensor count = part.count.sum(0);
  const at::Tensor mean = (part.mean * part.count).sum(0) / count;
  const at::Tensor squares = (part.squares + (part.mean - mean).square() * part.count).sum(0);
  return at::cat({mean, squares, count});
}

at::Tensor own_statistics(const at::Tensor& x_NCHW, at::ScalarType dtype) {
  const int64_t channels = x_NCHW.size(1);
  const auto pieces = pieces_of(x_NCHW);
  if (pieces.empty()) return at::zeros({2 * channels + 1}, x_NCHW.options().dtype(at::kDouble));
  const at::Tensor rows =
      at::empty({static_cast<int64_t>(pieces.size()), 2 * channels + 1}, x_NCHW.options().dtype(at::kDouble));
  // Running statistics that nobody reads: their type is that of the result.
  const at::Tensor unused = at::zeros({2, channels}, x_NCHW.options().dtype(dtype));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto [first, end] = pieces[i];
    const auto [mean, variance] =
        at::batch_norm_update_stats(x_NCHW.slice(0, first, end), unused[0], unused[1], /*momentum=*/0);
    const double count = static_cast<double>((end - first) * x_NCHW.size(2) * x_NCHW.size(3));
    const Row row(rows[static_cast<int64_t>(i)]);
    row.mean.copy_(mean);
    row.squares.copy_(variance).mul_(count);
    row.count.fill_(count);
  }
  return together(rows);
}

at::Tensor statistics_of_all(const at::Tensor& own, const Group& group) {
  at::Tensor input = own.contiguous().unsqueeze(0);  // Gloo compares with a slice of the output
  at::Tensor rows = at::empty({group->getSize(), own.size(0)}, own.options());
  group->_allgather_base(rows, input)->wait();
  return together(rows);
}

void update_running_statistics(torch::nn::BatchNorm2dImpl& layer, const Row& all) {
  if (!layer.options.track_running_stats()) return;
  layer.num_batches_tracked.add_(1);
  const std::optional<double> momentum = layer.options.momentum();
  const at::Tensor factor = momentum ? at::full({}, *momentum, all.mean.options())
                                     : layer.num_batches_tracked.to(at::kDouble).reciprocal();  // cumulative average
  const auto move = [&](at::Tensor& running, const at::Tensor& to) {
    running.copy_(at::lerp(running.to(at::kDouble), to, factor));
  };
  move(layer.running_mean, all.mean);
  move(layer.running_var, all.squares / (all.count - 1).clamp_min(1));
}

/// y = (x - mean) / sqrt(variance + eps) * weight + bias in one pass.
at::Tensor normalised(const at::Tensor& x_NCHW, const at::Tensor& weight_C, const at::Tensor& bias_C,
                      const at::Tensor& mean_C, const at::Tensor& variance_C, double eps) {
  if (x_NCHW.numel() == 0) return at::empty_like(x_NCHW);
  return std::get<0>(at::native_batch_norm(x_NCHW, weight_C, bias_C, mean_C, variance_C, /*training=*/false,
                                           /*momentum=*/0, eps));
}

/// Normalises by statistics that are those of all ranks, and differentiates through them.
class Normalise final : public torch::autograd::Function<Normalise> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_NCHW, const at::Tensor& weight_C,
                            const at::Tensor& bias_C, const at::Tensor& mean_C, const at::Tensor& variance_C,
                            const at::Tensor& count_1, double eps, const Group& group) {
    context->save_for_backward({x_NCHW, weight_C, mean_C, variance_C, count_1});
    context->saved_data["eps"] = eps;
    context->saved_data["group"] = group;
    return normalised(x_NCHW, weight_C, bias_C, mean_C, variance_C, eps);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &variance = saved[3], &count = saved[4];
    const double eps = context->saved_data["eps"].toDouble();
    const at::Tensor dy = gradients[0].contiguous(x.suggest_memory_format());
    const at::Tensor inverse = (variance + eps).rsqrt();
    const at::Tensor sums = own_sums(x, dy, mean, inverse);
    at::Tensor dx, dweight, dbias;
    if (context->needs_input_grad(1)) dweight = sums[1].to(mean.scalar_type());
    if (context->needs_input_grad(2)) dbias = sums[0].to(mean.scalar_type());
    if (context->needs_input_grad(0)) {
      std::vector<at::Tensor> all = {sums.clone()};
      context->saved_data["group"].toCustomClass<c10d::ProcessGroup>()->allreduce(all)->wait();
      dx = input_gradient(x, dy, mean, variance, eps, weight * inverse, all[0] / count);
    }
    return {dx, dweight, dbias, {}, {}, {}, {}, {}};
  }

 private:
  /// [2, C] float64: the sums of dy and of dy times the normalised x over this rank's samples: the gradients of bias
  /// and weight.
  static at::Tensor own_sums(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& mean,
                             const at::Tensor& inverse) {
    const at::Tensor sums = at::zeros({2, x.size(1)}, mean.options().dtype(at::kDouble));
    for (const auto& [first, end] : pieces_of(x)) {
      const auto [none, product, sum] = at::native_batch_norm_backward(
          dy.slice(0, first, end), x.slice(0, first, end), /*weight=*/at::ones_like(mean), {}, {}, mean, inverse,
          /*train=*/true, /*eps=*/0, {false, true, true});
      sums[0].add_(sum);
      sums[1].add_(product);
    }
    return sums;
  }

  /// scale * (dy - mean of dy - normalised x * mean of their product); means_2C: over the samples of all ranks.
  static at::Tensor input_gradient(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& mean,
                                   const at::Tensor& variance, double eps, const at::Tensor& scale,
                                   const at::Tensor& means_2C) {
    at::Tensor dx = at::empty_like(x);
    const at::Tensor by_mean = (means_2C * scale).neg().to(mean.scalar_type());
    const at::Tensor scale_1C11 = scale.view({1, -1, 1, 1});
    for (const auto& [first, end] : pieces_of(x)) {
      at::Tensor piece = dx.slice(0, first, end);
      const at::Tensor shift = normalised(x.slice(0, first, end), by_mean[1], by_mean[0], mean, variance, eps);
      at::addcmul_out(piece, shift, dy.slice(0, first, end), scale_1C11);
    }
    return dx;
  }
};

}  // namespace

at::Tensor sync_batch_norm(torch::nn::BatchNorm2dImpl& layer, const at::Tensor& x_NCHW, const Group& group) {
  if (group->getSize() == 1) return layer.forward(x_NCHW);
  const at::Tensor x = x_NCHW.contiguous(x_NCHW.suggest_memory_format());
  const at::ScalarType dtype = at::toOpMathType(x.scalar_type());
  at::Tensor mean, variance, count;
  {
    const at::NoGradGuard no_gradients;
    const Row all(statistics_of_all(own_statistics(x, dtype), group));
    update_running_statistics(layer, all);
    mean = all.mean.to(dtype);
    variance = (all.squares / all.count).to(dtype);
    count = all.count;
  }
  const bool affine = layer.options.affine();
  return Normalise::apply(x, affine ? layer.weight : at::ones_like(mean), affine ? layer.bias : at::zeros_like(mean),
                          mean, variance, count, layer.options.eps(), group);
}

}  // namespace mgtrain
