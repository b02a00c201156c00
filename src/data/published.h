// What is known of data sets that everyone has: MNIST and Fashion-MNIST by the MD5 of their files. A flipped bit in raw
// IDX shows in no size and no range; here it does.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/faults.h"

namespace mgtrain {

/// MD5 of a file's contents, unpacked if it is gzip-compressed, as 32 hex digits. Throws DataError.
std::string md5_of(const std::filesystem::path& file);

struct PublishedSet {
  std::string name;
  std::vector<std::string> md5;  // of its files, unpacked
};
/// MNIST and Fashion-MNIST.
const std::vector<PublishedSet>& published_sets();

/// The name of the set that IDX files belong to; nothing if most of them are of none. A file that differs while at
/// least half of them are as published is a fault. Reads the files, packed or not; throws DataError where they cannot
/// be.
std::string compare_with_published(const std::vector<std::filesystem::path>& files, Faults& faults,
                                   const std::vector<PublishedSet>& sets = published_sets());

}  // namespace mgtrain
