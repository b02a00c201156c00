#include "data/dataset_info.h"

#include <cstdlib>

#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

std::string refused(const DataConfig& config) {
  return data_error([&] { inspect_dataset(config, {}); });
}

/// MGTRAIN_DATA as given, until the end of the test.
class DataVariable {
 public:
  explicit DataVariable(const char* value) {
    if (const char* old = std::getenv("MGTRAIN_DATA")) old_ = old;
    value == nullptr ? unsetenv("MGTRAIN_DATA") : setenv("MGTRAIN_DATA", value, 1);
  }
  ~DataVariable() { old_.empty() ? unsetenv("MGTRAIN_DATA") : setenv("MGTRAIN_DATA", old_.c_str(), 1); }
  DataVariable(const DataVariable&) = delete;
  DataVariable& operator=(const DataVariable&) = delete;

 private:
  std::string old_;
};

TEST_CASE("the embedded data set is looked for where it is told, installed, or built", "[data]") {
  using Paths = std::vector<std::filesystem::path>;
  {
    const DataVariable none(nullptr);
    CHECK(embedded_data_candidates("/opt/mg/bin/mgtrain") == Paths{"/opt/mg/share/mgtrain", "/opt/data"});
    CHECK(embedded_data_candidates("/src/build/release/mgtrain") == Paths{"/src/build/share/mgtrain", "/src/data"});
    CHECK(embedded_data_candidates("").empty());
  }
  const DataVariable given("/my/data");
  CHECK(embedded_data_candidates("/opt/mg/bin/mgtrain").front() == "/my/data");
}

TEST_CASE("an embedded data set that is nowhere is refused with what was tried and what to do", "[data]") {
  const std::string message = data_error([] { inspect_dataset(DataConfig{}, {"/no/one", "/no/two"}); });
  CHECK_THAT(message, Contains("/no/one/fashion-mnist-subset, /no/two/fashion-mnist-subset") && Contains("--data") &&
                          Contains("MGTRAIN_DATA") && Contains("scripts/get_data.sh fashion-mnist"));
}

TEST_CASE("the folder of the embedded set may be named itself", "[data]") {
  const std::filesystem::path folder = std::filesystem::path(MGTRAIN_SOURCE_DIR) / "data" / "fashion-mnist-subset";
  CHECK(inspect_dataset(DataConfig{}, {folder}).train.num_samples == 10'000);
}

TEST_CASE("an IDX folder is described from its headers and labels", "[data]") {
  const TemporaryFolder folder;
  const auto set = folder.path() / "my-set";
  write_small_idx(set);
  DataConfig config = data_at(set);
  const DatasetInfo info = inspect_dataset(config, {});
  CHECK(info.format == "idx");
  CHECK(info.name == "my-set");
  CHECK(info.class_names == std::vector<std::string>{"0", "1", "2"});
  CHECK(info.train.num_samples == 4);
  CHECK(info.train.files == std::vector{set / "train-images-idx3-ubyte", set / "train-labels-idx1-ubyte"});
  REQUIRE(info.val);
  CHECK(info.val->num_samples == 2);
  CHECK(info.input_height == 2);
  CHECK(info.input_width == 3);
  config.resize = 32;
  CHECK(inspect_dataset(config, {}).input_width == 32);
  CHECK(inspect_dataset(data_at(set.string() + "/"), {}).name == "my-set");
  CHECK(inspect_dataset(data_at(set / "train-images-idx3-ubyte"), {}).name == "my-set");
}

TEST_CASE("dataset.json names a set and its classes", "[data]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  const auto with = [&](const std::string& json) {
    write_file(folder.path() / "dataset.json", json);
    return data_at(folder.path());
  };
  const DatasetInfo named = inspect_dataset(with(R"({"name": "Mine", "classes": ["a", "b", "c", "d"]})"), {});
  CHECK(named.name == "Mine");
  CHECK(named.num_classes == 4);
  CHECK(named.class_names.at(3) == "d");
  CHECK(inspect_dataset(with(R"({"name": "Mine"})"), {}).num_classes == 3);
  for (const char* json :
       {"[1]", "{", "", R"({"classes": "a"})", R"({"classes": [1]})", R"({"name": 3})", "{\"name\": \"\xff\"}"}) {
    CAPTURE(json);
    CHECK_THAT(refused(with(json)), Contains("dataset.json: expected {"));
  }
  CHECK_THAT(refused(with(R"({"classes": ["a", "b"]})")), Contains("record 2 has the label 2, expected 0 to 1"));
}

