#include "app/failure.h"

#include <filesystem>
#include <new>

#include "base/error.h"
#include "base/files.h"

namespace mgtrain {

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
  } catch (const std::bad_alloc&) {
    return {ExitCode::kOutOfMemory, "out of host memory; a smaller --batch or --workers needs less"};
  } catch (const std::exception& error) {
    // Of what other libraries throw the first line, as LibTorch appends its call stack.
    const std::string text = error.what();
    return {ExitCode::kBug, bug + " and message: " + text.substr(0, text.find('\n'))};
  } catch (...) {
    return {ExitCode::kBug, bug + " (unknown exception)"};
  }
}

}  // namespace mgtrain
