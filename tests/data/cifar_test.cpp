#include "data/cifar.h"

#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

void write_cifar10(const std::filesystem::path& folder) {
  for (int i = 1; i <= 5; ++i) {
    write_file(folder / ("data_batch_" + std::to_string(i) + ".bin"),
               cifar_record({i}, 10 * i, 100, 200) + cifar_record({9}, 0, 0, 0));
  }
  write_file(folder / "test_batch.bin", cifar_record({3}, 1, 2, 3));
}

std::string ten_names() { return "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\r\n\n"; }

TEST_CASE("CIFAR-10 records give labels and interleaved pixels, batch after batch", "[data]") {
  const TemporaryFolder folder;
  write_cifar10(folder.path());
  write_file(folder.path() / "batches.meta.txt", ten_names());
  const DatasetInfo info = inspect_dataset(data_at(folder.path()), {});
  CHECK(info.format == "cifar10");
  CHECK(info.num_classes == 10);
  CHECK(info.class_names.at(9) == "truck");
  CHECK(info.channels * info.height * info.width == 3 * 32 * 32);
  const LoadedData data = load(data_at(folder.path()));
  CHECK(data.train.labels == std::vector<int32_t>{1, 9, 2, 9, 3, 9, 4, 9, 5, 9});
  CHECK(data.val.labels == std::vector<int32_t>{3});
  const auto third = data.train.image(4);
  CHECK(std::vector<uint8_t>(third.begin(), third.begin() + 6) == std::vector<uint8_t>{31, 101, 201, 30, 100, 200});
  CHECK(std::vector<uint8_t>(third.end() - 3, third.end()) == std::vector<uint8_t>{32, 102, 202});
}

TEST_CASE("CIFAR-100 is learnt by its fine labels, or by its coarse ones", "[data]") {
  const TemporaryFolder folder;
  write_file(folder.path() / "train.bin", cifar_record({19, 99}, 5, 6, 7) + cifar_record({2, 40}, 8, 9, 10));
  write_file(folder.path() / "test.bin", cifar_record({0, 1}, 0, 0, 0));
  DataConfig config = data_at(folder.path());
  const LoadedData fine = load(config);
  CHECK(fine.train.labels == std::vector<int32_t>{99, 40});
  CHECK(fine.train.num_classes == 100);
  CHECK(fine.train.pixels.at(0) == 6);
  CHECK(fine.train.pixels.at(2) == 8);
  CHECK(fine.val.labels == std::vector<int32_t>{1});
  config.labels = "coarse";
  const LoadedData coarse = load(config);
  CHECK(coarse.train.labels == std::vector<int32_t>{19, 2});
  CHECK(coarse.train.num_classes == 20);
  CHECK(coarse.train.pixels == fine.train.pixels);
  CHECK(coarse.fingerprint != fine.fingerprint);
  CHECK(inspect_dataset(config, {}).name == "CIFAR-100 (coarse)");
}

TEST_CASE("a CIFAR file of no whole records, or packed, is refused with its size", "[data]") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes) {
    write_cifar10(folder.path());
    write_file(folder.path() / "data_batch_3.bin", bytes);
    const std::string message = refusal_of(data_at(folder.path()));
    CHECK_THAT(message, Contains((folder.path() / "data_batch_3.bin").string()));
    return message;
  };
  CHECK_THAT(refused(cifar_record({1}, 0, 0, 0) + "x"),
             Contains("3074 bytes are no whole number of records of 3073 bytes"));
  CHECK_THAT(refused(cifar_record({1}, 0, 0, 0).substr(1)), Contains("3072 bytes") && Contains("cut or padded"));
  CHECK_THAT(refused(gzip(cifar_record({1}, 0, 0, 0))), Contains("is gzip-compressed"));
  CHECK_THAT(refused("<html>"), Contains("web page"));
  CHECK_THAT(refused(""), Contains("is empty"));
  CHECK_THAT(refused(cifar_record({1}, 0, 0, 0) + cifar_record({10}, 0, 0, 0)),
             Contains("record 1 has the label 10, expected 0 to 9"));
}

TEST_CASE("a CIFAR-10 batch that is missing is named", "[data]") {
  const TemporaryFolder folder;
  write_cifar10(folder.path());
  std::filesystem::remove(folder.path() / "data_batch_2.bin");
  CHECK_THAT(refusal_of(data_at(folder.path())), Contains("data_batch_2.bin not there"));
  // A set of one's own may have fewer batches; the published one, with 10,000 records in each, may not.
  std::filesystem::remove(folder.path() / "data_batch_3.bin");
  std::filesystem::remove(folder.path() / "data_batch_4.bin");
  std::filesystem::remove(folder.path() / "data_batch_5.bin");
  CHECK(load(data_at(folder.path())).train.count() == 2);
  Faults faults(/*collect=*/true);
  check_cifar10_is_whole({folder.path() / "data_batch_1.bin"}, 10'000, faults);
  REQUIRE(faults.count() == 1);
  CHECK_THAT(faults.list().front(), Contains("data_batch_2.bin, data_batch_3.bin, data_batch_4.bin, data_batch_5.bin"));
}

TEST_CASE("names of CIFAR's classes are as many as there are classes, and text", "[data]") {
  const TemporaryFolder folder;
  write_cifar10(folder.path());
  CHECK(inspect_dataset(data_at(folder.path()), {}).class_names.at(3) == "3");
  write_file(folder.path() / "batches.meta.txt", "one\ntwo\n");
  CHECK_THAT(refusal_of(data_at(folder.path())), Contains("batches.meta.txt: 2 names of classes, expected 10"));
  write_file(folder.path() / "batches.meta.txt", "\xff" + ten_names());
  CHECK_THAT(refusal_of(data_at(folder.path())), Contains("not UTF-8"));
  write_file(folder.path() / "batches.meta.txt", ten_names() + std::string(1 << 16, '\n'));
  CHECK_THAT(refusal_of(data_at(folder.path())), Contains("batches.meta.txt: more than 65536 bytes; expected 10"));
}

TEST_CASE("a CIFAR file among others says which set is meant", "[data]") {
  const TemporaryFolder folder;
  write_cifar10(folder.path());
  write_file(folder.path() / "train.bin", cifar_record({19, 99}, 5, 6, 7));
  CHECK_THAT(refusal_of(data_at(folder.path())), Contains("both cifar10 and cifar100") && Contains("--data-format"));
  CHECK(load(data_at(folder.path(), "cifar100")).train.labels == std::vector<int32_t>{99});
  CHECK(load(data_at(folder.path() / "train.bin")).train.labels == std::vector<int32_t>{99});
  CHECK(load(data_at(folder.path() / "test_batch.bin")).train.count() == 10);
}

}  // namespace
}  // namespace mgtrain::test
