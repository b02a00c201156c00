// What may differ between a run and its continuation: product.md's table as a pure function. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace mgtrain {

/// What a resumed run does with another value of a key.
enum class ResumeRule {
  kTaken,          // goes on with the new value
  kTakenNumerics,  // so too, and says that results no longer equal an unbroken run's bit for bit
  kLength,         // epochs, steps: taken unless the learning rates depend on the run's length
  kRefused,        // unless changes are allowed
  kNever,          // another network or other data: a new run
};
/// The rule of a config key; a key not named in the table is kRefused.
ResumeRule resume_rule(const std::string& key);

/// Compares the configuration a checkpoint was made with to the one asked for now.
struct ResumeChanges {
  std::vector<std::string> taken;     // said: "train.epochs: 10 -> 20 (...)"
  std::vector<std::string> recorded;  // only with resume_changes allow
};
/// Throws CheckpointError (model, optimizer kind, data: every difference listed, those of other kinds too), else
/// ConfigError (refused without allow; every difference listed). `dataset_fingerprint_*`: compared as well.
/// `steps_per_epoch_*`: where known (not 0), a change of epochs or steps that leaves the total is taken, and a
/// stretched schedule is told in steps.
ResumeChanges compare_for_resume(const RunConfig& saved, const RunConfig& now, bool allow_changes,
                                 const std::string& fingerprint_saved, const std::string& fingerprint_now,
                                 int64_t steps_per_epoch_saved = 0, int64_t steps_per_epoch_now = 0);

}  // namespace mgtrain
