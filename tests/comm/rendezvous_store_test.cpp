#include "comm/rendezvous_store.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <future>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "base/error.h"
#include "comm/store_socket.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

using namespace std::chrono_literals;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

int no_signal() { return 0; }

// Short enough to wait for, long enough to meet in on a busy machine.
const RendezvousOptions kPatient{.timeout = 60s, .stop = no_signal};
const RendezvousOptions kImpatient{.timeout = 1500ms, .stop = no_signal};

uint16_t free_port() { return port_of(listen_at("127.0.0.1", 0, ListenFor::kNamedAddress)); }

Launch rank_of(int rank, int world, uint16_t port) {
  return {.rank = rank, .world_size = world, .store_host = "127.0.0.1", .store_port = port};
}

/// What a rank came back with: its store, or what it said.
struct Outcome {
  StorePtr store;
  std::string said;
  int code = 0;
};

std::future<Outcome> start(const Launch& launch, const RendezvousOptions& options = kPatient) {
  return std::async(std::launch::async, [=] {
    Outcome outcome;
    try {
      outcome.store = join_rendezvous(launch, options);
    } catch (const Error& error) {
      outcome.said = error.what();
      outcome.code = static_cast<int>(error.code());
    }
    return outcome;
  });
}

/// A store such as torchrun's agent holds, and clients' views of it.
class Agent {
 public:
  Agent() {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    store_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }
  [[nodiscard]] Launch rank_of(int rank, int world) const {
    Launch launch = mgtrain::rank_of(rank, world, store_->getPort());
    launch.launcher = Launcher::kTorchrun;
    launch.agent_store = true;
    launch.run_id = "job";
    return launch;
  }
  /// Waits until a key of the rendezvous has this value.
  void wait_for(const std::string& key, const std::string& value) const {
    while (!store_->check({"mgtrain/job/" + key}) || store_->get_to_str("mgtrain/job/" + key) != value) {
      std::this_thread::yield();
    }
  }

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

TEST_CASE("ranks meet, and see each other's keys", "[comm]") {
  const int world = GENERATE(1, 2, 4);
  const uint16_t port = free_port();
  std::vector<std::future<Outcome>> started;
  for (int rank = world - 1; rank >= 0; --rank) started.push_back(start(rank_of(rank, world, port)));
  std::vector<StorePtr> stores;
  for (auto& rank : started) {
    const Outcome outcome = rank.get();
    CHECK(outcome.said.empty());
    REQUIRE(outcome.store);
    stores.push_back(outcome.store);
  }
  for (int i = 0; i < world; ++i) stores[static_cast<size_t>(i)]->set("from/" + std::to_string(i), "hello");
  for (const StorePtr& store : stores) {
    for (int i = 0; i < world; ++i) CHECK(store->get_to_str("from/" + std::to_string(i)) == "hello");
    CHECK(store->getTimeout() == 60s);
  }
}

TEST_CASE("rank 0 listens on the loopback alone", "[comm]") {
  const uint16_t port = free_port();
  const StorePtr store = join_rendezvous(rank_of(0, 1, port), kPatient);
  char wanted[32];
  std::snprintf(wanted, sizeof(wanted), "0100007F:%04X 00000000:0000 0A", port);  // address:port peer state LISTEN
  char any_address[16];
  std::snprintf(any_address, sizeof(any_address), ":%04X 0", port);
  int named = 0, listening = 0;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      const bool listens = line.find(" 0A ") != line.npos;
      named += line.find(wanted) != line.npos ? 1 : 0;
      listening += listens && line.find(any_address) != line.npos ? 1 : 0;
    }
  }
  CHECK(named == 1);
  CHECK(listening == 1);
}

TEST_CASE("ranks meet at an IPv6 address", "[comm]") {
  std::optional<Socket> probe;
  try {
    probe.emplace(listen_at("::1", 0, ListenFor::kNamedAddress));
  } catch (const DeviceError&) {
    WARN("this machine has no IPv6");
    return;
  }
  const uint16_t port = port_of(*probe);
  probe.reset();
  Launch first = rank_of(0, 2, port), second = rank_of(1, 2, port);
  first.store_host = second.store_host = "::1";
  auto other = start(second);
  const Outcome outcome = start(first).get();
  CHECK(outcome.said.empty());
  CHECK(other.get().said.empty());
}

TEST_CASE("a name that is a loopback address where several machines are named: all addresses, with a warning",
          "[comm]") {
  Launch launch = rank_of(0, 1, free_port());
  launch.store_host = "localhost";
  launch.num_nodes = 2;
  std::vector<std::string> warnings;
  RendezvousOptions options = kPatient;
  options.warn = [&](std::string_view text) { warnings.emplace_back(text); };
  (void)join_rendezvous(launch, options);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::Contains("localhost is a loopback address on this machine") &&
                              Catch::Contains("rank 0 listens on all addresses, port"));
}

