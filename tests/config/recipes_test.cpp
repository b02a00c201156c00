// Every recipe in configs/ is a valid config and says what it claims to say.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "config/check.h"
#include "support/catch.h"

namespace fs = std::filesystem;
using mgtrain::RunConfig;

namespace {

const fs::path kSource = fs::canonical(MGTRAIN_SOURCE_DIR);

RunConfig recipe(const std::string& name) {
  return mgtrain::check({.files = {kSource / "configs" / name}}, nullptr).values();
}

}  // namespace

TEST_CASE("every recipe is valid and starts with what it reproduces", "[config]") {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(kSource / "configs")) {
    if (entry.path().extension() != ".toml") continue;
    CAPTURE(entry.path());
    ++count;
    CHECK_NOTHROW(mgtrain::check({.files = {entry.path()}}, nullptr));
    std::ifstream stream(entry.path());
    std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    CHECK(text.starts_with("# "));
    CHECK(text.find("\n# Expect: ") != std::string::npos);
    CHECK(text.find("mgtrain --config configs/" + entry.path().filename().string()) != std::string::npos);
  }
  CHECK(count >= 4);
}

TEST_CASE("the quickstart is the recipe that Python was measured with", "[config]") {
  const RunConfig config = recipe("quickstart.toml");
  CHECK(config.data.path.empty());
  CHECK(config.model.name == "resnet18");
  CHECK(config.model.width == 8);
  CHECK(config.train.epochs == 5);
  CHECK(config.train.batch == 64);
  CHECK(config.optim.optimizer == "sgd");
  CHECK(config.optim.lr == 0.1);
  CHECK(config.optim.momentum == 0.9);
  CHECK(config.optim.nesterov);
  CHECK(config.optim.weight_decay == 5e-4);
  CHECK(config.optim.schedule == "cosine");
  CHECK(config.optim.warmup == mgtrain::Every{15, mgtrain::Every::Unit::kPercent});
  CHECK(config.data.flip);
  CHECK(config.data.crop_padding == 0);
  CHECK(config.train.eval_every == mgtrain::Every{1, mgtrain::Every::Unit::kEpochs});
}

TEST_CASE("the 95 % recipe of CIFAR-10", "[config]") {
  const RunConfig config = recipe("cifar10_resnet18.toml");
  CHECK(config.data.path == (kSource / "data/cifar-10-batches-bin").string());
  CHECK(config.train.epochs == 200);
  CHECK(config.train.batch == 128);
  CHECK(config.optim.lr == 0.1);
  CHECK(config.optim.weight_decay == 5e-4);
  CHECK(config.optim.schedule == "cosine");
  CHECK(config.data.crop_padding == 4);
  CHECK(config.data.flip);
}

TEST_CASE("the book chapter's experiment", "[config]") {
  const RunConfig config = recipe("chapter_cifar10.toml");
  CHECK(config.data.resize == 96);
  CHECK(config.data.flip);
  CHECK(config.data.crop_padding == 0);
  CHECK(config.data.normalize == "none");
  CHECK(config.model.stem == "imagenet");
  CHECK(config.train.batch == 128);
  CHECK(config.train.epochs == 50);
  CHECK(config.optim.optimizer == "adam");
  CHECK(config.optim.lr == 1e-3);
  CHECK(config.optim.weight_decay == 0);
  CHECK(config.optim.schedule == "constant");
  CHECK(config.optim.warmup.never());
  CHECK(config.optim.clip_grad == 0.5);
  CHECK(config.output.log_every == mgtrain::Every{50});
  CHECK(config.output.tensorboard);
}

TEST_CASE("the whole of Fashion-MNIST lies where scripts/get_data.sh puts it", "[config]") {
  CHECK(recipe("fashion_mnist_resnet18.toml").data.path == (kSource / "data/fashion-mnist").string());
}
