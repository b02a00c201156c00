#include "data/published.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "data/data_file.h"

namespace mgtrain {

std::string md5_of(const std::filesystem::path& path) {
  DataFile file(path);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  bool works = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_md5(), nullptr) == 1;
  std::vector<uint8_t> chunk(size_t{1} << 18);
  for (size_t got = chunk.size(); works && got == chunk.size();) {
    got = file.read(chunk);
    works = EVP_DigestUpdate(context.get(), chunk.data(), got) == 1;
  }
  std::array<uint8_t, EVP_MAX_MD_SIZE> sum{};
  unsigned int size = 0;
  if (!works || EVP_DigestFinal_ex(context.get(), sum.data(), &size) != 1)
    throw DataError(path.string() + ": its MD5 cannot be computed: this machine's OpenSSL refuses MD5");
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kDigits[sum[i] >> 4];
    text += kDigits[sum[i] & 15];
  }
  return text;
}

const std::vector<PublishedSet>& published_sets() {
  // Training images and labels, test images and labels.
  static const std::vector<PublishedSet> sets = {
      {"MNIST",
       {"6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624", "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637"}},
      {"Fashion-MNIST",
       {"f4a8712d7a061bf5bd6d2ca38dc4d50a", "9018921c3c673c538a1fc5bad174d6f9", "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965"}}};
  return sets;
}

std::string compare_with_published(const std::vector<std::filesystem::path>& files, Faults& faults,
                                   const std::vector<PublishedSet>& sets) {
  std::vector<std::string> sums;
  sums.reserve(files.size());
  for (const auto& file : files) sums.push_back(md5_of(file));
  for (const PublishedSet& set : sets) {
    const auto known = [&](const std::string& sum) { return std::ranges::find(set.md5, sum) != set.md5.end(); };
    const auto num_known = static_cast<size_t>(std::ranges::count_if(sums, known));
    if (2 * num_known < sums.size() || num_known == 0) continue;
    for (size_t i = 0; i < files.size(); ++i) {
      if (known(sums[i])) continue;
      faults.add(files[i].string() + ": MD5 " + sums[i] + " (unpacked); the files beside it are " + set.name +
                 "'s, and this one is not as published: damaged, or altered");
    }
    return set.name;
  }
  return "";
}

}  // namespace mgtrain
