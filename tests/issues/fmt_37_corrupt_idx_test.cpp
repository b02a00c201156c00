// deeplearning4j/deeplearning4j#3670: corrupt MNIST files are accepted and the network does not learn.
#include "data/data_files.h"
#include "data/published.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

/// 500 images of 2 x 2 in ten classes.
std::string images() { return idx_bytes({500, 2, 2}, ramp(2000, 0, 3)); }
std::string labels() {
  std::string values;
  for (int i = 0; i < 500; ++i) values += static_cast<char>(i % 10);
  return idx_bytes({500}, values);
}

std::string refused(const std::string& image_file, const std::string& label_file) {
  const TemporaryFolder folder;
  write_file(folder.path() / "train-images-idx3-ubyte", image_file);
  write_file(folder.path() / "train-labels-idx1-ubyte", label_file);
  return refusal_of(data_at(folder.path()));
}

}  // namespace

TEST_CASE("FMT 37: IDX files that are cut or padded are refused with their size and the header's", "[issues]") {
  CHECK_THAT(refused(images().substr(0, 1015), labels()), Contains("1015 bytes") && Contains("makes 2016"));
  CHECK_THAT(refused(images() + "\n", labels()), Contains("2017 bytes") && Contains("makes 2016"));
  CHECK_THAT(refused(images(), labels().substr(0, 400)), Contains("500 labels and 392 follow"));
  CHECK_THAT(refused(images(), labels() + "xx"), Contains("500 labels and at least 502 follow"));
  CHECK_THAT(refused(gzip(images() + "\n"), labels()), Contains("makes 2000 bytes of pixels, and there are at least"));
  CHECK_THAT(refused(gzip(images().substr(0, 1015)), labels()), Contains("and there are 999"));
}

TEST_CASE("FMT 37: any bit flipped in the headers of IDX files is refused", "[issues]") {
  const auto flipped = [](std::string bytes, size_t bit) {
    bytes[bit / 8] ^= static_cast<char>(1U << bit % 8);
    return bytes;
  };
  for (size_t bit = 0; bit < 16 * 8; ++bit) {
    CAPTURE(bit);
    CHECK_FALSE(refused(flipped(images(), bit), labels()).empty());
    if (bit < 8 * 8) CHECK_FALSE(refused(images(), flipped(labels(), bit)).empty());
  }
}

TEST_CASE("FMT 37: a label flipped out of range is refused with its record", "[issues]") {
  std::string bad = labels();
  bad[8 + 123] ^= 0x40;
  CHECK_THAT(refused(images(), bad), Contains("record 123 has the label 67"));
}

TEST_CASE("FMT 37: constant images, as of a file of zeros, are refused", "[issues]") {
  CHECK_THAT(refused(idx_bytes({500, 2, 2}, std::string(2000, '\0')), labels()),
             Contains("every pixel of the 500 training images has the same value"));
}

TEST_CASE("FMT 37: one flipped pixel of a published set is found by its checksum", "[issues]") {
  const TemporaryFolder folder;
  std::string pixels = images();
  const auto image_file = folder.path() / "train-images-idx3-ubyte", label_file = folder.path() / "labels";
  write_file(image_file, pixels);
  write_file(label_file, labels());
  const std::vector<PublishedSet> sets = {{"Ours", {md5_of(image_file), md5_of(label_file)}}};
  pixels[700] ^= 1;
  write_file(image_file, gzip(pixels));
  Faults faults(/*collect=*/true);
  compare_with_published({image_file, label_file}, faults, sets);
  REQUIRE(faults.count() == 1);
  CHECK_THAT(faults.list().front(), Contains(image_file.string()) && Contains("not as published"));
  CHECK(published_sets().size() == 2);
}

}  // namespace mgtrain::test
