// pytorch/pytorch#5059, #7068: workers that inherit one random state draw the same numbers, and what an epoch holds
// depends on how many workers made it.
#include <ATen/Functions.h>

#include <array>
#include <numeric>
#include <set>

#include "base/random.h"
#include "data/batch_source.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

constexpr int64_t kSamples = 512;

// Every image shows its own crop: pixel (y, x) has the value 16 y + x + 1, padding is 0.
ImageSet ramps() {
  ImageSet set{.shape = {1, 15, 15}, .pixels = {}, .labels = std::vector<int32_t>(kSamples, 0), .num_classes = 1};
  for (int64_t sample = 0; sample < kSamples; ++sample)
    for (int y = 0; y < 15; ++y)
      for (int x = 0; x < 15; ++x) set.pixels.push_back(static_cast<uint8_t>(16 * y + x + 1));
  return set;
}

at::Tensor epoch_with(int64_t workers, const ImageSet& set) {
  const Transform transform{.input = set.shape,
                            .output_height = 15,
                            .output_width = 15,
                            .crop_padding = 4,
                            .flip = true,
                            .mean = {},
                            .stddev = {},
                            .seed = 1};
  BatchSource source(set, transform, {.workers = workers});
  std::vector<int64_t> order(kSamples);
  std::iota(order.begin(), order.end(), 0);
  source.start(order, std::vector<int64_t>(8, kSamples / 8), 0, true);
  std::vector<at::Tensor> images;
  while (std::optional<Batch> batch = source.next()) images.push_back(batch->images.clone());
  return at::cat(images);
}

}  // namespace

TEST_CASE("SEED 58: crops are identical for 0, 1, 4 and 8 workers", "[issues]") {
  const ImageSet set = ramps();
  const at::Tensor expected = epoch_with(0, set);
  for (const int64_t workers : {1, 4, 8}) CHECK(at::equal(epoch_with(workers, set), expected));
}

TEST_CASE("SEED 58: crops differ between the samples of a batch, also across workers", "[issues]") {
  const ImageSet set = ramps();
  const at::Tensor images = epoch_with(4, set).flatten(1);
  std::set<std::vector<float>> distinct;
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const auto* pixels = images[sample].const_data_ptr<float>();
    distinct.insert({pixels, pixels + images.size(1)});
  }
  // 512 draws of 162 crops: 155 different ones on average, deviation 2.5. Eight workers alike would show 64 at most.
  CHECK(distinct.size() > 140);
}

TEST_CASE("SEED 58: no two samples of two epochs get the same four random draws", "[issues]") {
  std::set<std::array<uint32_t, 4>> draws;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (uint64_t sample = 0; sample < 10'000; ++sample) {
      RandomStream random(1, RandomPurpose::kAugment, epoch, sample);
      CHECK(draws.insert({random.next_u32(), random.next_u32(), random.next_u32(), random.next_u32()}).second);
    }
  }
}

}  // namespace mgtrain::test
