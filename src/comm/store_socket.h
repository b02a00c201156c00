// The sockets under a rendezvous: one to listen at exactly the address named, and a look whether somebody listens.
// Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace mgtrain {

/// A descriptor that closes with the object, unless it is released.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket();
  [[nodiscard]] int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

enum class ListenFor { kNamedAddress, kAllAddresses };

/// Listens at `port` (0: any free one) of the first address of `host`, or of all addresses of its family. A port that
/// an ended run left behind is free. Throws DeviceError with the reason and what to do.
Socket listen_at(const std::string& host, uint16_t port, ListenFor whom);

/// The port a socket listens at.
uint16_t port_of(const Socket& socket);

/// Whether `host` is a loopback address on this machine (127.0.0.1, ::1, and on Debian a machine's own name).
bool is_loopback(const std::string& host);

/// Whether a connection to an address of `host` is accepted, tried for at most `limit` each; if not, why.
bool somebody_listens(const std::string& host, uint16_t port, std::chrono::milliseconds limit, std::string& problem);

}  // namespace mgtrain
