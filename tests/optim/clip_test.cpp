#include "optim/clip.h"

#include <torch/types.h>

#include <cmath>
#include <limits>

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

TEST_CASE("a norm that is not finite shows, and zero gradients stay zero", "[optim]") {
  const std::vector<at::Tensor> nan = {torch::full({3}, std::numeric_limits<double>::quiet_NaN(), torch::kDouble)};
  CHECK(std::isnan(gradient_norm(nan).item<double>()));
  const std::vector<at::Tensor> infinite = {torch::full({3}, std::numeric_limits<double>::infinity(), torch::kDouble)};
  CHECK(std::isinf(gradient_norm(infinite).item<double>()));
  std::vector<at::Tensor> zero = {torch::zeros({3})};
  clip_gradients(zero, gradient_norm(zero), 0.5);
  CHECK(zero[0].eq(0).all().item<bool>());
}
