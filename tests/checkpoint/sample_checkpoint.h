// Small whole checkpoints without LibTorch, for tests of files: a model of two tensors, its state, run.json.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/run_record.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"

namespace mgtrain::test {

/// A safetensors file of F32 tensors [n] whose values' bytes are all `fill`.
inline std::string sample_safetensors(const std::vector<std::pair<std::string, int64_t>>& tensors, char fill) {
  std::vector<TensorEntry> entries;
  size_t bytes = 0;
  for (const auto& [name, size] : tensors) {
    entries.push_back({.name = name, .dtype = "F32", .shape = {size}});
    bytes += 4 * static_cast<size_t>(size);
  }
  return safetensors_header(entries, {{"format", "pt"}}) + std::string(bytes, fill);
}

inline CheckpointFile sample_file(const std::string& name, std::string text) {
  const uint64_t bytes = text.size();
  return {name,
          [text = std::move(text)](WritableFile& file) {
            // In two parts, as tensors come.
            const auto all = std::as_bytes(std::span(text.data(), text.size()));
            file.write(all.first(all.size() / 3));
            file.write(all.subspan(all.size() / 3));
          },
          bytes};
}

inline RunRecord sample_record(int64_t step) {
  RunRecord record;
  record.state = {.step = step,
                  .epoch = 2,
                  .sample_offset = 640,
                  .samples_seen = 64 * step,
                  .best_value = 0.1 + 0.2,
                  .best_step = 7,
                  .evals_without_improvement = 1,
                  .last_eval_step = 40,
                  .loss_sum_since_report = 1.0 / 3,
                  .top1_since_report = 41,
                  .samples_since_report = 64,
                  .elapsed_seconds = 12.5};
  record.config_toml = "[train]\nbatch = 64 # \"quoted\"\n";
  record.model_json = R"({"name":"resnet18","width":8,"stem":"cifar","classes":10})";
  record.class_names = {"shoe", "coat \xc3\xa9", "bag"};
  record.dataset_fingerprint = "0123abcd";
  record.dataset_json = R"({"channels":1,"mean":[0.2860406]})";
  record.mgtrain_version = "0.1.0";
  record.torch_version = "2.11.0";
  record.total_steps = 790;
  record.steps_per_epoch = 79;
  record.file_lengths = {{"metrics.jsonl", 12345}, {"log.txt", 0}};
  return record;
}

/// The files of a checkpoint; `fill` makes one checkpoint of a step differ from another.
inline std::vector<CheckpointFile> sample_checkpoint(int64_t step, char fill = 1) {
  return {sample_file("model.safetensors", sample_safetensors({{"fc.bias", 3}, {"fc.weight", 40}}, fill)),
          sample_file("state.safetensors", sample_safetensors({{"optimizer.momentum.fc.weight", 40}}, fill)),
          sample_file("run.json", render_run_record(sample_record(step)))};
}

}  // namespace mgtrain::test
