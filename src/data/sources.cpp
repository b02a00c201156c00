#include "data/sources.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "data/dataset_parts.h"
#include "data/synthetic.h"

namespace mgtrain {
namespace {

/// Moves a share of `train`, drawn from the seed, to `val`; both keep the order of their samples.
void hold_out(const std::string& percent, uint64_t seed, ImageSet& train, ImageSet& val) {
  const int64_t count = train.count(), held = num_held_out(percent, count), size = train.shape.size();
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  RandomStream random(seed, RandomPurpose::kHoldOut, 0, 0);
  for (size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random.below(static_cast<uint32_t>(left))]);
  std::vector<bool> is_held(static_cast<size_t>(count), false);
  for (int64_t i = 0; i < held; ++i) is_held[static_cast<size_t>(order[static_cast<size_t>(i)])] = true;

  val = ImageSet{.shape = train.shape, .num_classes = train.num_classes};
  ImageSet rest{.shape = train.shape, .num_classes = train.num_classes};
  val.pixels.reserve(static_cast<size_t>(held * size));
  rest.pixels.reserve(static_cast<size_t>((count - held) * size));
  for (int64_t i = 0; i < count; ++i) {
    ImageSet& part = is_held[static_cast<size_t>(i)] ? val : rest;
    const auto image = train.image(i);
    part.pixels.insert(part.pixels.end(), image.begin(), image.end());
    part.labels.push_back(train.labels[static_cast<size_t>(i)]);
  }
  train = std::move(rest);
}

/// Exact: sums of whole numbers.
ChannelStats statistics(const ImageSet& images) {
  const auto channels = static_cast<size_t>(images.shape.channels);
  std::vector<std::array<uint64_t, 256>> histograms(channels);
  for (size_t i = 0; i < images.pixels.size(); ++i) ++histograms[i % channels][images.pixels[i]];
  ChannelStats stats;
  for (const std::array<uint64_t, 256>& histogram : histograms) {
    double count = 0, sum = 0, squares = 0;
    for (size_t value = 0; value < 256; ++value) {
      const auto weight = static_cast<double>(histogram[value]), v = static_cast<double>(value);
      count += weight;
      sum += weight * v;
      squares += weight * v * v;
    }
    const double mean = sum / count;
    stats.mean.push_back(mean / 255);
    stats.stddev.push_back(std::sqrt(std::max(0.0, squares / count - mean * mean)) / 255);
  }
  return stats;
}

std::string fingerprint(const LoadedData& data) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  for (const ImageSet* set : {&data.train, &data.val}) {
    const std::array<int64_t, 5> shape = {set->count(), set->shape.channels, set->shape.height, set->shape.width,
                                          set->num_classes};
    XXH3_128bits_update(state, shape.data(), sizeof shape);
    XXH3_128bits_update(state, set->labels.data(), set->labels.size() * sizeof(int32_t));
    XXH3_128bits_update(state, set->pixels.data(), set->pixels.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace

LoadedData load_dataset(const DataConfig& config, const DatasetInfo& info, uint64_t seed) {
  LoadedData data;
  Faults faults;
  DatasetPart train = info.train;
  if (holds_out(config)) train.num_samples += info.val->num_samples;  // it is shared below
  const bool has_val = info.val && !holds_out(config);
  if (info.format == "synthetic") {
    SyntheticShape shape = parse_synthetic(info.path.string());
    shape.num_train = train.num_samples;
    data.train = make_synthetic(shape, /*train=*/true, seed);
    if (has_val) {
      shape.num_val = info.val->num_samples;
      data.val = make_synthetic(shape, /*train=*/false, seed);
    }
  } else {
    if (train.num_samples > 0) data.train = load_part(config, info, train, faults);
    if (has_val) data.val = load_part(config, info, *info.val, faults);
  }
  if (holds_out(config)) hold_out(config.val, seed, data.train, data.val);
  if (data.train.count() != info.train.num_samples || (info.val && data.val.count() != info.val->num_samples))
    throw DataError(info.path.string() + ": the data changed between their inspection and their loading");
  for (const ImageSet* set : {&data.train, &data.val}) {
    if (std::ranges::any_of(set->labels, [&](int32_t label) { return label < 0 || label >= info.num_classes; }))
      throw DataError(info.path.string() + ": labels changed between their inspection and their loading");
  }
  if (data.train.count() > 0) data.stats = statistics(data.train);
  if (data.train.count() > 1 && std::ranges::all_of(data.stats.stddev, [](double d) { return d == 0; })) {
    throw DataError(info.path.string() + ": every pixel of the " + std::to_string(data.train.count()) +
                    " training images has the same value; there is nothing to learn: fetch the data again");
  }
  data.fingerprint = fingerprint(data);
  return data;
}

}  // namespace mgtrain
