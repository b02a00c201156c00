// Damaged data sets are read in full or refused as such: no crash, no other exception, no allocation for what a file
// merely claims.
#include <sys/resource.h>

#include <map>

#include "base/random.h"
#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Files = std::map<std::string, std::string>;

Files idx_files(bool packed) {
  std::string pixels, labels;
  for (int i = 0; i < 30 * 12; ++i) pixels += static_cast<char>(i * 7);
  for (int i = 0; i < 30; ++i) labels += static_cast<char>(i % 5);
  Files files = {{"train-images-idx3-ubyte", idx_bytes({30, 3, 4}, pixels)},
                 {"train-labels-idx1-ubyte", idx_bytes({30}, labels)},
                 {"t10k-images-idx3-ubyte", idx_bytes({10, 3, 4}, pixels.substr(0, 120))},
                 {"t10k-labels-idx1-ubyte", idx_bytes({10}, labels.substr(0, 10))}};
  if (!packed) return files;
  for (auto& [name, bytes] : files) bytes = gzip(bytes);
  return files;
}

Files cifar10_files() {
  return {{"data_batch_1.bin", cifar_record({1}, 10, 20, 30) + cifar_record({9}, 1, 2, 3)},
          {"test_batch.bin", cifar_record({0}, 4, 5, 6)},
          {"batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"}};
}

Files cifar100_files() {
  return {{"train.bin", cifar_record({1, 99}, 10, 20, 30) + cifar_record({19, 0}, 1, 2, 3)},
          {"test.bin", cifar_record({0, 7}, 4, 5, 6)}};
}

/// One to three changes to one of the files, most near its beginning: a bit, a byte that is extreme, a cut, bytes more.
void damage(Files& files, RandomStream& random) {
  auto chosen = files.begin();
  std::advance(chosen, random.below(static_cast<uint32_t>(files.size())));
  std::string& bytes = chosen->second;
  for (uint32_t changes = 1 + random.below(3); changes > 0; --changes) {
    if (bytes.empty()) return;
    const auto size = static_cast<uint32_t>(bytes.size());
    const uint32_t at = random.below(random.below(3) == 0 ? size : std::min(size, 24U));
    switch (random.below(5)) {
      case 0:
      case 1:
        bytes[at] ^= static_cast<char>(1U << random.below(8));
        break;
      case 2:
        bytes[at] = static_cast<char>(random.below(2) == 0 ? 0xff : 0);
        break;
      case 3:
        bytes.resize(random.below(size + 1));
        break;
      default:
        bytes.insert(at, std::string(1 + random.below(40), static_cast<char>(random.below(256))));
    }
  }
}

int64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// How many of the mutants were refused.
int refusals_of(const Files& whole, const std::string& format, uint64_t first, int mutants) {
  const TemporaryFolder folder;
  int refusals = 0;
  for (int i = 0; i < mutants; ++i) {
    RandomStream random(2, RandomPurpose::kSyntheticImage, 0, first + static_cast<uint64_t>(i));
    Files files = whole;
    damage(files, random);
    for (const auto& [name, bytes] : files) write_file(folder.path() / name, bytes);
    DataConfig config = data_at(folder.path(), i % 2 == 0 ? "auto" : format);
    if (i % 5 == 0) config.val = "20%";
    try {
      const LoadedData data = load(config, 1);
      for (const ImageSet* set : {&data.train, &data.val}) {
        CHECK(static_cast<int64_t>(set->pixels.size()) == set->count() * set->shape.size());
        for (const int32_t label : set->labels) CHECK((label >= 0 && label < set->num_classes));
      }
    } catch (const DataError& error) {
      CHECK(std::string(error.what()).find(folder.path().string()) != std::string::npos);
      ++refusals;
    }
  }
  return refusals;
}

TEST_CASE("damaged data sets are read or refused, in bounded memory", "[data]") {
  const int64_t before = peak_kib();
  const int raw = refusals_of(idx_files(false), "idx", 0, 400);
  const int packed = refusals_of(idx_files(true), "idx", 1000, 400);
  const int ten = refusals_of(cifar10_files(), "cifar10", 2000, 200);
  const int hundred = refusals_of(cifar100_files(), "cifar100", 3000, 200);
  // Flipped pixels cannot be seen in raw files; gzip's checksum sees all but its header's unused bytes.
  CHECK(raw > 250);
  CHECK(raw < 400);
  CHECK(packed > 330);
  CHECK(packed < 400);
  CHECK(ten > 60);
  CHECK(ten < 200);
  CHECK(hundred > 60);
  CHECK(hundred < 200);
  // The files hold 15 KB; a sanitizer keeps what was freed for a while.
  CHECK(peak_kib() - before < 256 * 1024);
}

}  // namespace
}  // namespace mgtrain::test
