// tensorflow/models!2024, modern-fortran/neural-fortran!244: CIFAR-100's two label bytes mishandled.
#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

std::string refused(const std::string& name, const std::string& bytes, const std::string& format = "auto") {
  const TemporaryFolder folder;
  write_file(folder.path() / name, bytes);
  const std::string message = refusal_of(data_at(folder.path(), format));
  CHECK_THAT(message, Contains((folder.path() / name).string()));
  return message;
}

}  // namespace

TEST_CASE("FMT 41: two records of CIFAR-100 give both labels and the first pixel", "[issues]") {
  const TemporaryFolder folder;
  write_file(folder.path() / "train.bin", cifar_record({11, 98}, 21, 31, 41) + cifar_record({4, 55}, 61, 71, 81));
  DataConfig config = data_at(folder.path());
  const ImageSet fine = load(config).train;
  CHECK(fine.labels == std::vector<int32_t>{98, 55});
  config.labels = "coarse";
  const ImageSet coarse = load(config).train;
  CHECK(coarse.labels == std::vector<int32_t>{11, 4});
  for (const ImageSet* set : {&fine, &coarse}) {
    CHECK(set->image(0)[0] == 22);
    CHECK(set->image(0)[1] == 32);
    CHECK(set->image(0)[2] == 42);
    CHECK(set->image(1)[0] == 62);
  }
}

TEST_CASE("FMT 41: records of one CIFAR given as the other's are refused, with the format they may be of", "[issues]") {
  CHECK_THAT(refused("train.bin", cifar_record({1}, 0, 0, 0) + cifar_record({2}, 0, 0, 0)),
             Contains("6146 bytes are no whole number of records of 3074 bytes") && Contains("--data-format cifar10"));
  CHECK_THAT(refused("data_batch_1.bin", cifar_record({1, 2}, 0, 0, 0) + cifar_record({2, 3}, 0, 0, 0)),
             Contains("6148 bytes are no whole number of records of 3073 bytes") && Contains("--data-format cifar100"));
}

TEST_CASE("FMT 41: where the size fits both, the labels tell", "[issues]") {
  std::string ten, hundred;
  for (int i = 0; i < 3074; ++i) ten += cifar_record({i % 10}, 200, 200, 200);
  for (int i = 0; i < 3073; ++i) hundred += cifar_record({i % 20, i % 100}, 200, 200, 200);
  REQUIRE(ten.size() == hundred.size());
  CHECK_THAT(refused("train.bin", ten), Contains("record 0 has the fine label 201, expected 0 to 99"));
  CHECK_THAT(refused("data_batch_1.bin", hundred), Contains("has the label") && Contains("expected 0 to 9;"));
}

TEST_CASE("FMT 41: a size that is no multiple of a record is refused", "[issues]") {
  CHECK_THAT(refused("data_batch_1.bin", cifar_record({1}, 0, 0, 0).substr(0, 3000)), Contains("3000 bytes"));
  CHECK_THAT(refused("train.bin", cifar_record({1, 1}, 0, 0, 0) + "x"), Contains("3075 bytes"));
}

}  // namespace mgtrain::test
