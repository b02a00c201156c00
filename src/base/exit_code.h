// The process exit codes of mgtrain. docs/exit-codes.md explains each to a user.
#pragma once

namespace mgtrain {

enum class ExitCode : int {
  kDone = 0,
  kAssertionFailed = 1,
  kUsage = 2,
  kData = 3,
  kCheckpoint = 4,
  kOutput = 5,
  kNonFinite = 6,
  kDevice = 7,
  kOutOfMemory = 8,
  kBug = 70,
  kInterrupted = 130,
  kTerminated = 143,
};

}  // namespace mgtrain
