// A run folder read back, and what two runs must have in common bit for bit.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/program.h"

namespace mgtrain::test {

using Json = nlohmann::ordered_json;

inline std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

/// Events of a kind in metrics.jsonl. A line still being written is left out.
inline std::vector<Json> events(const std::filesystem::path& run, const std::string& kind) {
  std::string text = text_of(run / "metrics.jsonl");
  text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
  std::vector<Json> chosen;
  for (Json& event : json_lines(text))
    if (event.at("event") == kind) chosen.push_back(std::move(event));
  return chosen;
}

/// The per-step log without times: steps and evaluations, numbers as they are written.
inline std::vector<std::string> numeric_log(const std::filesystem::path& run) {
  std::vector<std::string> lines;
  for (Json event : json_lines(text_of(run / "metrics.jsonl"))) {
    if (event.at("event") != "step" && event.at("event") != "eval") continue;
    for (const char* key : {"time", "seconds", "images_per_second", "data_wait_seconds", "forward_backward_seconds",
                            "optimizer_seconds", "checkpoint_seconds"})
      event.erase(key);
    lines.push_back(event.dump());
  }
  return lines;
}

inline std::string step_folder(int64_t step) {
  std::string digits = std::to_string(step);
  return "step-" + std::string(8 - digits.size(), '0') + digits;
}

/// Weights, optimizer state and counters of a checkpoint, but for the seconds it took and what another place changes.
inline std::string checkpoint_bits(const std::filesystem::path& run, int64_t step) {
  const std::filesystem::path folder = run / "checkpoints" / step_folder(step);
  Json record = Json::parse(text_of(folder / "run.json"));
  record.at("state").erase("elapsed_seconds");
  return text_of(folder / "model.safetensors") + text_of(folder / "state.safetensors") + record.at("state").dump();
}

}  // namespace mgtrain::test
