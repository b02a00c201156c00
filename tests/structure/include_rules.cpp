#include "structure/include_rules.h"

#include <algorithm>
#include <functional>
#include <regex>
#include <sstream>

namespace mgtrain::structure {
namespace {

// Folder -> what it may include besides itself: folders end in '/', single headers do not. The headers named singly
// are the torch-free descriptions, and the three types in which values cross between siblings.
const std::map<std::string, std::vector<std::string>>& arrows() {
  static const std::map<std::string, std::vector<std::string>> table = {
      {"base", {}},
      {"config", {"base/"}},
      {"devices", {"base/", "config/"}},
      {"comm", {"base/", "config/"}},
      {"model", {"base/", "config/", "comm/"}},
      {"data", {"base/", "config/", "comm/"}},
      {"optim", {"base/", "config/", "comm/"}},
      {"plan",
       {"base/", "config/", "devices/", "model/resnet_spec.h", "data/dataset_info.h", "data/epoch_order.h",
        "optim/lr_schedule.h"}},
      {"parallel",
       {"base/", "config/", "comm/", "devices/device.h", "devices/torch_device.h", "data/epoch_order.h",
        "model/resnet_spec.h", "data/batch.h", "model/resnet.h", "optim/optimizer.h"}},
      {"checkpoint", {"base/", "config/", "comm/", "model/resnet_spec.h", "optim/optimizer.h"}},
      {"observe", {"base/", "config/"}},
      {"engine",
       {"base/", "config/", "comm/", "devices/", "plan/", "data/", "model/", "optim/", "parallel/", "checkpoint/",
        "observe/"}},
      {"app",
       {"base/", "config/", "comm/", "devices/", "plan/", "data/", "model/", "optim/", "parallel/", "checkpoint/",
        "observe/", "engine/"}},
      {"main.cpp", {"app/"}},
  };
  return table;
}

// A library -> how its headers are named, and the files that may name them.
struct Confined {
  std::string library;
  std::regex header;
  std::vector<std::string> allowed;
};
const std::vector<Confined>& confined_libraries() {
  static const std::vector<Confined> table = {
      {"CLI11", std::regex("CLI/.*"), {"app/cli."}},
      {"toml++", std::regex("toml\\+\\+.*|toml\\.hpp"), {"config/toml.cpp"}},
      {"spdlog", std::regex("(spdlog|fmt)/.*"), {"base/log.cpp"}},
  };
  return table;
}

const std::vector<std::string> kCudaFiles = {"comm/", "devices/", "parallel/data_parallel_cuda.cpp"};
const std::regex kCudaHeader("(cuda|cudnn|cublas|nccl|nvml|cupti).*|(c10|ATen|torch/csrc)/cuda/.*|.*NCCL.*");
// In code, comments and strings aside; a DeviceKind::kCuda is a value of our own and may be named anywhere.
const std::regex kCudaName("\\b(k?CUDA\\w*|cuda[A-Z_]\\w*|(at|c10|torch)::cuda|nccl\\w*|cudnn\\w*)\\b");
const std::regex kTorchHeader("(torch|ATen|c10|caffe2)/.*");

bool starts_with_any(const std::string& text, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) { return text.rfind(prefix, 0) == 0; });
}

std::string folder_of(const std::string& path) { return path.substr(0, path.find('/')); }

struct Include {
  int line;
  std::string header;
  bool quoted;
};

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex directive(R"(^\s*#\s*include\s*(["<])([^">]+)[">].*)");
  std::vector<Include> found;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (line.find("include") != std::string::npos && std::regex_match(line, match, directive)) {
      found.push_back({number, match[2], match[1] == "\""});
    }
  }
  return found;
}

