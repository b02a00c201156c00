// Runs a fuzz target once over each file named, and over each file of each folder named: the saved corpus as a test,
// with any compiler, and a finding under a debugger. Exits 1 with the file's name when the target does not hold, and
// stops where 256 MiB are asked for in one piece, be it by a library: no parser needs them for inputs this small.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
// AddressSanitizer has a limit of its own (CMakeLists.txt sets it).
extern "C" void* __libc_malloc(size_t size);
extern "C" void* malloc(size_t size) {
  constexpr size_t kMostAtOnce = size_t{256} << 20;
  if (size > kMostAtOnce) std::abort();
  return __libc_malloc(size);
}
#endif

namespace {

std::string current;

/// Says which file it was before the process dies of it.
extern "C" void on_abort(int) { std::fprintf(stderr, "replay: stopped at %s\n", current.c_str()); }

std::vector<std::filesystem::path> files_of(int count, char** names) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(names[i])) {
      files.emplace_back(names[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(names[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool run(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    std::fprintf(stderr, "replay: %s cannot be read\n", file.c_str());
    return false;
  }
  const std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  // A block of its own of exactly this size: a sanitizer sees a read behind its end.
  const std::unique_ptr<uint8_t[]> input(new uint8_t[bytes.size()]);
  if (!bytes.empty()) std::memcpy(input.get(), bytes.data(), bytes.size());
  current = file.string();
  try {
    LLVMFuzzerTestOneInput(input.get(), bytes.size());
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "replay: %s: an error that is not promised: %s\n", file.c_str(), error.what());
  } catch (...) {
    std::fprintf(stderr, "replay: %s: throws what is no std::exception\n", file.c_str());
  }
  return false;
}

}  // namespace

int main(int count, char** names) {
  std::signal(SIGABRT, on_abort);
  const std::vector<std::filesystem::path> files = files_of(count, names);
  if (files.empty()) {
    std::fprintf(stderr, "Usage: %s FILE|FOLDER...\n", count > 0 ? names[0] : "replay");
    return 2;
  }
  size_t failed = 0;
  for (const auto& file : files) failed += run(file) ? 0 : 1;
  std::printf("%zu inputs, %zu failed\n", files.size(), failed);
  return failed == 0 ? 0 : 1;
}
