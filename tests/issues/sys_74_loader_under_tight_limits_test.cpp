// pytorch/pytorch#5040, #1355: loaders that die or freeze where shared memory, processors or handles are scarce.
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>

#include "base/error.h"
#include "data/batch_source.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

constexpr int64_t kSamples = 400;

ImageSet black_images() {
  const ImageShape shape{3, 8, 8};
  return {.shape = shape,
          .pixels = std::vector<uint8_t>(static_cast<size_t>(kSamples * shape.size())),
          .labels = std::vector<int32_t>(kSamples, 1),
          .num_classes = 2};
}

/// Samples of the epochs that eight workers delivered.
int64_t samples_of_epochs(const ImageSet& set, int64_t epochs) {
  const Transform transform{
      .input = set.shape, .output_height = 8, .output_width = 8, .crop_padding = 1, .mean = {}, .stddev = {}};
  BatchSource source(set, transform, {.workers = 8});
  std::vector<int64_t> order(kSamples);
  std::iota(order.begin(), order.end(), 0);
  int64_t samples = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    source.start(order, std::vector<int64_t>(4, kSamples / 4), epoch, true);
    while (const std::optional<Batch> batch = source.next()) samples += batch->count();
  }
  return samples;
}

}  // namespace

TEST_CASE("SYS 74: eight workers deliver whole epochs on one CPU, without shared memory or a free file handle",
          "[issues]") {
  const ImageSet set = black_images();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // No file, shared memory included, may be opened or written any more.
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    if (setrlimit(RLIMIT_NOFILE, &none) != 0 || setrlimit(RLIMIT_FSIZE, &none) != 0) _exit(2);
    if (sched_setaffinity(0, sizeof one, &one) != 0) _exit(3);
    try {
      _exit(samples_of_epochs(set, 20) == 20 * kSamples ? 0 : 4);
    } catch (...) {
      _exit(5);
    }
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("SYS 74: a worker that throws ends the epoch with its error, whatever the other seven are at", "[issues]") {
  ImageSet set = black_images();
  set.pixels.resize(set.pixels.size() / 2);
  for (int round = 0; round < 50; ++round) CHECK_THROWS_AS(samples_of_epochs(set, 1), DataError);
}

}  // namespace mgtrain::test
