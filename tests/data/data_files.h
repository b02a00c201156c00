// What tests of data formats share: the bytes of small files, and the message a data set is refused with.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "data/dataset_info.h"
#include "data/sources.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

namespace mgtrain::test {

inline std::string big_endian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

/// An IDX file of uint8 with this shape in its header, whatever follows.
inline std::string idx_bytes(std::initializer_list<uint32_t> shape, const std::string& values) {
  std::string bytes = big_endian(0x0800 + static_cast<uint32_t>(shape.size()));
  for (const uint32_t size : shape) bytes += big_endian(size);
  return bytes + values;
}

/// `count` bytes: first, first + step, ...
inline std::string ramp(size_t count, int first = 0, int step = 1) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(first + static_cast<int>(i) * step);
  return bytes;
}

/// One member of gzip.
inline std::string gzip(const std::string& bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::runtime_error("zlib");
  std::string packed(bytes.size() + bytes.size() / 100 + 64, '\0');
  std::string input = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("zlib");
  return packed;
}

inline void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
}

/// A CIFAR record: its label bytes, then planes that are `red`, `green`, `blue` but for the first pixel, which is one
/// more, and the last, which is two more.
inline std::string cifar_record(std::initializer_list<int> labels, int red, int green, int blue) {
  std::string bytes;
  for (const int label : labels) bytes += static_cast<char>(label);
  for (const int value : {red, green, blue}) {
    std::string plane(1024, static_cast<char>(value));
    plane.front() = static_cast<char>(value + 1);
    plane.back() = static_cast<char>(value + 2);
    bytes += plane;
  }
  return bytes;
}

/// Training images 2 x 3: four, labels 0 1 2 1; test images: two, labels 2 0.
inline void write_small_idx(const std::filesystem::path& folder) {
  write_file(folder / "train-images-idx3-ubyte", idx_bytes({4, 2, 3}, ramp(24)));
  write_file(folder / "train-labels-idx1-ubyte", idx_bytes({4}, std::string("\0\1\2\1", 4)));
  write_file(folder / "t10k-images-idx3-ubyte", idx_bytes({2, 2, 3}, ramp(12, 100)));
  write_file(folder / "t10k-labels-idx1-ubyte", idx_bytes({2}, std::string("\2\0", 2)));
}

inline DataConfig data_at(const std::filesystem::path& path, const std::string& format = "auto") {
  DataConfig config;
  config.path = path.string();
  config.format = format;
  return config;
}

/// Inspected and loaded, as before a run.
inline LoadedData load(const DataConfig& config, uint64_t seed = 0) {
  return load_dataset(config, inspect_dataset(config, {}), seed);
}

/// The message of the DataError that `action` throws; fails the test if it does not.
template <typename Action>
std::string data_error(const Action& action) {
  try {
    action();
  } catch (const DataError& error) {
    CHECK(error.code() == ExitCode::kData);
    return error.what();
  }
  FAIL("no DataError");
  return "";
}

inline std::string refusal_of(const DataConfig& config) {
  return data_error([&] { load(config); });
}

}  // namespace mgtrain::test
