// A file of a data set as a stream, raw or gzip-compressed: the same bytes in one piece and in small ones, and never
// more than the file can hold.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "data/data_file.h"
#include "fuzz/bytes_as_file.h"
#include "fuzz/fuzz.h"

using namespace mgtrain;

namespace {

constexpr uint64_t kMost = uint64_t{1} << 23;

std::optional<std::vector<uint8_t>> whole(const std::filesystem::path& path) {
  try {
    DataFile file(path);
    std::vector<uint8_t> bytes = file.read_up_to(kMost);
    fuzz::demand(bytes.size() <= file.most_bytes(), "no more bytes than can be packed into the file");
    fuzz::touch(file.count_rest(kMost));
    return bytes;
  } catch (const DataError& error) {
    fuzz::touch(std::string_view(error.what()));
    return std::nullopt;
  }
}

std::optional<std::vector<uint8_t>> in_pieces(const std::filesystem::path& path) {
  try {
    DataFile file(path);
    std::vector<uint8_t> bytes;
    for (size_t piece = 1; bytes.size() < kMost; piece = piece % 8191 * 3 + 1) {
      const size_t before = bytes.size();
      bytes.resize(before + std::min<size_t>(piece, kMost - before));
      const size_t got = file.read(std::span(bytes).subspan(before));
      const bool end = before + got < bytes.size();
      bytes.resize(before + got);
      if (end) break;
    }
    fuzz::touch(file.count_rest(kMost));
    return bytes;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::BytesAsFile file(data, size);
  const auto bytes = whole(file.path());
  fuzz::demand(bytes == in_pieces(file.path()), "the same bytes in pieces of any size");
  if (bytes) {
    fuzz::touch(*bytes);
    fuzz::touch(std::string_view(guess_foreign(*bytes)));
  }
  return 0;
}
