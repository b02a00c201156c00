// Weight files that mean harm, for the tests that give them to mgtrain: G7 of docs/reliability.md.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace mgtrain::test {

struct HostileFile {
  std::string name;                   // "pickle of protocol 2", for the test's report
  std::string file_name;              // "a.pt": what it is called
  std::function<std::string()> make;  // its bytes; large ones are made when wanted
  bool readable = false;              // in form a safetensors file; what it holds fits no network
};

/// `canary`: a file that whatever runs the code in them would make. `large`: of those whose size does the harm, the
/// bytes (100 MB where the limit of a header is what is tried).
std::vector<HostileFile> hostile_files(const std::filesystem::path& canary, size_t large);

}  // namespace mgtrain::test
