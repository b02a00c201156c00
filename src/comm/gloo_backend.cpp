// Debian's headers of Gloo, LibTorch's own code of it: the wheel brings no headers, and Debian's library must not be
// linked.
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>

#include "base/error.h"
#include "comm/backends.h"

namespace mgtrain {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    std::chrono::milliseconds timeout, const std::string& address) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->threads = 2;  // one for a collective that is under way, one for the next
  try {
    // torch's own variable for a machine with several networks.
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    options->devices.push_back(interface != nullptr && *interface != '\0'
                                   ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                                   : c10d::ProcessGroupGloo::createDeviceForHostname(address));
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw DeviceError("rank " + std::to_string(rank) + " cannot reach the others over " + address + ": " +
                      text.substr(0, text.find('\n')) +
                      "; expected an address of this machine that all ranks can reach");
  }
}

}  // namespace mgtrain
