#include "data/synthetic.h"

#include <cmath>

#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a synthetic set's text gives its shape and counts", "[data]") {
  const SyntheticShape plain = parse_synthetic("synthetic:3x32x48");
  CHECK(plain.image == ImageShape{.channels = 3, .height = 32, .width = 48});
  CHECK(plain.num_classes == 10);
  CHECK(plain.num_train == 10'000);
  CHECK(plain.num_val == 2'000);
  const SyntheticShape full = parse_synthetic("synthetic:1x28x28x100@5000+300");
  CHECK(full.num_classes == 100);
  CHECK(full.num_train == 5000);
  CHECK(full.num_val == 300);
  CHECK(parse_synthetic("synthetic:1x8x8@64").num_val == 0);
  CHECK(parse_synthetic("synthetic:1x8x8@64+0").num_val == 0);
}

TEST_CASE("a synthetic set's text that is no shape is refused as a value of data.path", "[data]") {
  for (const char* text :
       {"synthetic:", "synthetic:3x32", "synthetic:3x32x32x10x1", "synthetic:2x32x32", "synthetic:3x0x32",
        "synthetic:3x32x5000", "synthetic:3x-2x32", "synthetic:3x32x32x0", "synthetic:3x32x32@", "synthetic:3x32x32@0",
        "synthetic:3x32x32@1+2+3", "synthetic:3x32x32@5 ", "synthetic:3x32x99999999999999999999", "synthetic:axbxc",
        "synthetic:3x4096x4096@1000000000", "synthetic:1x8x8@10+-1"}) {
    CAPTURE(text);
    try {
      inspect_dataset(data_at(text), {});
      FAIL("accepted");
    } catch (const ConfigError& error) {
      CHECK_THAT(error.what(), Contains("data.path") && Contains(text) && Contains("expected synthetic:CxHxW"));
    }
  }
}

TEST_CASE("synthetic images are a function of seed, part and index", "[data]") {
  const auto fingerprint = [](const std::string& text, uint64_t seed) { return load(data_at(text), seed).fingerprint; };
  CHECK(fingerprint("synthetic:3x8x8x5@40+10", 1) == fingerprint("synthetic:3x8x8x5@40+10", 1));
  CHECK(fingerprint("synthetic:3x8x8x5@40+10", 1) != fingerprint("synthetic:3x8x8x5@40+10", 2));
  // A run on synthetic data goes on with the same images after an update of mgtrain.
  CHECK(fingerprint("synthetic:3x8x8x5@40+10", 1) == "70c207f2c5d9cbd7b2a35af5a3e375bf");
  const LoadedData few = load(data_at("synthetic:1x8x8x5@10+10")), more = load(data_at("synthetic:1x8x8x5@20+10"));
  CHECK(std::equal(few.train.pixels.begin(), few.train.pixels.end(), more.train.pixels.begin()));
  CHECK(few.val.pixels == more.val.pixels);
  CHECK(few.train.pixels != few.val.pixels);
}

TEST_CASE("a nearest mean over the training images tells the classes of the others", "[data]") {
  const LoadedData data = load(data_at("synthetic:1x12x12x10@500+200"));
  const auto size = static_cast<size_t>(data.train.shape.size());
  std::vector<std::vector<double>> means(10, std::vector<double>(size, 0));
  std::vector<int> counts(10, 0);
  for (int64_t i = 0; i < data.train.count(); ++i) {
    const auto label = static_cast<size_t>(data.train.labels[static_cast<size_t>(i)]);
    ++counts[label];
    for (size_t p = 0; p < size; ++p) means[label][p] += data.train.image(i)[p];
  }
  CHECK(counts == std::vector<int>(10, 50));
  int right = 0;
  for (int64_t i = 0; i < data.val.count(); ++i) {
    double nearest = 1e300;
    size_t found = 0;
    for (size_t c = 0; c < 10; ++c) {
      double distance = 0;
      for (size_t p = 0; p < size; ++p) distance += std::pow(data.val.image(i)[p] - means[c][p] / 50, 2);
      if (distance < nearest) {
        nearest = distance;
        found = c;
      }
    }
    right += static_cast<int>(found) == data.val.labels[static_cast<size_t>(i)] ? 1 : 0;
  }
  CHECK(right == 200);
}

TEST_CASE("a synthetic set as --val gives images that are not the training ones", "[data]") {
  DataConfig config = data_at("synthetic:1x8x8x4@40");
  CHECK(load(config).val.count() == 0);
  config.val = "synthetic:1x8x8x4@25";
  const LoadedData data = load(config);
  CHECK(data.train.count() == 40);
  CHECK(data.val.count() == 25);
  CHECK_FALSE(std::equal(data.val.pixels.begin(), data.val.pixels.end(), data.train.pixels.begin()));
  config.val = "25%";
  CHECK(load(config).train.count() == 30);
  CHECK(load(config).val.count() == 10);
}

}  // namespace
}  // namespace mgtrain::test