// --- who did not come

std::atomic<int> told_signal{0};
int told() { return told_signal.load(); }

TEST_CASE("a rank that waited in vain names those who did not come; a signal ends a wait", "[comm]") {
  told_signal = 0;
  const uint16_t port = free_port();
  auto first = start(rank_of(0, 4, port), {.timeout = 60s, .stop = told});
  const Outcome third = start(rank_of(2, 4, port), kImpatient).get();
  CHECK(third.code == 7);
  CHECK(third.said ==
        "rank 2 waited 1.5 s (--timeout) for the others: ranks 1 and 3 of 4 did not come; see that each was started "
        "and reaches 127.0.0.1:" +
            std::to_string(port));
  told_signal = SIGTERM;
  const Outcome stopped = first.get();
  CHECK(stopped.code == 143);
  CHECK(stopped.said == "SIGTERM while waiting for the other ranks: nothing to save");
}

TEST_CASE("rank 0 names those who did not come", "[comm]") {
  const Outcome alone = start(rank_of(0, 2, free_port()), {.timeout = 1500ms, .stop = no_signal}).get();
  CHECK(alone.code == 7);
  CHECK_THAT(alone.said, Catch::StartsWith("rank 0 waited 1.5 s (--timeout) for the others: rank 1 of 2 did not come"));
  const Outcome crowd = start(rank_of(0, 14, free_port()), {.timeout = 1500ms, .stop = no_signal}).get();
  CHECK_THAT(crowd.said, Catch::Contains("ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 3 more of 14 did not come"));
}

TEST_CASE("a rank that cannot reach rank 0 says where it looked and why", "[comm]") {
  const uint16_t port = free_port();
  const Outcome outcome = start(rank_of(1, 2, port), {.timeout = 1500ms, .stop = no_signal}).get();
  CHECK(outcome.code == 7);
  CHECK(outcome.said == "rank 1 could not reach rank 0 at 127.0.0.1:" + std::to_string(port) +
                            " within 1.5 s (--timeout): Connection refused; see that rank 0 was started and that this "
                            "machine reaches it");
}

TEST_CASE("a signal ends the search for rank 0", "[comm]") {
  const Outcome outcome = start(rank_of(1, 2, free_port()), {.timeout = 60s, .stop = [] { return SIGINT; }}).get();
  CHECK(outcome.code == 130);
}

TEST_CASE("a rank whose rank 0 goes away while all gather says so", "[comm]") {
  told_signal = 0;
  const uint16_t port = free_port();
  auto first = start(rank_of(0, 3, port), {.timeout = 60s, .stop = told});
  auto second = start(rank_of(1, 3, port));
  auto watcher = c10d::TCPStoreOptions{};
  watcher.port = port;
  {
    std::string ignored;
    while (!somebody_listens("127.0.0.1", port, 100ms, ignored)) std::this_thread::yield();
    c10d::TCPStore store("127.0.0.1", watcher);
    while (!store.check({"mgtrain//1/here/1"})) std::this_thread::yield();
  }
  told_signal = SIGTERM;
  CHECK(first.get().code == 143);
  const Outcome left = second.get();
  CHECK(left.code == 7);
  CHECK_THAT(left.said,
             Catch::StartsWith("rank 1 lost the store at 127.0.0.1:") && Catch::EndsWith("see what rank 0 said"));
}

// --- who does not fit

TEST_CASE("ranks started for worlds of different size are refused on both sides", "[comm]") {
  const uint16_t port = free_port();
  auto first = start(rank_of(0, 2, port));
  const Outcome second = start(rank_of(1, 3, port)).get();
  CHECK(second.code == 2);
  CHECK(second.said == "rank 1 was started for a world of 3 ranks, rank 0 for 2; give every rank the same --world");
  const Outcome told_too = first.get();
  CHECK(told_too.code == 2);
  CHECK(told_too.said == second.said);
}

TEST_CASE("a rank given twice is refused on both sides", "[comm]") {
  const uint16_t port = free_port();
  auto first = start(rank_of(0, 3, port));
  auto one = start(rank_of(1, 3, port)), other = start(rank_of(1, 3, port));
  const std::string expected =
      "rank 1 came twice; give every process another --rank, and where one died, start all anew";
  const Outcome at_rank_0 = first.get();
  CHECK(at_rank_0.code == 2);
  CHECK(at_rank_0.said == expected);
  const Outcome a = one.get(), b = other.get();
  CHECK((a.said == expected || b.said == expected));
  CHECK_FALSE(a.store);
  CHECK_FALSE(b.store);
}

TEST_CASE("a port that another holds is an error of rank 0's", "[comm]") {
  const Socket holder = listen_at("127.0.0.1", 0, ListenFor::kNamedAddress);
  const Outcome outcome = start(rank_of(0, 2, port_of(holder))).get();
  CHECK(outcome.code == 7);
  CHECK_THAT(outcome.said, Catch::Contains("Address already in use"));
}

