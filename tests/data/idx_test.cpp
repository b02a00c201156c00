#include "data/idx.h"

#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

/// The small set with one file replaced: its refusal.
std::string refused_with(const std::string& name, const std::string& bytes) {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  write_file(folder.path() / name, bytes);
  const std::string message = refusal_of(data_at(folder.path()));
  CHECK_THAT(message, Contains((folder.path() / name).string()));
  return message;
}

TEST_CASE("IDX files give the pixels and labels that stand in them", "[data]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  const LoadedData data = load(data_at(folder.path()));
  CHECK(data.train.shape == ImageShape{.channels = 1, .height = 2, .width = 3});
  CHECK(data.train.labels == std::vector<int32_t>{0, 1, 2, 1});
  CHECK(data.train.num_classes == 3);
  CHECK(data.train.pixels.size() == 24);
  CHECK(data.train.image(0)[0] == 0);
  CHECK(data.train.image(3)[5] == 23);
  CHECK(data.val.labels == std::vector<int32_t>{2, 0});
  CHECK(data.val.image(1)[0] == 106);
  // 0..23: mean 11.5, variance (24^2 - 1) / 12.
  CHECK(data.stats.mean.at(0) == Approx(11.5 / 255).epsilon(1e-14));
  CHECK(data.stats.stddev.at(0) == Approx(6.922186552431729 / 255).epsilon(1e-14));
}

