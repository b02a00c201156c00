// What a process of a launch tells the others of itself before anything else: which machine it is on, which process it
// is there, and which cores it may use; and what follows from all of it. Torch-free; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mgtrain {

struct ProcessCard {
  std::string host;       // name, for messages
  std::string machine;    // the same on processes that reach each other over the loopback: host, boot, network
  std::string processes;  // the same on processes that see each other's numbers: boot and PID name space
  int64_t pid = 0;        // there
  uint64_t started = 0;   // clock ticks after boot: a number may be given out again, the pair is not
  std::string cores;      // "0-3": affinity; processes with the same share them
  std::string address;    // of this machine, on the way to where the ranks meet
  friend bool operator==(const ProcessCard&, const ProcessCard&) = default;
};

/// This process's. `towards`: host where the ranks meet.
ProcessCard own_card(const std::string& towards);

/// One line of JSON, and back. Throws DeviceError for what is none.
std::string card_text(const ProcessCard& card);
ProcessCard parse_card(const std::string& text);

/// Of the ranks on the same machine, or on those cores: how many, and how many of them come before `rank`.
struct PlaceAmong {
  int position = 0, count = 1;
};
PlaceAmong place_on_machine(const std::vector<ProcessCard>& cards, int rank);
PlaceAmong place_on_cores(const std::vector<ProcessCard>& cards, int rank);
int count_machines(const std::vector<ProcessCard>& cards);

/// An address of this machine over which rank `rank` is reached by all others: the loopback if all are here; else the
/// one towards where the ranks meet or, where that is this machine itself, towards the first of another machine.
std::string address_for(const std::vector<ProcessCard>& cards, int rank);

/// What the kernel says of a process of this machine.
enum class ProcessState { kRuns, kStopped, kGone, kUnknown };
/// kUnknown: not visible from here. `proc`: "/proc".
ProcessState state_of(const ProcessCard& card, const ProcessCard& own, const std::string& proc = "/proc");

}  // namespace mgtrain
