// The errors mgtrain throws on purpose. Each class maps to one exit code; main.cpp is the only place
// that turns one into a process exit. A message says what failed, where, what was expected and what to do.
#pragma once

#include <stdexcept>
#include <string>

#include "base/exit_code.h"

namespace mgtrain {

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Wrong usage or configuration; exit 2.
struct ConfigError : Error {
  explicit ConfigError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};

/// Missing, unreadable or invalid training data; exit 3. Names the file, and the record where there is one.
struct DataError : Error {
  explicit DataError(const std::string& message) : Error(ExitCode::kData, message) {}
};

/// A checkpoint or weights file that is missing, damaged or does not fit the model; exit 4.
struct CheckpointError : Error {
  explicit CheckpointError(const std::string& message) : Error(ExitCode::kCheckpoint, message) {}
};

/// The run's output could not be written; exit 5. Names the path and, for a full disk, needed and free bytes.
struct OutputError : Error {
  explicit OutputError(const std::string& message) : Error(ExitCode::kOutput, message) {}
};

/// The loss, a gradient or a metric became NaN or Inf; exit 6.
struct NonFiniteError : Error {
  explicit NonFiniteError(const std::string& message) : Error(ExitCode::kNonFinite, message) {}
};

/// A device, driver or replica is missing or failed; exit 7.
struct DeviceError : Error {
  explicit DeviceError(const std::string& message) : Error(ExitCode::kDevice, message) {}
};

/// A device or the host ran out of memory; exit 8. Names the device and the batch.
struct OutOfMemoryError : Error {
  explicit OutOfMemoryError(const std::string& message) : Error(ExitCode::kOutOfMemory, message) {}
};

}  // namespace mgtrain
