#include "model/make_model.h"

#include <ATen/Parallel.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "base/error.h"
#include "support/catch.h"

using namespace mgtrain;

namespace {

ResNetSpec spec() { return make_resnet_spec("resnet18", 8, "cifar", 3, 32, 32, 10); }

bool equal(const ResNet& one, const ResNet& other) {
  const auto a = one.parameters(), b = other.parameters();
  for (size_t i = 0; i < a.size(); ++i)
    if (!torch::equal(a[i].to(at::kDouble), b[i].to(at::kDouble))) return false;
  return a.size() == b.size();
}

size_t num_frozen(const ResNet& model) {
  size_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.requires_grad() ? 0 : 1;
  return count;
}

std::string freeze_problem(const std::vector<std::string>& prefixes) {
  const auto model = make_model(spec(), {}, 1, at::kFloat, false);
  try {
    freeze_parameters(*model, prefixes);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the same seed gives the same weights in any layout, dtype and number of threads", "[model]") {
  const auto model = make_model(spec(), {}, 3, at::kFloat, false);
  CHECK(equal(*model, *make_model(spec(), {}, 3, at::kFloat, true)));
  CHECK(equal(*model, *make_model(spec(), {}, 3, at::kDouble, false)));
  const int threads = at::get_num_threads();
  at::set_num_threads(threads == 1 ? 2 : 1);
  CHECK(equal(*model, *make_model(spec(), {}, 3, at::kFloat, false)));
  at::set_num_threads(threads);
  CHECK_FALSE(equal(*model, *make_model(spec(), {}, 4, at::kFloat, false)));
}

TEST_CASE("layout and dtype are as asked for; counters stay whole numbers", "[model]") {
  const auto model = make_model(spec(), {}, 1, at::kDouble, true);
  for (const at::Tensor& parameter : model->parameters()) {
    CHECK(parameter.scalar_type() == at::kDouble);
    CHECK(parameter.requires_grad());
    if (parameter.dim() == 4) CHECK(parameter.is_contiguous(at::MemoryFormat::ChannelsLast));
  }
  for (const auto& item : model->named_buffers())
    CHECK(item.value().scalar_type() == (item.key().ends_with("num_batches_tracked") ? at::kLong : at::kDouble));
}

TEST_CASE("zero_init_residual starts each block with the shortcut alone", "[model]") {
  const ModelConfig config{.zero_init_residual = true};
  const auto model = make_model(spec(), config, 1, at::kFloat, false);
  const auto parameters = model->named_parameters();
  for (const char* block : {"layer1.0", "layer2.0", "layer4.1"}) {
    CHECK(parameters[std::string(block) + ".bn2.weight"].eq(0).all().item<bool>());
    CHECK(parameters[std::string(block) + ".bn1.weight"].eq(1).all().item<bool>());
  }
  CHECK(parameters["layer2.0.downsample.1.weight"].eq(1).all().item<bool>());
}

TEST_CASE("zero_init_residual zeroes the third norm of a bottleneck, and no norm unless asked for", "[model]") {
  const ResNetSpec deep = make_resnet_spec("resnet50", 8, "cifar", 3, 32, 32, 10);
  for (const bool zero : {true, false}) {
    const auto model = make_model(deep, {.zero_init_residual = zero}, 1, at::kFloat, false);
    size_t zeros = 0;
    for (const auto& item : model->named_parameters()) {
      if (!item.key().ends_with("weight") || item.value().dim() != 1) continue;
      INFO(item.key());
      const bool last = item.key().ends_with("bn3.weight");
      CHECK(item.value().eq(zero && last ? 0 : 1).all().item<bool>());
      zeros += item.value().eq(0).all().item<bool>() ? 1 : 0;
    }
    CHECK(zeros == (zero ? 16 : 0));  // 3 + 4 + 6 + 3 blocks
  }
}

TEST_CASE("freezing takes whole components of a name", "[model]") {
  const auto model = make_model(spec(), {}, 1, at::kFloat, false);
  freeze_parameters(*model, {});
  CHECK(num_frozen(*model) == 0);
  freeze_parameters(*model, {"conv1", "layer1", "layer2.0.bn1.weight"});
  CHECK(num_frozen(*model) == 1 + 12 + 1);  // layer1: two blocks of two convolutions and two norms
  CHECK(model->named_parameters()["bn1.weight"].requires_grad());
  for (const char* mistyped : {"layer", "layer11", "layer1.0.conv1.weights", "conv1."}) {
    INFO(mistyped);
    const std::string problem = freeze_problem({mistyped});
    CHECK(problem.find(mistyped) != std::string::npos);
    CHECK(problem.find("\"; did you mean ") != std::string::npos);
  }
  CHECK(freeze_problem({"layer1.0.conv1.weights"}).ends_with("did you mean layer1.0.conv1.weight?"));
  CHECK(freeze_problem({"conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc"}).find("nothing is left") !=
        std::string::npos);
}
