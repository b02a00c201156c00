#include "comm/store_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "comm/launch_environment.h"

namespace mgtrain {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// The addresses of a host; none, and why in `problem`, where its name is not known.
Addresses resolve(const std::string& host, uint16_t port, std::string& problem) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error == 0) return Addresses(found);
  problem = ::gai_strerror(error);
  return nullptr;
}

in_addr& ipv4(addrinfo& address) { return reinterpret_cast<sockaddr_in*>(address.ai_addr)->sin_addr; }
in6_addr& ipv6(addrinfo& address) { return reinterpret_cast<sockaddr_in6*>(address.ai_addr)->sin6_addr; }

void widen_to_all(addrinfo& address) {
  if (address.ai_family == AF_INET) ipv4(address).s_addr = htonl(INADDR_ANY);
  if (address.ai_family == AF_INET6) ipv6(address) = in6addr_any;
}

const char* listen_remedy(int error) {
  switch (error) {
    case EADDRINUSE:
      return "another program, or another rank 0, holds the port: choose another one, on all ranks";
    case EADDRNOTAVAIL:
      return "rank 0 must run on the machine that is named";
    case EACCES:
      return "choose a port above 1023, on all ranks";
    default:
      return "choose another place with --rdzv HOST:PORT, on all ranks";
  }
}

bool accepts(const addrinfo& address, std::chrono::milliseconds limit, std::string& problem) {
  const Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int error = 0;
  if (socket.fd() < 0 || ::connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    pollfd waited{.fd = socket.fd(), .events = POLLOUT, .revents = 0};
    error = ETIMEDOUT;
    if (::poll(&waited, 1, static_cast<int>(limit.count())) == 1) {
      socklen_t size = sizeof(error);
      ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error != 0) problem = std::strerror(error);
  return error == 0;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket listen_at(const std::string& host, uint16_t port, ListenFor whom) {
  const std::string failed = "rank 0 cannot listen at " + address_text(host, port) + ": ";
  std::string problem;
  const Addresses addresses = resolve(host, port, problem);
  if (!addresses) throw DeviceError(failed + problem + "; name this machine by an address it has");
  if (whom == ListenFor::kAllAddresses) widen_to_all(*addresses);
  Socket socket(::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (socket.fd() < 0 || ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(socket.fd(), addresses->ai_addr, addresses->ai_addrlen) != 0 || ::listen(socket.fd(), SOMAXCONN) != 0) {
    const int error = errno;
    throw DeviceError(failed + std::strerror(error) + "; " + listen_remedy(error));
  }
  return socket;
}

uint16_t port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw DeviceError(std::string("a socket has no port: ") + std::strerror(errno));
  }
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

bool is_loopback(const std::string& host) {
  std::string ignored;
  const Addresses addresses = resolve(host, 0, ignored);
  if (!addresses) return false;
  if (addresses->ai_family == AF_INET) return (ntohl(ipv4(*addresses).s_addr) >> 24) == 127;
  return addresses->ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&ipv6(*addresses));
}

bool somebody_listens(const std::string& host, uint16_t port, std::chrono::milliseconds limit, std::string& problem) {
  const Addresses addresses = resolve(host, port, problem);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    if (accepts(*address, limit, problem)) return true;
  }
  return false;
}

}  // namespace mgtrain
