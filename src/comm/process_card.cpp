#include "comm/process_card.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.h"
#include "comm/store_socket.h"

namespace mgtrain {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::string first_line_of(const std::string& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// "net:[4026531840]"
std::string name_space(const std::string& kind) {
  std::array<char, 64> text{};
  const ssize_t length = readlink(("/proc/self/ns/" + kind).c_str(), text.data(), text.size());
  return length > 0 ? std::string(text.data(), static_cast<size_t>(length)) : "";
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// "0-3,8" of the cores this process may use.
std::string core_list() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return "";
  std::string text;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &set)) continue;
    int last = core;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(core);
    if (last > core) text += "-" + std::to_string(last);
    core = last;
  }
  return text;
}

/// The state and start of a process, from the line in its stat file: "pid (name) S ppid ...".
struct Stat {
  char state = ' ';
  uint64_t started = 0;
};
std::optional<Stat> read_stat(const std::string& file) {
  const std::string line = first_line_of(file);
  const size_t name_end = line.rfind(')');  // a name may hold spaces and brackets
  if (name_end == line.npos) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 1));
  Stat stat;
  rest >> stat.state;
  constexpr int kBetween = 18;  // of man 5 proc: state is field 3, starttime field 22
  std::string field;
  for (int i = 0; i < kBetween; ++i) rest >> field;
  rest >> stat.started;
  return rest ? std::optional(stat) : std::nullopt;
}

/// The address of this machine from which packets to `host` leave. Nothing is sent. Empty where there is no way.
std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    const Socket socket(::socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.fd() < 0 || connect(socket.fd(), info->ai_addr, info->ai_addrlen) != 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    std::array<char, NI_MAXHOST> text{};
    if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &length) != 0) continue;
    if (getnameinfo(reinterpret_cast<const sockaddr*>(&own), length, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0)
      return text.data();
  }
  return "";
}

PlaceAmong place_among(const std::vector<ProcessCard>& cards, int rank,
                       const std::function<bool(const ProcessCard&, const ProcessCard&)>& together) {
  PlaceAmong place{.position = 0, .count = 0};
  const ProcessCard& own = cards.at(static_cast<size_t>(rank));
  for (size_t other = 0; other < cards.size(); ++other) {
    if (!together(cards[other], own)) continue;
    if (static_cast<int>(other) < rank) ++place.position;
    ++place.count;
  }
  return place;
}

bool on_one_machine(const ProcessCard& one, const ProcessCard& other) { return one.machine == other.machine; }

}  // namespace

ProcessCard own_card(const std::string& towards) {
  const std::string boot = first_line_of("/proc/sys/kernel/random/boot_id");
  const auto stat = read_stat("/proc/self/stat");
  return {.host = host_name(),
          .machine = host_name() + " " + boot + " " + name_space("net"),
          .processes = boot + " " + name_space("pid"),
          .pid = getpid(),
          .started = stat ? stat->started : 0,
          .cores = core_list(),
          .address = address_towards(towards)};
}

std::string card_text(const ProcessCard& card) {
  return nlohmann::json{{"host", card.host},      {"machine", card.machine}, {"processes", card.processes},
                        {"pid", card.pid},        {"started", card.started}, {"cores", card.cores},
                        {"address", card.address}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ProcessCard parse_card(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    return {.host = json.at("host"),
            .machine = json.at("machine"),
            .processes = json.at("processes"),
            .pid = json.at("pid"),
            .started = json.at("started"),
            .cores = json.at("cores"),
            .address = json.at("address")};
  } catch (const nlohmann::json::exception& error) {
    throw DeviceError(std::string("a rank tells of itself what this one cannot read: ") + error.what() +
                      "; start all ranks with the same mgtrain");
  }
}

PlaceAmong place_on_machine(const std::vector<ProcessCard>& cards, int rank) {
  return place_among(cards, rank, on_one_machine);
}

PlaceAmong place_on_cores(const std::vector<ProcessCard>& cards, int rank) {
  return place_among(cards, rank, [](const ProcessCard& one, const ProcessCard& other) {
    return on_one_machine(one, other) && one.cores == other.cores;
  });
}

int count_machines(const std::vector<ProcessCard>& cards) {
  std::set<std::string> machines;
  for (const ProcessCard& card : cards) machines.insert(card.machine);
  return static_cast<int>(machines.size());
}

std::string address_for(const std::vector<ProcessCard>& cards, int rank) {
  const ProcessCard& own = cards.at(static_cast<size_t>(rank));
  if (count_machines(cards) == 1) return kLoopback;
  if (!own.address.empty() && !is_loopback(own.address)) return own.address;
  for (const ProcessCard& card : cards) {
    if (!on_one_machine(card, own) && !card.address.empty()) return address_towards(card.address);
  }
  return own.address;
}

ProcessState state_of(const ProcessCard& card, const ProcessCard& own, const std::string& proc) {
  if (card.processes != own.processes || card.pid <= 0) return ProcessState::kUnknown;
  const auto stat = read_stat(proc + "/" + std::to_string(card.pid) + "/stat");
  if (!stat || stat->started != card.started || stat->state == 'Z' || stat->state == 'X') return ProcessState::kGone;
  return stat->state == 'T' || stat->state == 't' ? ProcessState::kStopped : ProcessState::kRuns;
}

}  // namespace mgtrain