TEST_CASE("paths that are no data set are refused with what lies there", "[data]") {
  const TemporaryFolder folder;
  CHECK_THAT(refused(data_at(folder.path() / "nowhere")), Contains("nowhere: no such file or folder"));
  CHECK_THAT(refused(data_at(folder.path())), Contains("no data set is recognised") && Contains("it is empty"));
  write_file(folder.path() / "notes.txt", "hello");
  CHECK_THAT(refused(data_at(folder.path())), Contains("it holds notes.txt") && Contains("data_batch_1.bin"));
  write_file(folder.path() / "data_batch_1", "pickled");
  CHECK_THAT(refused(data_at(folder.path())), Contains("the binary version is"));
  CHECK_THAT(refused(data_at(folder.path(), "idx")), Contains("no IDX files") && Contains("--data-format"));
  CHECK_THAT(refused(data_at(folder.path(), "cifar10")), Contains("no CIFAR-10 files"));
  CHECK_THAT(refused(data_at(folder.path(), "cifar100")), Contains("no CIFAR-100 files"));
  CHECK_THAT(refused(data_at(folder.path() / "nowhere", "idx")), Contains("no such file or folder"));
}

TEST_CASE("a file that belongs to no set does not stand for the set beside it", "[data]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  write_file(folder.path() / "notes.txt", "hello");
  write_file(folder.path() / "set.tar.gz", gzip("x"));
  write_file(folder.path() / "set.zip", "PK\3\4");
  CHECK_THAT(refused(data_at(folder.path() / "notes.txt")), Contains("this is another file"));
  CHECK_THAT(refused(data_at(folder.path() / "set.tar.gz")), Contains("unpack it"));
  CHECK_THAT(refused(data_at(folder.path() / "set.zip")), Contains("zip archive"));
}

TEST_CASE("--data-format decides between sets that lie together, and contradicts synthetic data", "[data]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  write_file(folder.path() / "train.bin", cifar_record({1, 1}, 0, 0, 0));
  CHECK_THAT(refused(data_at(folder.path())), Contains("both idx and cifar100"));
  CHECK(inspect_dataset(data_at(folder.path(), "idx"), {}).channels == 1);
  CHECK(inspect_dataset(data_at(folder.path(), "cifar100"), {}).channels == 3);
  CHECK_THROWS_AS(inspect_dataset(data_at("synthetic:1x8x8", "idx"), {}), ConfigError);
  CHECK_THROWS_AS(inspect_dataset(data_at(folder.path(), "synthetic"), {}), ConfigError);
  CHECK(inspect_dataset(data_at("synthetic:1x8x8", "synthetic"), {}).format == "synthetic");
}

TEST_CASE("--val chooses the data for evaluation", "[data]") {
  const TemporaryFolder folder;
  const auto set = folder.path() / "set", other = folder.path() / "other";
  write_small_idx(set);
  write_small_idx(other);
  write_file(other / "t10k-images-idx3-ubyte", idx_bytes({3, 2, 3}, ramp(18)));
  write_file(other / "t10k-labels-idx1-ubyte", idx_bytes({3}, std::string("\0\0\1", 3)));
  DataConfig config = data_at(set);
  config.val = "none";
  CHECK_FALSE(inspect_dataset(config, {}).val.has_value());
  config.val = "25%";
  CHECK(inspect_dataset(config, {}).train.num_samples == 3);
  CHECK(inspect_dataset(config, {}).val->num_samples == 1);
  config.val = other.string();
  CHECK(inspect_dataset(config, {}).train.num_samples == 4);
  CHECK(inspect_dataset(config, {}).val->num_samples == 3);
  CHECK(load(config).val.labels == std::vector<int32_t>{0, 0, 1});

  write_file(set / "dataset.json", R"({"classes": ["a", "b", "c"]})");
  CHECK(load(config).val.count() == 3);
  write_file(other / "dataset.json", R"({"classes": ["b", "a", "c"]})");
  CHECK_THAT(refused(config), Contains("names its classes otherwise"));
  std::filesystem::remove(other / "dataset.json");
  write_file(other / "train-labels-idx1-ubyte", idx_bytes({4}, "\3\3\3\3"));
  CHECK_THAT(refused(config), Contains("4 classes; expected as the training set") && Contains("3 classes"));
  config.val = (folder.path() / "nowhere").string();
  CHECK_THAT(refused(config), Contains("nowhere: no such file or folder"));
  config.val = "synthetic:1x8x8";
  CHECK_THAT(refused(config), Contains("expected as the training set: idx, 1 x 2 x 3"));
}

TEST_CASE("one sample cannot be shared between training and evaluation", "[data]") {
  const TemporaryFolder folder;
  write_file(folder.path() / "train-images-idx3-ubyte", idx_bytes({1, 1, 1}, "x"));
  write_file(folder.path() / "train-labels-idx1-ubyte", idx_bytes({1}, std::string(1, '\0')));
  DataConfig config = data_at(folder.path());
  config.val = "10%";
  CHECK_THAT(refused(config), Contains("one training sample"));
}

}  // namespace
}  // namespace mgtrain::test