/// The text with comments, string and character literals blanked; line breaks stay.
std::string code_only(const std::string& text) {
  std::string code = text;
  enum class In { kCode, kLine, kBlock, kString, kCharacter } in = In::kCode;
  for (size_t i = 0; i < code.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\n') {
      if (in == In::kLine) in = In::kCode;
      continue;
    }
    switch (in) {
      case In::kCode:
        if (c == '/' && next == '/') in = In::kLine;
        if (c == '/' && next == '*') in = In::kBlock;
        if (c == '"') in = In::kString;
        if (c == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1])))) in = In::kCharacter;
        if (in != In::kCode) code[i] = ' ';
        break;
      case In::kBlock:
        code[i] = ' ';
        if (c == '*' && next == '/') code[++i] = ' ', in = In::kCode;
        break;
      case In::kString:
      case In::kCharacter:
        code[i] = ' ';
        if (c == '\\' && next != '\n') {
          if (i + 1 < code.size()) code[++i] = ' ';
        } else if (c == (in == In::kString ? '"' : '\'')) {
          in = In::kCode;
        }
        break;
      case In::kLine:
        code[i] = ' ';
        break;
    }
  }
  return code;
}

std::string at(const std::string& path, int line) { return path + ":" + std::to_string(line) + ": "; }

void check_arrows(const SourceTree& tree, const std::string& path, const Include& include,
                  std::vector<std::string>& faults) {
  const std::string folder = folder_of(path);
  const auto arrow = arrows().find(folder);
  if (arrow == arrows().end()) {
    faults.push_back(path + ": the folder " + folder + "/ has no line in the table of arrows");
    return;
  }
  if (!tree.contains(include.header)) return;  // another library's, or generated
  if (folder_of(include.header) == folder || starts_with_any(include.header, arrow->second)) return;
  std::string may;
  for (const std::string& allowed : arrow->second) may += " " + allowed;
  faults.push_back(at(path, include.line) + "includes " + include.header + "; " + folder + " may include itself and" +
                   (may.empty() ? " nothing else" : may));
}

void check_libraries(const std::string& path, const Include& include, std::vector<std::string>& faults) {
  for (const Confined& confined : confined_libraries()) {
    if (std::regex_match(include.header, confined.header) && !starts_with_any(path, confined.allowed)) {
      faults.push_back(at(path, include.line) + "includes " + include.header + "; only " + confined.allowed.front() +
                       " may name " + confined.library);
    }
  }
}

void check_cuda(const std::string& path, const std::string& text, std::vector<std::string>& faults) {
  if (starts_with_any(path, kCudaFiles)) return;
  for (const Include& include : includes_of(text)) {
    if (std::regex_match(include.header, kCudaHeader)) {
      faults.push_back(at(path, include.line) + "includes " + include.header + ", which is CUDA's");
    }
  }
  std::istringstream lines(code_only(text));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (line.find("#include") == std::string::npos && std::regex_search(line, match, kCudaName)) {
      faults.push_back(at(path, number) + "names CUDA (" + match.str() + ")");
    }
  }
}

void check_torch_free(const SourceTree& tree, const std::string& source, std::vector<std::string>& faults) {
  std::set<std::string> seen;
  const std::function<void(const std::string&, const std::string&)> walk = [&](const std::string& path,
                                                                               const std::string& way) {
    if (!tree.contains(path) || !seen.insert(path).second) return;
    for (const Include& include : includes_of(tree.at(path))) {
      if (!include.quoted && std::regex_match(include.header, kTorchHeader)) {
        faults.push_back(at(path, include.line) + "includes " + include.header + "; " + way +
                         " is in mgtrain_base, which knows no LibTorch");
      }
      walk(include.header, way + " -> " + include.header);
    }
  };
  walk(source, source);
}

}  // namespace

std::vector<std::string> include_faults(const SourceTree& tree, const std::set<std::string>& base_sources) {
  std::vector<std::string> faults;
  for (const auto& [path, text] : tree) {
    for (const Include& include : includes_of(text)) {
      check_arrows(tree, path, include, faults);
      check_libraries(path, include, faults);
    }
    check_cuda(path, text, faults);
  }
  for (const std::string& source : base_sources) {
    if (tree.contains(source)) {
      check_torch_free(tree, source, faults);
    } else {
      faults.push_back(source + ": a source of mgtrain_base that is not below src/");
    }
  }
  return faults;
}

}  // namespace mgtrain::structure
