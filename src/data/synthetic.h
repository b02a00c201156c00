// `synthetic:SHAPE`: images without files, for tests and for timing. Each class is a pattern of 4 x 4 patches; an image
// is its class's pattern under noise, so that a network can learn it. A function of seed, part and index.
#pragma once

#include <cstdint>
#include <string>

#include "data/image_set.h"

namespace mgtrain {

struct SyntheticShape {
  ImageShape image;
  int64_t num_classes = 10;
  int64_t num_train = 10'000, num_val = 2'000;
};

/// "synthetic:CxHxW", "synthetic:CxHxWxCLASSES", either with "@TRAIN" or "@TRAIN+VAL". Throws ConfigError.
SyntheticShape parse_synthetic(const std::string& text);

ImageSet make_synthetic(const SyntheticShape& shape, bool train, uint64_t seed);

}  // namespace mgtrain
