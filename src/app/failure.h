// What went wrong, as the program and the last line of a run tell it: exit code and message of any exception.
#pragma once

#include <exception>
#include <string>

#include "base/exit_code.h"

namespace mgtrain {

struct Failure {
  ExitCode code = ExitCode::kBug;
  std::string message;
};

Failure describe_failure(const std::exception_ptr& exception);

}  // namespace mgtrain
