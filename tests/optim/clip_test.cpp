#include "optim/clip.h"

#include <torch/types.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "support/catch.h"

using namespace mgtrain;

TEST_CASE("the norm is over all gradients, undefined ones count as zero", "[optim]") {
  const std::vector<at::Tensor> gradients = {torch::full({2, 2}, 1.0, torch::kDouble), at::Tensor(),
                                             torch::full({5}, 2.0, torch::kDouble)};
  CHECK(gradient_norm(gradients).item<double>() == Approx(std::sqrt(24.0)).epsilon(1e-14));
  CHECK(gradient_norm({at::Tensor()}).item<double>() == 0);
}

TEST_CASE("clipping scales down to the norm and never up", "[optim]") {
  const auto gradients = [] {
    return std::vector<at::Tensor>{torch::tensor({3.0}, torch::kDouble), torch::tensor({4.0}, torch::kDouble),
                                   at::Tensor()};
  };
  std::vector<at::Tensor> large = gradients();
  clip_gradients(large, gradient_norm(large), 1);
  CHECK(large[0].item<double>() == Approx(3 / (5 + 1e-6)).epsilon(1e-14));
  CHECK(gradient_norm(large).item<double>() <= 1);
  std::vector<at::Tensor> small = gradients();
  clip_gradients(small, gradient_norm(small), 6);
  CHECK(small[1].item<double>() == 4);
}

TEST_CASE("many gradients of all shapes and strides are clipped as if they were one vector", "[optim]") {
  torch::manual_seed(1);
  std::vector<at::Tensor> gradients = {
      torch::randn({8, 3, 3, 3}, torch::kDouble).contiguous(at::MemoryFormat::ChannelsLast),
      torch::randn({40, 30}, torch::kDouble).t(), torch::randn({}, torch::kDouble), torch::randn({7}, torch::kDouble)};
  const auto as_one = [&] {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& gradient : gradients) parts.push_back(gradient.reshape({-1}));
    return torch::cat(parts);
  };
  const at::Tensor whole = as_one();
  const double norm = whole.square().sum().sqrt().item<double>();
  // Sums in another order.
  CHECK(gradient_norm(gradients).item<double>() == Approx(norm).epsilon(1e-13));
  clip_gradients(gradients, gradient_norm(gradients), 2);
  CHECK(torch::allclose(as_one(), whole * (2 / (norm + 1e-6)), 1e-13, 0));
}

TEST_CASE("a negative norm to clip at is a bug, no gradient at all is none", "[optim]") {
  const std::vector<at::Tensor> gradients = {torch::ones({2})};
  CHECK_THROWS_AS(clip_gradients(gradients, gradient_norm(gradients), -1), std::logic_error);
  clip_gradients({at::Tensor()}, gradient_norm({at::Tensor()}), 1);
  clip_gradients(gradients, gradient_norm(gradients), 0);
  CHECK(gradients[0].eq(0).all().item<bool>());
}

TEST_CASE("a norm that is not finite shows, and zero gradients stay zero", "[optim]") {
  const std::vector<at::Tensor> nan = {torch::full({3}, std::numeric_limits<double>::quiet_NaN(), torch::kDouble)};
  CHECK(std::isnan(gradient_norm(nan).item<double>()));
  clip_gradients(nan, gradient_norm(nan), 1);
  CHECK(nan[0].isnan().all().item<bool>());
  const std::vector<at::Tensor> infinite = {torch::full({3}, std::numeric_limits<double>::infinity(), torch::kDouble)};
  CHECK(std::isinf(gradient_norm(infinite).item<double>()));
  std::vector<at::Tensor> zero = {torch::zeros({3})};
  clip_gradients(zero, gradient_norm(zero), 0.5);
  CHECK(zero[0].eq(0).all().item<bool>());
}
