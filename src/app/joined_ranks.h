// This process as one rank of a run of several processes, from the launcher's word to the end: it meets the others,
// learns from the first one where the run goes on, makes sure that all do the same, and ends when any of them fails.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "app/commands.h"
#include "app/decide.h"
#include "comm/launch_environment.h"
#include "comm/process_card.h"
#include "comm/rank_watch.h"

namespace mgtrain {

/// The place that a launcher gave this process, from the environment, --rdzv, --rank and --world; nothing where none
/// started it. Throws ConfigError.
std::optional<Launch> find_launch(const CommandLine& line);

/// A process of a launch for `mgtrain plan`, which meets nobody: as far as the launcher tells.
LaunchedProcess unmet_process(const Launch& launch, const CommandLine& line, AppContext& context);

class JoinedRanks {
 public:
  /// Meets the other ranks. Throws what join_rendezvous() does, and ConfigError for a config that is wrong by itself.
  JoinedRanks(Launch launch, const CommandLine& line, AppContext& context);
  ~JoinedRanks();
  JoinedRanks(const JoinedRanks&) = delete;
  JoinedRanks& operator=(const JoinedRanks&) = delete;

  [[nodiscard]] bool first() const { return launch_.rank == 0; }

  /// For decide().
  [[nodiscard]] LaunchedProcess process();

  /// Once the data are read: throws ConfigError or DataError if this rank was started with another config, program or
  /// data set than the first, or if two share a GPU. Returns the devices of all ranks, as messages name them.
  std::vector<std::string> agree(const Decision& decision, const std::string& fingerprint);

  /// The group of all ranks, for tensors on such a device. Once.
  c10::intrusive_ptr<c10d::ProcessGroup> make_group(const Device& device);

  RankWatch& watch() { return *watch_; }

  /// The last of it, where all went well.
  void leave();

  /// Tells the others and stderr why the run ends, and ends the process; other ranks' connections end with it.
  [[noreturn]] void end_process(const std::exception_ptr& failure);

 private:
  RunPlace find_place();
  RunPlace find_place_as_first() const;
  std::string read(const std::string& key);
  [[nodiscard]] std::string device_key(int rank) const { return "device/" + std::to_string(rank); }

  Launch launch_;
  const CommandLine& line_;
  AppContext& context_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<ProcessCard> cards_;
  std::unique_ptr<RankWatch> watch_;
};

}  // namespace mgtrain
