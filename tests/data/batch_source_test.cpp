#include "data/batch_source.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/InferenceMode.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

ImageSet make_images(int64_t count, ImageShape shape = {3, 8, 8}) {
  ImageSet set{.shape = shape, .pixels = {}, .labels = {}, .num_classes = 10};
  RandomStream random(5, RandomPurpose::kSyntheticImage, 0, 0);
  for (int64_t i = 0; i < count * shape.size(); ++i) set.pixels.push_back(static_cast<uint8_t>(random.below(256)));
  for (int64_t i = 0; i < count; ++i) set.labels.push_back(static_cast<int32_t>(random.below(10)));
  return set;
}

Transform make_transform(ImageShape shape, MemoryFormat format = MemoryFormat::kNhwc) {
  Transform transform{.input = shape,
                      .output_height = shape.height,
                      .output_width = shape.width,
                      .crop_padding = 2,
                      .flip = true,
                      .mean = {},
                      .stddev = {},
                      .format = format,
                      .seed = 21};
  transform.mean.assign(static_cast<size_t>(shape.channels), 0.4F);
  transform.stddev.assign(static_cast<size_t>(shape.channels), 0.25F);
  return transform;
}

std::vector<int64_t> reversed(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

std::vector<Batch> rest_of(BatchSource& source) {
  std::vector<Batch> batches;
  while (std::optional<Batch> batch = source.next()) batches.push_back(std::move(*batch));
  return batches;
}

// Bits, not values: NaN would compare unequal to itself, and -0 equal to 0.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.dtype() == b.dtype() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

bool same(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Batch& x, const Batch& y) {
    return x.samples == y.samples && same_bits(x.images, y.images) && same_bits(x.labels, y.labels);
  });
}

// Whether each batch holds what transform_image makes of its samples.
bool right(const std::vector<Batch>& batches, const ImageSet& set, const Transform& transform, int64_t epoch,
           bool augment) {
  std::vector<float> one(
      static_cast<size_t>(transform.input.channels * transform.output_height * transform.output_width));
  for (const Batch& batch : batches) {
    const auto* pixels = batch.images.const_data_ptr<float>();
    for (int64_t i = 0; i < batch.count(); ++i, pixels += one.size()) {
      const int64_t sample = batch.samples[static_cast<size_t>(i)];
      transform_image(transform, set.image(sample), epoch, sample, augment, one.data());
      if (std::memcmp(one.data(), pixels, one.size() * sizeof(float)) != 0) return false;
      if (batch.labels[i].item<int64_t>() != set.labels[static_cast<size_t>(sample)]) return false;
    }
  }
  return true;
}

// Waits, without a limit of time, until the workers have done all they may.
void wait_until_ready(const BatchSource& source, int64_t count) {
  while (source.stats().ready < count) std::this_thread::yield();
}

const std::vector<int64_t> kSizes = {70, 33, 1, 64, 32, 50};  // together 250

}  // namespace

TEST_CASE("batches come in order, of the sizes asked for, with their images and labels", "[data]") {
  const ImageSet set = make_images(300);
  for (const MemoryFormat format : {MemoryFormat::kNhwc, MemoryFormat::kNchw}) {
    const Transform transform = make_transform(set.shape, format);
    BatchSource source(set, transform, {.workers = 2, .prefetch = 3});
    const std::vector<int64_t> order = reversed(300);
    source.start(order, kSizes, 4, true);
    const std::vector<Batch> batches = rest_of(source);
    REQUIRE(batches.size() == kSizes.size());
    auto at = order.begin();
    for (size_t i = 0; i < batches.size(); ++i) {
      const Batch& batch = batches[i];
      CHECK(batch.count() == kSizes[i]);
      CHECK(std::equal(batch.samples.begin(), batch.samples.end(), at));
      at += kSizes[i];
      CHECK(batch.images.sizes() == at::IntArrayRef({kSizes[i], 3, 8, 8}));
      CHECK(batch.images.scalar_type() == at::kFloat);
      CHECK(batch.images.is_contiguous(format == MemoryFormat::kNhwc ? at::MemoryFormat::ChannelsLast
                                                                     : at::MemoryFormat::Contiguous));
      CHECK(batch.labels.sizes() == at::IntArrayRef({kSizes[i]}));
      CHECK(batch.labels.scalar_type() == at::kLong);
      CHECK_FALSE(batch.images.is_pinned());
    }
    CHECK(right(batches, set, transform, 4, true));
    CHECK_FALSE(source.next().has_value());  // the end stays the end
  }
}

