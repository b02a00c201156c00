#include "model/resnet.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "model/make_model.h"
#include "support/catch.h"
#include "support/counting_group.h"
#include "support/run_ranks.h"

using namespace mgtrain;

TEST_CASE("parameter counts are torchvision's", "[model]") {
  for (const auto& [name, count] : {std::pair{"resnet18", 11689512},
                                    {"resnet34", 21797672},
                                    {"resnet50", 25557032},
                                    {"resnet101", 44549160},
                                    {"resnet152", 60192808}}) {
    const ResNet model(make_resnet_spec(name, 64, "imagenet", 3, 224, 224, 1000));
    int64_t elements = 0;
    for (const at::Tensor& parameter : model.parameters()) elements += parameter.numel();
    CHECK(elements == count);
    CHECK(model.spec().num_parameters() == count);
  }
}

TEST_CASE("each unit gives the shape that its description says, and they make the whole", "[model]") {
  const torch::NoGradGuard no_gradients;
  for (const auto& [name, stem] : {std::pair{"resnet18", "cifar"}, {"resnet18", "imagenet"}, {"resnet50", "cifar"}}) {
    const ResNetSpec spec = make_resnet_spec(name, 4, stem, 1, 24, 17, 7);
    const auto model = make_model(spec, {}, 1, at::kDouble, false);
    model->eval();
    const at::Tensor images = torch::randn({2, 1, 24, 17}, at::kDouble);
    const at::Tensor whole = model->forward(images);
    at::Tensor x = images;
    for (size_t unit = 0; unit < spec.units.size(); ++unit) {
      x = model->forward_units(x, unit, unit + 1);
      const UnitSpec& described = spec.units[unit];
      INFO(name << " " << described.name);
      if (described.kind == UnitSpec::Kind::kHead) {
        CHECK(x.sizes() == at::IntArrayRef({2, 7}));
      } else {
        CHECK(x.sizes() == at::IntArrayRef({2, described.out_channels, described.out_height, described.out_width}));
      }
      const at::Tensor rest = model->forward_units(x, unit + 1, spec.units.size());
      CHECK(torch::equal(rest, whole));
    }
    CHECK(torch::equal(x, whole));
    CHECK_THROWS_AS(model->forward_units(images, 2, 1), std::logic_error);
    CHECK_THROWS_AS(model->forward_units(images, 0, spec.units.size() + 1), std::logic_error);
  }
}

TEST_CASE("building and initialising a model draws nothing from the global generator", "[model]") {
  const ResNetSpec spec = make_resnet_spec("resnet18", 8, "cifar", 3, 32, 32, 10);
  torch::manual_seed(5);
  const at::Tensor expected = torch::randn({3});
  torch::manual_seed(5);
  const ResNet built(spec);
  make_model(spec, {}, 9, at::kFloat, true);
  CHECK(torch::equal(torch::randn({3}), expected));
}

TEST_CASE("norms over ranks are those of the whole batch in training, and change neither names nor evaluation",
          "[model]") {
  const auto spec = make_resnet_spec("resnet50", 4, "imagenet", 1, 32, 32, 7);
  const auto make = [&] { return make_model(spec, {}, 1, at::kDouble, false); };
  torch::manual_seed(2);
  const at::Tensor images = torch::randn({5, 1, 32, 32}, at::kDouble);
  const auto alone = make();
  const at::Tensor expected = alone->forward(images);
  alone->eval();
  const at::Tensor expected_later = alone->forward(images);

  std::vector<std::shared_ptr<ResNet>> models = {make(), make()};
  std::vector<at::Tensor> logits(2), later(2);
  std::vector<int> gathers(2), gathers_later(2);
  test::on_ranks(2, [&](int rank, const test::Group& group) {
    const auto at = static_cast<size_t>(rank);
    const auto counting = c10::make_intrusive<test::CountingGroup>(group);
    models[at]->set_norm_group(counting);
    logits[at] = models[at]->forward(images.narrow(0, 3 * rank, rank == 0 ? 3 : 2));
    gathers[at] = counting->gathers;
    models[at]->eval();
    if (rank == 1) later[at] = models[at]->forward(images);  // the other rank does not come
    gathers_later[at] = counting->gathers;
    models[at]->set_norm_group({});
  });
  CHECK(torch::allclose(torch::cat(logits), expected, 0, 1e-11));  // fp64, 53 layers
  CHECK(torch::allclose(later[1], expected_later, 0, 1e-11));
  CHECK(gathers == std::vector<int>{53, 53});
  CHECK(gathers_later == gathers);
  const auto names = [](const ResNet& model) {
    std::vector<std::string> all = model.named_parameters().keys();
    for (const std::string& name : model.named_buffers().keys()) all.push_back(name);
    for (const std::string& name : model.named_modules().keys()) all.push_back(name);
    return all;
  };
  CHECK(names(*models[0]) == names(*alone));
}
