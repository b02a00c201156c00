// What processes tell each other of themselves, by tables; and this machine's own.
#include "comm/process_card.h"

#include <fstream>

#include "base/error.h"
#include "support/catch.h"
#include "support/sleeping_process.h"
#include "support/temporary_folder.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

ProcessCard card(const std::string& machine, const std::string& cores = "0-7", const std::string& address = "") {
  return {.host = machine, .machine = machine, .processes = machine, .cores = cores, .address = address};
}

}  // namespace

TEST_CASE("a card comes back as it was", "[comm]") {
  const ProcessCard own = own_card("127.0.0.1");
  CHECK(parse_card(card_text(own)) == own);
  CHECK(own.pid == getpid());
  CHECK(own.started > 0);
  CHECK(own.address == "127.0.0.1");
  CHECK_FALSE(own.cores.empty());
  CHECK(parse_card(card_text(card("name\xff"))).cores == "0-7");  // a host's name may be anything
  for (const char* text : {"", "{}", "[1]", "null", R"({"host": 1})"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_card(text), DeviceError);
  }
}

TEST_CASE("places on a machine and on its cores follow from the cards", "[comm]") {
  // Two machines, mixed; on the second one each rank is bound to cores of its own but the last, which shares them.
  const std::vector<ProcessCard> cards = {card("a"), card("b", "0"), card("a"), card("b", "1"), card("b", "1")};
  const auto machine = [&](int rank) {
    const PlaceAmong place = place_on_machine(cards, rank);
    return std::pair(place.position, place.count);
  };
  const auto cores = [&](int rank) {
    const PlaceAmong place = place_on_cores(cards, rank);
    return std::pair(place.position, place.count);
  };
  CHECK(machine(0) == std::pair(0, 2));
  CHECK(machine(2) == std::pair(1, 2));
  CHECK(machine(4) == std::pair(2, 3));
  CHECK(cores(2) == std::pair(1, 2));
  CHECK(cores(1) == std::pair(0, 1));
  CHECK(cores(4) == std::pair(1, 2));
  CHECK(count_machines(cards) == 2);
}

TEST_CASE("the address is the loopback on one machine, and else one that others reach", "[comm]") {
  CHECK(address_for({card("a", "0", "10.0.0.1"), card("a", "0", "10.0.0.1")}, 1) == "127.0.0.1");
  const std::vector<ProcessCard> two = {card("a", "0", "127.0.1.1"), card("b", "0", "127.0.0.1")};
  // Rank 0 meets the others at its own name, a loopback address to itself: it takes the way to the other machine.
  CHECK(address_for(two, 0) == "127.0.0.1");
  CHECK(address_for({card("a", "0", "192.0.2.1"), card("b", "0", "192.0.2.2")}, 1) == "192.0.2.2");
}

TEST_CASE("the state of a process is the kernel's word", "[comm]") {
  const ProcessCard own = own_card("127.0.0.1");
  CHECK(state_of(own, own) == ProcessState::kRuns);
  ProcessCard other = own;
  other.processes = "elsewhere";
  CHECK(state_of(other, own) == ProcessState::kUnknown);
  ProcessCard reused = own;
  reused.started -= 1;  // the number was given to another process since
  CHECK(state_of(reused, own) == ProcessState::kGone);

  SleepingProcess sleeper;
  const ProcessCard child = sleeper.card();
  const auto becomes = [&](ProcessState state) {
    for (int i = 0; i < 200 && state_of(child, own) != state; ++i) usleep(10'000);
    return state_of(child, own) == state;
  };
  CHECK(state_of(child, own) == ProcessState::kRuns);
  sleeper.send(SIGSTOP);
  CHECK(becomes(ProcessState::kStopped));
  sleeper.send(SIGCONT);
  CHECK(becomes(ProcessState::kRuns));
  sleeper.send(SIGKILL);
  CHECK(becomes(ProcessState::kGone));  // a zombie
  sleeper.reap();
  CHECK(state_of(child, own) == ProcessState::kGone);
}

TEST_CASE("a stat line with brackets and spaces in the name is read", "[comm]") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "7");
  std::ofstream(folder.path() / "7" / "stat") << "7 (a) S (b) T 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 99 20\n";
  const ProcessCard seven = {.processes = "x", .pid = 7, .started = 99};
  CHECK(state_of(seven, {.processes = "x"}, folder.path().string()) == ProcessState::kStopped);
}