TEST_CASE("the bits are the same for 0, 1, 2, 4 and 8 workers, for any prefetch, and in a second run", "[data]") {
  const ImageSet set = make_images(300);
  const Transform transform = make_transform(set.shape);
  const auto epoch_of = [&](int64_t workers, int64_t prefetch) {
    BatchSource source(set, transform, {.workers = workers, .prefetch = prefetch});
    source.start(reversed(300), kSizes, 7, true);
    return rest_of(source);
  };
  const std::vector<Batch> expected = epoch_of(0, 4);
  CHECK(right(expected, set, transform, 7, true));
  for (const int64_t workers : {0, 1, 2, 4, 8})
    for (const int64_t prefetch : {1, 2, 4, 100}) CHECK(same(epoch_of(workers, prefetch), expected));
}

TEST_CASE("an epoch started in the middle equals the rest of the whole epoch", "[data]") {
  const ImageSet set = make_images(300);
  BatchSource source(set, make_transform(set.shape), {.workers = 2});
  std::vector<int64_t> order = reversed(300), sizes(10, 30);
  source.start(order, sizes, 3, true);
  std::vector<Batch> whole = rest_of(source);
  order.erase(order.begin(), order.begin() + 120);
  sizes.resize(6);
  source.start(order, sizes, 3, true);
  whole.erase(whole.begin(), whole.begin() + 4);
  CHECK(same(rest_of(source), whole));
}

TEST_CASE("another epoch draws anew; evaluation is the same in every epoch and unlike training", "[data]") {
  const ImageSet set = make_images(64);
  const Transform transform = make_transform(set.shape);
  BatchSource source(set, transform, {.workers = 1});
  const auto images = [&](int64_t epoch, bool augment) {
    source.start(reversed(64), {64}, epoch, augment);
    return source.next()->images;
  };
  const at::Tensor first = images(0, true), second = images(1, true), eval = images(0, false);
  CHECK((first != second).flatten(1).any(1).sum().item<int64_t>() > 55);  // by chance 1 in 50 draws the same
  CHECK(same_bits(images(0, true), first));
  CHECK(same_bits(images(1, false), eval));
  CHECK_FALSE(at::equal(first, eval));
}

TEST_CASE("start in the middle of an epoch drops what was in flight, at any moment", "[data]") {
  const ImageSet set = make_images(200);
  const Transform transform = make_transform(set.shape);
  for (const int64_t workers : {0, 1, 4}) {
    BatchSource source(set, transform, {.workers = workers, .prefetch = 3});
    for (int64_t round = 0; round < 150; ++round) {
      source.start(reversed(200), {40, 40, 40, 40, 40}, round, true);
      std::vector<Batch> taken;
      for (int64_t i = 0; i < round % 6; ++i) taken.push_back(*source.next());
      REQUIRE(right(taken, set, transform, round, true));
    }
    source.start(reversed(200), {200}, 1000, true);
    const std::vector<Batch> last = rest_of(source);
    CHECK(last.size() == 1);
    CHECK(right(last, set, transform, 1000, true));
  }
}

TEST_CASE("the number of ready batches reaches its bound and never passes it", "[data]") {
  const ImageSet set = make_images(400);
  for (const int64_t prefetch : {1, 3}) {
    BatchSource source(set, make_transform(set.shape), {.workers = 4, .prefetch = prefetch});
    source.start(reversed(400), std::vector<int64_t>(20, 20), 0, true);
    for (int64_t left = 20; left > 0; --left) {
      wait_until_ready(source, std::min(prefetch, left));
      REQUIRE(source.next().has_value());
    }
    CHECK_FALSE(source.next().has_value());
    CHECK(source.stats().most_ready == prefetch);
    CHECK(source.stats().ready == 0);
  }
}

TEST_CASE("buffers are used again once they are free: their number does not grow with the epochs", "[data]") {
  const ImageSet set = make_images(400);
  for (const int64_t workers : {0, 2}) {
    BatchSource source(set, make_transform(set.shape), {.workers = workers, .prefetch = 3});
    int64_t after_two_epochs = 0;
    for (int64_t epoch = 0; epoch < 20; ++epoch) {
      source.start(reversed(400), std::vector<int64_t>(20, 20), epoch, true);
      while (source.next()) {
      }
      if (epoch == 1) after_two_epochs = source.stats().buffers;
    }
    CHECK(source.stats().buffers == after_two_epochs);
    CHECK(after_two_epochs <= 5);  // 3 in the making or ready, one with the caller, and one to spare
  }
}

