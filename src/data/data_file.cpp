#include "data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace mgtrain {
namespace {

constexpr size_t kChunk = size_t{1} << 18;
constexpr std::array<uint8_t, 2> kGzipMagic = {0x1f, 0x8b};

}  // namespace

struct DataFile::Inflater {
  z_stream stream{};
  std::vector<uint8_t> input = std::vector<uint8_t>(kChunk);
  bool at_start = true;       // of a member
  bool whole_member = false;  // there was one: at the start of another the file may end

  Inflater() {
    if (inflateInit2(&stream, 15 + 16) != Z_OK) throw DataError("zlib cannot be started");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

DataFile::DataFile(std::filesystem::path path) : path_(std::move(path)) {
  try {
    open_and_sniff();
  } catch (...) {
    if (descriptor_ >= 0) close(descriptor_);
    throw;
  }
}

void DataFile::open_and_sniff() {
  const auto fail = [&](const std::string& why) { throw DataError(path_.string() + ": " + why); };
  // A pipe without a writer would block.
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0)
    fail(std::string("cannot be opened: ") + std::strerror(errno) + "; expected a file of a data set");
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail(std::string("cannot be examined: ") + std::strerror(errno));
  if (S_ISDIR(status.st_mode)) fail("is a folder; expected a file of a data set");
  if (!S_ISREG(status.st_mode)) fail("is a pipe or a device; expected a regular file, whose size can be checked");
  stored_bytes_ = static_cast<uint64_t>(status.st_size);
  if (stored_bytes_ == 0) fail("is empty (0 bytes); fetch it again");
  std::array<uint8_t, 2> magic{};
  const ssize_t got = pread(descriptor_, magic.data(), magic.size(), 0);
  if (got < 0) fail(std::string("cannot be read: ") + std::strerror(errno));
  compressed_ = got == 2 && magic == kGzipMagic;
  if (compressed_) inflater_ = std::make_unique<Inflater>();
}

DataFile::~DataFile() { close(descriptor_); }

size_t DataFile::read_stored(std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::read(descriptor_, out.data() + done, std::min(out.size() - done, kChunk));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DataError(path_.string() + ": cannot be read: " + std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

size_t DataFile::read(std::span<uint8_t> out) {
  if (!compressed_) {
    const size_t got = read_stored(out);
    delivered_ += got;
    return got;
  }
  const auto fail = [&](const std::string& what) {
    throw DataError(path_.string() + ": " + what + " after " + std::to_string(delivered_) +
                    " uncompressed bytes; the file is damaged, fetch it again");
  };
  z_stream& stream = inflater_->stream;
  stream.next_out = out.data();
  size_t done = 0;
  while (done < out.size()) {
    if (stream.avail_in == 0) {
      stream.next_in = inflater_->input.data();
      stream.avail_in = static_cast<uInt>(read_stored(inflater_->input));
      if (stream.avail_in == 0) {
        if (inflater_->at_start && inflater_->whole_member) break;
        delivered_ += done;
        fail("the gzip data end too early");
      }
    }
    if (inflater_->at_start && inflater_->whole_member && stream.next_in[0] != kGzipMagic[0]) {
      delivered_ += done;
      fail("there are other bytes behind the gzip data");
    }
    inflater_->at_start = false;
    stream.avail_out = static_cast<uInt>(std::min<size_t>(out.size() - done, size_t{1} << 30));
    const uInt room = stream.avail_out;
    const int result = inflate(&stream, Z_NO_FLUSH);
    done += room - stream.avail_out;
    if (result == Z_STREAM_END) {
      inflateReset(&stream);  // another member may follow
      inflater_->at_start = inflater_->whole_member = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      delivered_ += done;
      fail(std::string("the gzip data are damaged (") + (stream.msg != nullptr ? stream.msg : "unknown fault") + ")");
    }
  }
  delivered_ += done;
  return done;
}

uint64_t DataFile::most_bytes() const {
  constexpr uint64_t kMostExpansion = 1032;  // of deflate: 258 bytes by two bits
  return compressed_ ? stored_bytes_ * kMostExpansion : stored_bytes_;
}

std::vector<uint8_t> DataFile::read_up_to(uint64_t most) {
  std::vector<uint8_t> bytes;
  // A raw file can hold no more than its size.
  if (!compressed_) bytes.reserve(static_cast<size_t>(std::min(most, stored_bytes_)));
  while (bytes.size() < most) {
    const size_t before = bytes.size();
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(most - before, std::max<size_t>(kChunk, before / 2)));
    bytes.resize(before + wanted);
    const size_t got = read(std::span(bytes).subspan(before));
    bytes.resize(before + got);
    if (got < wanted) break;
  }
  return bytes;
}

uint64_t DataFile::count_rest(uint64_t most) {
  std::vector<uint8_t> chunk(kChunk);
  uint64_t count = 0;
  while (count < most) {
    const size_t got = read(chunk);
    count += got;
    if (got < chunk.size()) break;
  }
  return count;
}

std::string guess_foreign(std::span<const uint8_t> begin) {
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  const auto starts_with = [&](std::string_view prefix) {
    return text.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), text.begin(), [](char a, char b) {
             return a == b || (b >= 'A' && b <= 'Z' && a == b - 'A' + 'a');
           });
  };
  if (starts_with("version https://git-lfs"))
    return "; it is a Git LFS pointer: `git lfs pull` fetches the file itself";
  if (starts_with("<!doctype") || starts_with("<html")) return "; it is a web page: the download brought an error page";
  if (starts_with("PK\3\4")) return "; it is a zip archive: unpack it";
  if (text.size() > 262 && text.substr(257, 5) == "ustar") return "; it is a tar archive: unpack it";
  return "";
}

}  // namespace mgtrain