TEST_CASE("IDX files are found by the names that are in use, and by one of them", "[data]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path() / "plain");
  const auto plain = folder.path() / "plain";
  const auto copy_as = [&](const std::string& to, const std::string& train, const std::string& test, bool packed) {
    const auto place = [&](const std::string& from, const std::string& name) {
      const auto target = folder.path() / to / (name + (packed ? ".gz" : ""));
      std::ifstream stream(plain / from, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
      write_file(target, packed ? gzip(bytes) : bytes);
    };
    const bool dots = to == "dots";
    place("train-images-idx3-ubyte", train + (dots ? "images.idx3-ubyte" : "images-idx3-ubyte"));
    place("train-labels-idx1-ubyte", train + (dots ? "labels.idx1-ubyte" : "labels-idx1-ubyte"));
    place("t10k-images-idx3-ubyte", test + (dots ? "images.idx3-ubyte" : "images-idx3-ubyte"));
    place("t10k-labels-idx1-ubyte", test + (dots ? "labels.idx1-ubyte" : "labels-idx1-ubyte"));
  };
  copy_as("dots", "train-", "t10k-", false);
  copy_as("packed", "train-", "t10k-", true);
  copy_as("emnist", "emnist-letters-train-", "emnist-letters-test-", true);
  copy_as("emnist", "emnist-digits-train-", "emnist-digits-test-", false);
  const std::string fingerprint = load(data_at(plain)).fingerprint;
  for (const char* path :
       {"dots", "packed", "plain/train-images-idx3-ubyte", "plain/t10k-labels-idx1-ubyte",
        "emnist/emnist-letters-train-images-idx3-ubyte.gz", "emnist/emnist-digits-test-labels-idx1-ubyte"}) {
    CAPTURE(path);
    CHECK(load(data_at(folder.path() / path)).fingerprint == fingerprint);
  }
  CHECK_THAT(refusal_of(data_at(folder.path() / "emnist")),
             Contains("several data sets") && Contains("name a file of the one that is meant"));
}

TEST_CASE("an IDX part without its other half is refused", "[data]") {
  const auto without = [](const std::string& name) {
    const TemporaryFolder folder;
    write_small_idx(folder.path());
    std::filesystem::remove(folder.path() / name);
    return refusal_of(data_at(folder.path()));
  };
  CHECK_THAT(without("train-labels-idx1-ubyte"),
             Contains("train-images-idx3-ubyte: there is no train-labels-idx1-ubyte"));
  CHECK_THAT(without("t10k-images-idx3-ubyte"), Contains("t10k-labels-idx1-ubyte: there is no t10k-images-idx3-ubyte"));
}

TEST_CASE("an IDX set without a test part has none, without a training part is refused", "[data]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  std::filesystem::remove(folder.path() / "t10k-images-idx3-ubyte");
  std::filesystem::remove(folder.path() / "t10k-labels-idx1-ubyte");
  CHECK_FALSE(inspect_dataset(data_at(folder.path()), {}).val.has_value());
  CHECK(load(data_at(folder.path())).val.count() == 0);
  write_small_idx(folder.path());
  std::filesystem::remove(folder.path() / "train-images-idx3-ubyte");
  std::filesystem::remove(folder.path() / "train-labels-idx1-ubyte");
  CHECK_THAT(refusal_of(data_at(folder.path())), Contains("a part for evaluation but none for training"));
}

TEST_CASE("IDX headers that are not what they should be are refused with the number seen", "[data]") {
  const std::string images = "train-images-idx3-ubyte", labels = "train-labels-idx1-ubyte";
  CHECK_THAT(refused_with(images, idx_bytes({4}, "1234") + "12345678"),
             Contains("magic number 2049, expected 2051 (IDX images)") && Contains("exchanged?"));
  CHECK_THAT(refused_with(labels, idx_bytes({4, 2, 3}, ramp(24))),
             Contains("magic number 2051, expected 2049 (IDX labels)") && Contains("exchanged?"));
  CHECK_THAT(refused_with(images, big_endian(0x0d03) + ramp(400)),
             Contains("magic number 3331, expected 2051") && Contains("another type"));
  CHECK_THAT(refused_with(images, idx_bytes({4, 0, 3}, "")), Contains("4 images of 0 x 3"));
  CHECK_THAT(refused_with(images, idx_bytes({0, 2, 3}, "")), Contains("0 images of 2 x 3"));
  CHECK_THAT(refused_with(images, idx_bytes({4, 2, 70000}, "")), Contains("2 x 70000"));
  CHECK_THAT(refused_with(labels, idx_bytes({0}, "")), Contains("0 labels") && Contains("at least one"));
  CHECK_THAT(refused_with(images, "<!DOCTYPE html><title>404</title>"), Contains("web page"));
  CHECK_THAT(refused_with(labels, "version https://git-lfs.github.com/spec/v1\n"), Contains("git lfs pull"));
  CHECK_THAT(refused_with(labels, "abc"), Contains("3 bytes, less than the 8 of an IDX header"));
}

TEST_CASE("counts and shapes of IDX files that contradict each other are refused", "[data]") {
  CHECK_THAT(refused_with("train-labels-idx1-ubyte", idx_bytes({3}, "\1\1\1")),
             Contains("4 images") && Contains("has 3 labels"));
  CHECK_THAT(refused_with("t10k-images-idx3-ubyte", idx_bytes({2, 3, 2}, ramp(12))),
             Contains("images of 3 x 2, the training images are 2 x 3"));
  CHECK_THAT(refused_with("t10k-labels-idx1-ubyte", idx_bytes({2}, "\1\7")),
             Contains("record 1 has the label 7, expected 0 to 2"));
}

TEST_CASE("a header that claims more than there is allocates nothing for it", "[data]") {
  // 2^31 images of 65536 x 65536 are 2^63 bytes: an attempt to allocate them would throw std::bad_alloc.
  const std::string claim = idx_bytes({0x80000000U, 65536, 65536}, ramp(24));
  CHECK_THAT(refused_with("train-images-idx3-ubyte", claim), Contains("40 bytes; its header (2147483648 images"));
  CHECK_THAT(refused_with("train-images-idx3-ubyte", gzip(claim)),
             Contains("9223372036854775824 bytes, more than") && Contains("bytes of gzip data can hold"));
  const std::string labels = idx_bytes({0xffffffffU}, "\1\2\3");
  CHECK_THAT(refused_with("train-labels-idx1-ubyte", labels), Contains("4294967295 labels and 3 follow"));
  CHECK_THAT(refused_with("train-labels-idx1-ubyte", gzip(labels)), Contains("4294967295 labels and 3 follow"));
}

TEST_CASE("a label beyond a hole in the classes is refused where nothing names them", "[data]") {
  const TemporaryFolder folder;
  const auto write = [&](int odd_label) {
    std::string labels;
    for (int i = 0; i < 400; ++i) labels += static_cast<char>(i % 10);
    labels[17] = static_cast<char>(odd_label);
    write_file(folder.path() / "train-images-idx3-ubyte", idx_bytes({400, 1, 2}, ramp(800)));
    write_file(folder.path() / "train-labels-idx1-ubyte", idx_bytes({400}, labels));
  };
  write(7 + 4);
  CHECK_THAT(refusal_of(data_at(folder.path())), Contains("record 17 has the label 11") &&
                                                     Contains("no record has the label 10") &&
                                                     Contains("dataset.json"));
  write_file(folder.path() / "dataset.json", R"({"classes": ["a","b","c","d","e","f","g","h","i","j","k","l"]})");
  CHECK(load(data_at(folder.path())).train.num_classes == 12);
  write_file(folder.path() / "dataset.json", R"({"classes": ["a","b","c","d","e","f","g","h","i","j"]})");
  CHECK_THAT(refusal_of(data_at(folder.path())), Contains("record 17 has the label 11, expected 0 to 9"));
  std::filesystem::remove(folder.path() / "dataset.json");
  write(9);
  CHECK(load(data_at(folder.path())).train.num_classes == 10);
}

TEST_CASE("labels may count from 1, as EMNIST's letters do", "[data]") {
  const TemporaryFolder folder;
  std::string labels;
  for (int i = 0; i < 400; ++i) labels += static_cast<char>(1 + i % 3);
  write_file(folder.path() / "train-images-idx3-ubyte", idx_bytes({400, 1, 2}, ramp(800)));
  write_file(folder.path() / "train-labels-idx1-ubyte", idx_bytes({400}, labels));
  CHECK(load(data_at(folder.path())).train.num_classes == 4);
}

TEST_CASE("one image of an IDX file is read by its index", "[data]") {
  const TemporaryFolder folder;
  const auto raw = folder.path() / "a.idx", packed = folder.path() / "b.idx.gz";
  write_file(raw, idx_bytes({3, 2, 2}, ramp(12, 50)));
  write_file(packed, gzip(idx_bytes({3, 2, 2}, ramp(12, 50))));
  for (const auto& file : {raw, packed}) {
    CHECK(read_idx_image(file, 2, 1).pixels == std::vector<uint8_t>{58, 59, 60, 61});
    CHECK(read_idx_image(file, 0, 3).pixels == std::vector<uint8_t>{50, 50, 50, 51, 51, 51, 52, 52, 52, 53, 53, 53});
    CHECK_THAT(data_error([&] { read_idx_image(file, 3, 1); }), Contains("no image 3; it has images 0 to 2"));
    CHECK_THAT(data_error([&] { read_idx_image(file, -1, 1); }), Contains("no image -1"));
  }
}

}  // namespace
}  // namespace mgtrain::test
