#include "parallel/device_errors.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <new>
#include <stdexcept>

#include "base/error.h"

namespace mgtrain {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The CPU allocator and some CUDA calls report exhaustion as a plain c10::Error.
bool says_out_of_memory(const std::string& text) {
  return text.find("out of memory") != std::string::npos || text.find("DefaultCPUAllocator") != std::string::npos;
}

/// Whether `name` stands in `text` as a whole: "cuda:1" not in "cuda:10".
bool names(const std::string& text, const std::string& name) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (end == text.size() || std::isdigit(static_cast<unsigned char>(text[end])) == 0) return true;
  }
  return false;
}

/// The work of the one device that the failure's text names, if it names one. CUDA's allocator calls cuda:1 "GPU 1".
DeviceWork narrowed(DeviceWork work, const std::string& text) {
  const std::pair<std::string, int64_t>* named = nullptr;
  for (const auto& candidate : work.candidates) {
    const std::string& label = candidate.first;
    const bool is_gpu = label.starts_with("cuda:");
    if (!names(text, label) && !(is_gpu && names(text, "GPU " + label.substr(5)))) continue;
    if (named != nullptr) return work;
    named = &candidate;
  }
  if (named != nullptr) {
    work.device = named->first;
    work.samples = named->second;
  }
  return work;
}

std::string where(const DeviceWork& work) {
  if (work.samples == 0) return work.device + " during the " + work.phase;
  return work.device + " in the " + work.phase + " pass of " + std::to_string(work.samples) +
         (work.samples == 1 ? " sample" : " samples") + " (its share of a batch of " + std::to_string(work.batch) + ")";
}

[[noreturn]] void throw_out_of_memory(const DeviceWork& given, const std::string& detail) {
  const DeviceWork work = narrowed(given, detail);
  const std::string advice = work.batch > 1
                                 ? "try a batch of " + std::to_string(std::max<int64_t>(1, work.batch / 2)) +
                                       " at once: --accumulate 2 keeps the global batch, a smaller --batch does not"
                                 : "the model itself does not fit: try a smaller --width, or a device with more memory";
  throw OutOfMemoryError("out of memory on " + where(work) + "; " + advice + ". Reported: " + first_line(detail));
}

[[noreturn]] void throw_device_error(const DeviceWork& work, const std::string& detail) {
  throw DeviceError("failure on " + where(narrowed(work, detail)) + ": " + first_line(detail));
}

}  // namespace

void rethrow_as_device_error(const DeviceWork& work) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    throw_out_of_memory(work, error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    throw_out_of_memory(work, error.what());
  } catch (const c10::Error& error) {
    const std::string detail = error.what_without_backtrace();
    if (says_out_of_memory(detail)) throw_out_of_memory(work, detail);
    throw_device_error(work, detail);
  } catch (const std::logic_error&) {
    throw;
  } catch (const std::exception& error) {
    if (says_out_of_memory(error.what())) throw_out_of_memory(work, error.what());
    throw_device_error(work, error.what());
  }
}

}  // namespace mgtrain
