// pytorch/vision#3554, tensorflow/tensorflow#170: whether a file is compressed is taken from its name.
#include "data/data_files.h"

namespace mgtrain::test {
namespace {

std::string images() { return idx_bytes({4, 2, 3}, ramp(24)); }

/// The small set's fingerprint after its training images were put into these files.
std::string fingerprint_with(const std::vector<std::pair<std::string, std::string>>& files) {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  std::filesystem::remove(folder.path() / "train-images-idx3-ubyte");
  for (const auto& [name, bytes] : files) write_file(folder.path() / name, bytes);
  return load(data_at(folder.path())).fingerprint;
}

}  // namespace

TEST_CASE("FMT 39: raw bytes named .gz and gzip bytes not named so are read for what they are", "[issues]") {
  const std::string expected = fingerprint_with({{"train-images-idx3-ubyte", images()}});
  CHECK(fingerprint_with({{"train-images-idx3-ubyte.gz", images()}}) == expected);
  CHECK(fingerprint_with({{"train-images-idx3-ubyte", gzip(images())}}) == expected);
  CHECK(fingerprint_with({{"train-images-idx3-ubyte.gz", gzip(images())}}) == expected);
}

TEST_CASE("FMT 39: of a raw and a packed file of one name the raw one is read", "[issues]") {
  const std::string expected = fingerprint_with({{"train-images-idx3-ubyte", images()}});
  CHECK(fingerprint_with({{"train-images-idx3-ubyte", images()},
                          {"train-images-idx3-ubyte.gz", gzip(idx_bytes({4, 2, 3}, ramp(24, 9)))}}) == expected);
}

}  // namespace mgtrain::test
