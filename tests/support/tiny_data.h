// A data set of the MNIST family that trains in milliseconds: small gray images whose class is where they are bright.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/random.h"

namespace mgtrain::test {

inline void write_idx(const std::filesystem::path& file, std::initializer_list<uint32_t> shape,
                      const std::string& bytes) {
  std::string text;
  const auto add = [&](uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift & 0xff);
  };
  add(0x0800 + static_cast<uint32_t>(shape.size()));
  for (const uint32_t size : shape) add(size);
  std::ofstream(file, std::ios::binary) << text << bytes;
}

/// train and t10k files of 16 x 16 images of 4 classes, a bright quarter of the image each.
inline void write_tiny_data(const std::filesystem::path& folder, uint32_t num_train, uint32_t num_val) {
  std::filesystem::create_directories(folder);
  for (const auto& [part, count] : {std::pair{"train", num_train}, std::pair{"t10k", num_val}}) {
    std::string pixels, labels;
    for (uint32_t i = 0; i < count; ++i) {
      RandomStream random(part[1] == 'r' ? 1 : 2, RandomPurpose::kSyntheticImage, 0, i);
      const auto label = static_cast<char>(i % 4);
      for (int y = 0; y < 16; ++y) {
        for (int x = 0; x < 16; ++x) {
          const bool bright = (y / 8) * 2 + x / 8 == label;
          pixels += static_cast<char>(random.below(160) + (bright ? 90 : 0));
        }
      }
      labels += label;
    }
    write_idx(folder / (std::string(part) + "-images-idx3-ubyte"), {count, 16, 16}, pixels);
    write_idx(folder / (std::string(part) + "-labels-idx1-ubyte"), {count}, labels);
  }
}

}  // namespace mgtrain::test