TEST_CASE("a tensor is never filled anew while its caller, or a view of it, holds it", "[data]") {
  const ImageSet set = make_images(400);
  const Transform transform = make_transform(set.shape);
  for (const int64_t workers : {0, 2}) {
    std::vector<Batch> held;
    std::vector<at::Tensor> views, copies;
    {
      BatchSource source(set, transform, {.workers = workers, .prefetch = 2});
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        source.start(reversed(400), std::vector<int64_t>(20, 20), epoch, true);
        for (int64_t i = 0; std::optional<Batch> batch = source.next(); ++i) {
          if (epoch == 1 && i % 3 == 0) held.push_back(*batch);
          if (i % 4 == 1) {
            views.push_back(batch->images.narrow(0, 5, 3));
            copies.push_back(views.back().clone());
          }
        }
      }
    }  // and it outlives its source
    CHECK(held.size() == 7);
    CHECK(right(held, set, transform, 1, true));
    for (size_t i = 0; i < views.size(); ++i) CHECK(at::equal(views[i], copies[i]));
  }
}

TEST_CASE("a worker's exception arrives at its batch, and again, until the next start", "[data]") {
  ImageSet set = make_images(100);
  const ImageSet whole = set;
  set.pixels.resize(static_cast<size_t>(60 * set.shape.size() - 1));  // sample 59 and later are cut off
  for (const int64_t workers : {0, 1, 4}) {
    BatchSource source(set, make_transform(set.shape), {.workers = workers, .prefetch = 4});
    std::vector<int64_t> order(100);
    std::iota(order.begin(), order.end(), 0);
    source.start(order, {20, 20, 20, 20, 20}, 0, true);
    CHECK(source.next()->samples.front() == 0);
    CHECK(source.next()->samples.front() == 20);
    for (int again = 0; again < 2; ++again) {
      try {
        source.next();
        FAIL("no exception");
      } catch (const DataError& error) {
        CHECK(std::string(error.what()).find("image 59 is not there") == 0);
      }
    }
    source.start(order, {30, 20}, 1, true);
    const std::vector<Batch> batches = rest_of(source);
    CHECK(batches.size() == 2);
    CHECK(right(batches, whole, make_transform(set.shape), 1, true));
  }
}

TEST_CASE("of several failed pieces of a batch the first is told", "[data]") {
  ImageSet set = make_images(300);
  set.pixels.resize(static_cast<size_t>(10 * set.shape.size()));
  for (int round = 0; round < 20; ++round) {
    BatchSource source(set, make_transform(set.shape), {.workers = 4});
    std::vector<int64_t> order(300);
    std::iota(order.begin(), order.end(), 0);
    source.start(order, {300}, 0, false);
    CHECK_THROWS_WITH(source.next(), Catch::Matchers::Contains("image 10 is not there"));
  }
}

TEST_CASE("a source may be destroyed at any moment", "[data]") {
  const ImageSet set = make_images(200);
  for (int64_t round = 0; round < 60; ++round) {
    BatchSource source(set, make_transform(set.shape), {.workers = 3, .prefetch = 2});
    if (round % 3 == 0) continue;
    source.start(reversed(200), {50, 50, 50, 50}, 0, true);
    if (round % 3 == 1) source.next();
  }
  SUCCEED("no hang");
}

TEST_CASE("images as double are the float32 values, widened", "[data]") {
  const ImageSet set = make_images(50);
  BatchSource narrow(set, make_transform(set.shape), {.workers = 1});
  BatchSource wide(set, make_transform(set.shape), {.workers = 2, .float64 = true});
  for (BatchSource* source : {&narrow, &wide}) source->start(reversed(50), {50}, 2, true);
  const at::Tensor images = wide.next()->images;
  CHECK(images.scalar_type() == at::kDouble);
  CHECK(same_bits(images, narrow.next()->images.to(at::kDouble)));
}

TEST_CASE("images are resized on the way, and one channel is channels-last like three", "[data]") {
  for (const int64_t channels : {1, 3}) {
    const ImageSet set = make_images(70, {channels, 7, 9});
    Transform transform = make_transform(set.shape);
    transform.output_height = 16;
    transform.output_width = 12;
    BatchSource source(set, transform, {.workers = 2});
    source.start(reversed(70), {40, 30}, 1, true);
    const std::vector<Batch> batches = rest_of(source);
    CHECK(batches[0].images.sizes() == at::IntArrayRef({40, channels, 16, 12}));
    CHECK(batches[0].images.stride(1) == 1);
    CHECK(right(batches, set, transform, 1, true));
  }
}