TEST_CASE("something else at the port is no rank 0", "[comm]") {
  const Socket silent = listen_at("127.0.0.1", 0, ListenFor::kNamedAddress);  // lets connections in, answers nothing
  const Outcome outcome = start(rank_of(1, 2, port_of(silent)), kImpatient).get();
  CHECK(outcome.code == 7);
  CHECK_THAT(outcome.said, Catch::StartsWith("rank 1 got no answer from 127.0.0.1:") &&
                               Catch::Contains("within 1.5 s (--timeout)") &&
                               Catch::Contains("another program that listens there"));
}

// --- torchrun's store, which outlives the ranks

TEST_CASE("all ranks are clients of torchrun's store", "[comm]") {
  const Agent agent;
  auto second = start(agent.rank_of(1, 2));
  const Outcome first = start(agent.rank_of(0, 2)).get();
  REQUIRE(first.store);
  first.store->set("key", "value");
  CHECK(second.get().store->get_to_str("key") == "value");
}

TEST_CASE("restarted ranks see no key of the attempt before, whoever comes first", "[comm]") {
  const Agent agent;
  {
    auto second = start(agent.rank_of(1, 2));
    const Outcome first = start(agent.rank_of(0, 2)).get();
    first.store->set("key", "old");
    CHECK(second.get().store->get_to_str("key") == "old");
  }
  auto early = start(agent.rank_of(1, 2));
  agent.wait_for("1/here/1", "2");  // it found the old attempt, where its former self stands
  const Outcome first = start(agent.rank_of(0, 2)).get();
  const Outcome second = early.get();
  REQUIRE(first.store);
  REQUIRE(second.store);
  CHECK_FALSE(first.store->check({"key"}));
  first.store->set("key", "new");
  CHECK(second.store->get_to_str("key") == "new");
}

TEST_CASE("a restart that one machine alone counted is known to all", "[comm]") {
  const Agent agent;
  auto uncounted = start(agent.rank_of(1, 2));
  Outcome first = start(agent.rank_of(0, 2)).get();
  CHECK_FALSE(restarted(*first.store));
  CHECK_FALSE(restarted(*uncounted.get().store));

  Launch failed = agent.rank_of(1, 2);
  failed.restart_count = 1;
  auto counted = start(failed);
  first = start(agent.rank_of(0, 2)).get();
  CHECK(restarted(*first.store));
  CHECK(restarted(*counted.get().store));
}

TEST_CASE("an attempt that died while gathering is left behind", "[comm]") {
  const Agent agent;
  CHECK(start(agent.rank_of(0, 2), {.timeout = 1500ms, .stop = no_signal}).get().code == 7);
  auto early = start(agent.rank_of(1, 2));
  agent.wait_for("1/here/1", "1");  // it joined the dead one
  CHECK(start(agent.rank_of(0, 2)).get().said.empty());
  CHECK(early.get().said.empty());
}

TEST_CASE("restarted ranks of another world size meet among themselves", "[comm]") {
  const Agent agent;
  auto second = start(agent.rank_of(1, 2));
  CHECK(start(agent.rank_of(0, 2)).get().said.empty());
  CHECK(second.get().said.empty());
  auto third = start(agent.rank_of(2, 3));  // finds the attempt of two
  second = start(agent.rank_of(1, 3));
  CHECK(start(agent.rank_of(0, 3)).get().said.empty());
  CHECK(second.get().said.empty());
  CHECK(third.get().said.empty());
}

TEST_CASE("a restarted rank whose rank 0 does not come names it", "[comm]") {
  const Agent agent;
  const Outcome outcome = start(agent.rank_of(1, 2), {.timeout = 1500ms, .stop = no_signal}).get();
  CHECK(outcome.code == 7);
  CHECK_THAT(outcome.said, Catch::StartsWith("rank 1 waited 1.5 s (--timeout) for the others: rank 0 of 2 did not"));
}

// --- leaving

TEST_CASE("rank 0 holds the store until all have left", "[comm]") {
  const uint16_t port = free_port();
  const Launch first = rank_of(0, 2, port), second = rank_of(1, 2, port);
  auto other = start(second);
  StorePtr held = start(first).get().store;
  const StorePtr used = other.get().store;
  std::atomic<bool> left{false};
  auto leaving = std::async(std::launch::async, [&] {
    leave_rendezvous(std::move(held), first, 60s);
    return left.load();
  });
  used->set("last", "words");
  CHECK(used->get_to_str("last") == "words");
  left = true;
  leave_rendezvous(used, second, 60s);
  CHECK(leaving.get());
  leave_rendezvous(used, second, 60s);  // nobody there any more: no matter
}

}  // namespace
}  // namespace mgtrain
