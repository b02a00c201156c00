// Whose OMP_NUM_THREADS=1 it is: torchrun sets it where the user did not, and one thread a rank is rarely what a CPU
// run wants. Any thread.
#pragma once

#include <optional>
#include <string>

#include "comm/launch_environment.h"

namespace mgtrain {

/// Whether OMP_NUM_THREADS=1 is torchrun's doing. torchrun sets it where it is unset and starts more than one process,
/// and leaves no mark of that: the same value of the user's looks alike here. What tells them apart is the environment
/// that torchrun itself was started with (`launcher`): the variable stands there only if the user set it. Where that is
/// not known, it is taken for torchrun's.
bool threads_set_by_torchrun(const Environment& environment, const std::optional<Environment>& launcher);

/// The variables with which the launcher of this process was itself started: those of the nearest ancestor that had no
/// TORCHELASTIC_RUN_ID. Nothing where `proc` ("/proc") does not tell.
std::optional<Environment> environment_of_launcher(const std::string& proc = "/proc");

}  // namespace mgtrain
