// Runs of several processes, a rank each, as a shell script with --rdzv starts them.
#pragma once

#include <memory>
#include <vector>

#include "comm/store_socket.h"
#include "end_to_end/scene.h"

namespace mgtrain::test {

class ProcessRanks {
 public:
  /// `flags` of all ranks; `own[r]`: of rank r, on top.
  ProcessRanks(const Scene& scene, int ranks, const std::string& output, const std::vector<std::string>& flags,
               std::vector<std::vector<std::string>> own = {}, const ProgramOptions& options = {}) {
    // Free a moment ago; nobody else on this machine takes ports at random from below the ephemeral range.
    const uint16_t port = port_of(listen_at("127.0.0.1", 0, ListenFor::kNamedAddress));
    own.resize(static_cast<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::string> all = flags;
      const std::vector<std::string> place = {"--rdzv",  "127.0.0.1:" + std::to_string(port),
                                              "--rank",  std::to_string(rank),
                                              "--world", std::to_string(ranks)};
      all.insert(all.end(), place.begin(), place.end());
      const auto& more = own[static_cast<size_t>(rank)];
      all.insert(all.end(), more.begin(), more.end());
      ProgramOptions here = options;
      here.folder = scene.folder();
      processes_.push_back(std::make_unique<Program>(mgtrain_path(), scene.arguments(output, all), here));
    }
  }

  Program& operator[](int rank) { return *processes_[static_cast<size_t>(rank)]; }

  std::vector<ProgramResult> wait() {
    std::vector<ProgramResult> results;
    for (auto& process : processes_) results.push_back(process->wait());
    return results;
  }

 private:
  std::vector<std::unique_ptr<Program>> processes_;
};

/// All that ranks said, for INFO.
inline std::string errors_of(const std::vector<ProgramResult>& results) {
  std::string text;
  for (size_t rank = 0; rank < results.size(); ++rank)
    text += "rank " + std::to_string(rank) + " ended with " + std::to_string(results[rank].exit_code) + ":\n" +
            results[rank].err;
  return text;
}

}  // namespace mgtrain::test
