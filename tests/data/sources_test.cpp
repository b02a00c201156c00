#include "data/sources.h"

#include <algorithm>
#include <cmath>

#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

std::vector<int64_t> per_class(const ImageSet& set) {
  std::vector<int64_t> counts(static_cast<size_t>(set.num_classes), 0);
  for (const int32_t label : set.labels) ++counts[static_cast<size_t>(label)];
  return counts;
}

// Numbers by Python: numpy over gzip.open(...), and libxxhash through ctypes.
TEST_CASE("the embedded data set is the part of Fashion-MNIST it says it is", "[data]") {
  const std::filesystem::path data_folder = std::filesystem::path(MGTRAIN_SOURCE_DIR) / "data";
  const DataConfig config;
  const DatasetInfo info = inspect_dataset(config, {"nowhere", data_folder});
  CHECK(info.name == "Fashion-MNIST subset");
  CHECK(info.class_names.at(9) == "Ankle boot");
  CHECK(info.train.num_samples == 10'000);
  REQUIRE(info.val);
  CHECK(info.val->num_samples == 2'000);
  const LoadedData data = load_dataset(config, info, 5);
  CHECK(data.train.shape == ImageShape{.channels = 1, .height = 28, .width = 28});
  CHECK(per_class(data.train) == std::vector<int64_t>{942, 1027, 1016, 1019, 974, 989, 1021, 1022, 990, 1000});
  CHECK(per_class(data.val) == std::vector<int64_t>{200, 203, 214, 190, 219, 195, 197, 200, 194, 188});
  CHECK(std::vector<int32_t>(data.val.labels.begin(), data.val.labels.begin() + 5) ==
        std::vector<int32_t>{9, 2, 1, 1, 6});
  int64_t sixth = 0;
  for (const uint8_t value : data.train.image(5)) sixth += value;
  CHECK(sixth == 84'165);
  CHECK(data.stats.mean.at(0) == Approx(0.2863089170668267).epsilon(1e-12));
  CHECK(data.stats.stddev.at(0) == Approx(0.35401796410642805).epsilon(1e-12));
  CHECK(data.fingerprint == "bc0aff924bbb36d130f606c79d25ce92");
}

TEST_CASE("a fingerprint is XXH3-128 over shapes, labels and pixels, and changes with each", "[data]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  DataConfig config = data_at(folder.path());
  CHECK(load(config).fingerprint == "4c8ab6cf3292ed28e86bbffd17271fb7");
  CHECK(load(config, 99).fingerprint == "4c8ab6cf3292ed28e86bbffd17271fb7");
  config.val = "none";
  CHECK(load(config).fingerprint == "5385cb48f7cf89b91d28afcc9c1998b7");
  config.val = "auto";
  write_file(folder.path() / "t10k-labels-idx1-ubyte", idx_bytes({2}, std::string("\1\0", 2)));
  CHECK(load(config).fingerprint != "4c8ab6cf3292ed28e86bbffd17271fb7");
}

TEST_CASE("statistics are each channel's own", "[data]") {
  const TemporaryFolder folder;
  write_file(folder.path() / "data_batch_1.bin", cifar_record({1}, 10, 20, 30) + cifar_record({1}, 50, 20, 90));
  const ChannelStats stats = load(data_at(folder.path())).stats;
  const double corner = 3.0 / 1024;  // of the pixels that are one and two more
  CHECK(stats.mean.at(0) == Approx((30 + corner) / 255).epsilon(1e-12));
  CHECK(stats.mean.at(1) == Approx((20 + corner) / 255).epsilon(1e-12));
  CHECK(stats.mean.at(2) == Approx((60 + corner) / 255).epsilon(1e-12));
  CHECK(stats.stddev.at(2) == Approx(std::sqrt(900 + 5.0 / 1024 - corner * corner) / 255).epsilon(1e-12));
}

TEST_CASE("a share held out of the training part is drawn from the seed and disjoint from the rest", "[data]") {
  const TemporaryFolder folder;
  // Each image holds its own number.
  std::string pixels, labels;
  for (int i = 0; i < 200; ++i) {
    pixels += static_cast<char>(i);
    labels += static_cast<char>(i % 2);
  }
  write_file(folder.path() / "train-images-idx3-ubyte", idx_bytes({200, 1, 1}, pixels));
  write_file(folder.path() / "train-labels-idx1-ubyte", idx_bytes({200}, labels));
  DataConfig config = data_at(folder.path());
  config.val = "12.5%";
  const LoadedData data = load(config, 3);
  CHECK(data.train.count() == 175);
  CHECK(data.val.count() == 25);
  CHECK(std::ranges::is_sorted(data.train.pixels));
  CHECK(std::ranges::is_sorted(data.val.pixels));
  std::vector<uint8_t> all = data.train.pixels;
  all.insert(all.end(), data.val.pixels.begin(), data.val.pixels.end());
  std::ranges::sort(all);
  CHECK(std::string(all.begin(), all.end()) == pixels);
  for (int64_t i = 0; i < data.val.count(); ++i)
    CHECK(data.val.labels[static_cast<size_t>(i)] == data.val.image(i)[0] % 2);
  CHECK(load(config, 3).val.pixels == data.val.pixels);
  CHECK(load(config, 4).val.pixels != data.val.pixels);
  config.val = "0.01%";
  CHECK(load(config).val.count() == 1);
  config.val = "99.99%";
  CHECK(load(config).train.count() == 1);
}

TEST_CASE("images without any difference are refused", "[data]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  write_file(folder.path() / "train-images-idx3-ubyte", idx_bytes({4, 2, 3}, std::string(24, '\7')));
  CHECK_THAT(refusal_of(data_at(folder.path())), Contains("every pixel of the 4 training images has the same value"));
}

TEST_CASE("data that change between their inspection and their loading are refused", "[data]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  const DataConfig config = data_at(folder.path());
  const DatasetInfo info = inspect_dataset(config, {});
  write_file(folder.path() / "train-labels-idx1-ubyte", idx_bytes({4}, "\1\1\1\x05"));
  CHECK_THAT(data_error([&] { load_dataset(config, info, 0); }), Contains("changed"));
  write_file(folder.path() / "train-images-idx3-ubyte", idx_bytes({3, 2, 3}, ramp(18)));
  CHECK_THAT(data_error([&] { load_dataset(config, info, 0); }), Contains("changed"));
  std::filesystem::remove(folder.path() / "train-images-idx3-ubyte");
  CHECK_THAT(data_error([&] { load_dataset(config, info, 0); }), Contains("No such file"));
}

}  // namespace
}  // namespace mgtrain::test