TEST_CASE("the same sample may come twice, as prediction and tests ask for it", "[data]") {
  const ImageSet set = make_images(5);
  BatchSource source(set, make_transform(set.shape), {.workers = 1});
  source.start({3, 3, 1}, {3}, 0, false);
  const Batch batch = *source.next();
  CHECK(batch.samples == std::vector<int64_t>{3, 3, 1});
  CHECK(at::equal(batch.images[0], batch.images[1]));
  CHECK_FALSE(at::equal(batch.images[0], batch.images[2]));
}

TEST_CASE("waiting is counted, and the count starts anew when it is taken", "[data]") {
  const ImageSet set = make_images(200);
  BatchSource source(set, make_transform(set.shape), {.workers = 0});
  CHECK(source.take_wait_seconds() == 0);
  source.start(reversed(200), {200}, 0, true);
  source.next();
  CHECK(source.take_wait_seconds() > 0);
  CHECK(source.take_wait_seconds() == 0);
}

TEST_CASE("batches taken under inference mode leave buffers that training can use", "[data]") {
  const ImageSet set = make_images(40);
  BatchSource source(set, make_transform(set.shape), {.workers = 1, .prefetch = 1});
  for (int round = 0; round < 4; ++round) {
    const c10::InferenceMode on(round < 2);
    source.start(reversed(40), {20, 20}, 0, true);
    CHECK_FALSE(source.next()->images.is_inference());
    CHECK_FALSE(source.next()->images.is_inference());
  }
}

TEST_CASE("what cannot be served is refused before a worker sees it", "[data]") {
  const ImageSet set = make_images(10);
  CHECK_THROWS_AS(BatchSource(set, make_transform({3, 9, 8}), {}), std::invalid_argument);
  BatchSource source(set, make_transform(set.shape), {.workers = 1});
  CHECK_THROWS_AS(source.start({0, 10}, {2}, 0, true), std::invalid_argument);
  CHECK_THROWS_AS(source.start({0, -1}, {2}, 0, true), std::invalid_argument);
  CHECK_THROWS_AS(source.start({0, 1}, {2, 0}, 0, true), std::invalid_argument);
  CHECK_THROWS_AS(source.start({0, 1}, {2, 1}, 0, true), std::invalid_argument);
  CHECK_FALSE(source.next().has_value());
  source.start({0, 1}, {2}, 0, true);
  CHECK(source.next()->count() == 2);
}

TEST_CASE("a set without images makes a source that delivers nothing", "[data]") {
  const ImageSet none;
  BatchSource source(none, make_transform({3, 8, 8}), {.workers = 2});
  source.start({}, {}, 0, false);
  CHECK_FALSE(source.next().has_value());
}

TEST_CASE("threads that cannot be started are an error that names the option", "[data]") {
  const ImageSet set = make_images(10);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Address space for some threads' stacks, not for 256.
    long pages = 0;
    if (FILE* file = std::fopen("/proc/self/statm", "r"); file == nullptr || std::fscanf(file, "%ld", &pages) != 1)
      _exit(2);
    const rlim_t limit = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{256} << 20);
    const rlimit space{.rlim_cur = limit, .rlim_max = limit};
    if (setrlimit(RLIMIT_AS, &space) != 0) _exit(3);
    try {
      const BatchSource source(set, make_transform(set.shape), {.workers = 256});
      _exit(4);
    } catch (const ConfigError& error) {
      _exit(std::string(error.what()).find("data.workers: thread ") == 0 ? 0 : 5);
    } catch (...) {
      _exit(6);
    }
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("pinned batches are pinned where there is a GPU", "[.gpu]") {
  if (!at::hasCUDA()) {
    WARN("not run: needs 1 GPU(s), found 0");
    return;
  }
  const ImageSet set = make_images(64);
  const Transform transform = make_transform(set.shape);
  BatchSource source(set, transform, {.workers = 2, .prefetch = 2, .pin_memory = true});
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    source.start(reversed(64), {16, 16, 16, 16}, epoch, true);
    std::vector<Batch> batches;
    while (std::optional<Batch> batch = source.next()) {
      CHECK(batch->images.is_pinned());
      CHECK(batch->labels.is_pinned());
      // The host's tensor is dropped while its copy may still be under way.
      Batch there{.images = batch->images.to(at::kCUDA, /*non_blocking=*/true),
                  .labels = batch->labels,
                  .samples = batch->samples};
      batches.push_back(std::move(there));
    }
    for (Batch& batch : batches) batch.images = batch.images.cpu();
    CHECK(right(batches, set, transform, epoch, true));
  }
}

}  // namespace mgtrain::test
