#include "comm/store_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

constexpr std::chrono::milliseconds kAtOnce{100};

std::string address_of(const Socket& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  REQUIRE(::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return inet_ntoa(address.sin_addr);
}

TEST_CASE("a socket listens at the named address alone, unless all are asked for", "[comm]") {
  const Socket named = listen_at("127.0.0.1", 0, ListenFor::kNamedAddress);
  CHECK(address_of(named) == "127.0.0.1");
  CHECK(port_of(named) != 0);
  CHECK(address_of(listen_at("127.0.0.1", 0, ListenFor::kAllAddresses)) == "0.0.0.0");
}

TEST_CASE("one sees whether somebody listens", "[comm]") {
  uint16_t port = 0;
  std::string problem;
  {
    const Socket socket = listen_at("127.0.0.1", 0, ListenFor::kNamedAddress);
    port = port_of(socket);
    CHECK(somebody_listens("127.0.0.1", port, kAtOnce, problem));
    CHECK(problem.empty());
  }
  CHECK_FALSE(somebody_listens("127.0.0.1", port, kAtOnce, problem));
  CHECK(problem == "Connection refused");
  CHECK_FALSE(somebody_listens("no.such.host.invalid", port, kAtOnce, problem));
  CHECK(problem != "Connection refused");
}

TEST_CASE("a port is taken once, and free again at once when its holder is gone", "[comm]") {
  uint16_t port = 0;
  {
    const Socket socket = listen_at("127.0.0.1", 0, ListenFor::kNamedAddress);
    port = port_of(socket);
    CHECK_THROWS_AS(listen_at("127.0.0.1", port, ListenFor::kNamedAddress), DeviceError);
    CHECK_THROWS_WITH(
        listen_at("127.0.0.1", port, ListenFor::kNamedAddress),
        Catch::Equals("rank 0 cannot listen at 127.0.0.1:" + std::to_string(port) +
                      ": Address already in use; another program, or another rank 0, holds the port: choose another "
                      "one, on all ranks"));
  }
  CHECK(port_of(listen_at("127.0.0.1", port, ListenFor::kNamedAddress)) == port);
}

TEST_CASE("an address of another machine, or none at all, cannot be listened at", "[comm]") {
  CHECK_THROWS_WITH(listen_at("192.0.2.1", 29500, ListenFor::kNamedAddress),  // for documentation, nobody's
                    Catch::Contains("rank 0 cannot listen at 192.0.2.1:29500: ") &&
                        Catch::Contains("rank 0 must run on the machine that is named"));
  CHECK_THROWS_WITH(listen_at("no.such.host.invalid", 29500, ListenFor::kNamedAddress),
                    Catch::Contains("name this machine by an address it has"));
}

TEST_CASE("loopback addresses are known as such", "[comm]") {
  CHECK(is_loopback("127.0.0.1"));
  CHECK(is_loopback("127.0.1.1"));
  CHECK(is_loopback("::1"));
  CHECK(is_loopback("localhost"));
  CHECK_FALSE(is_loopback("192.0.2.1"));
  CHECK_FALSE(is_loopback("fe80::1"));
  CHECK_FALSE(is_loopback("no.such.host.invalid"));
}

}  // namespace
}  // namespace mgtrain
