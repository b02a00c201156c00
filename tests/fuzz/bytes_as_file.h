// Bytes as a regular file that has a path and lies on no disk, for parsers that open their files themselves.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace mgtrain::fuzz {

class BytesAsFile {
 public:
  BytesAsFile(const uint8_t* data, size_t size) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    for (size_t done = 0; descriptor_ >= 0 && done < size;) {
      const ssize_t written = write(descriptor_, data + done, size - done);
      if (written <= 0) throw std::runtime_error("a file in memory cannot be written");
      done += static_cast<size_t>(written);
    }
    if (descriptor_ < 0) throw std::runtime_error("a file in memory cannot be made");
  }
  ~BytesAsFile() { close(descriptor_); }
  BytesAsFile(const BytesAsFile&) = delete;
  BytesAsFile& operator=(const BytesAsFile&) = delete;

  [[nodiscard]] std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace mgtrain::fuzz
