#include "app/failure.h"

#include <c10/util/Exception.h>

#include <filesystem>
#include <new>

#include "base/error.h"
#include "base/files.h"

namespace mgtrain {

namespace {
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }
}  // namespace

Failure describe_failure(const std::exception_ptr& exception) {
  const std::string bug = "a bug in mgtrain, please report it with this command";
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const FileError& error) {
    return {ExitCode::kOutput, error.what()};
  } catch (const std::filesystem::filesystem_error& error) {
    return {ExitCode::kOutput, error.what()};
  } catch (const c10::OutOfMemoryError& error) {
    return {ExitCode::kOutOfMemory,
            "a smaller --batch needs less memory; " + first_line(error.what_without_backtrace())};
  } catch (const c10::AcceleratorError& error) {
    return {ExitCode::kDevice, "a device failed: " + first_line(error.what_without_backtrace())};
  } catch (const std::bad_alloc&) {
    return {ExitCode::kOutOfMemory, "out of host memory; a smaller --batch or --workers needs less"};
  } catch (const std::exception& error) {
    // Of what other libraries throw the first line, as LibTorch appends its call stack.
    return {ExitCode::kBug, bug + " and message: " + first_line(error.what())};
  } catch (...) {
    return {ExitCode::kBug, bug + " (unknown exception)"};
  }
}

}  // namespace mgtrain
