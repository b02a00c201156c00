// What the launcher of this process says about its place: which of how many ranks it is, on which machine, and where
// the ranks meet. A pure function of the environment's variables and of --rdzv, --rank and --world, so that torchrun,
// SLURM and MPI are tested by tables. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mgtrain {

using Environment = std::map<std::string, std::string, std::less<>>;

/// This process's variables, from "environ".
Environment environment_of(char** entries);

enum class Launcher { kTorchrun, kSlurm, kOpenMpi, kPmi, kFlags };
/// "torchrun", "srun", "mpirun (Open MPI)", "mpiexec (PMI)", "--rdzv".
std::string launcher_name(Launcher launcher);

/// The flags as given; unset where the user did not write them.
struct LaunchFlags {
  std::optional<std::string> rdzv;     // "host:port", "[::1]:29500"
  std::optional<int64_t> rank, world;  // go together
};

struct Launch {
  Launcher launcher = Launcher::kFlags;
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;  // among the ranks of this machine; 0 of 1 where nobody says (--rdzv)
  int num_nodes = 0;                         // machines; 0 where nobody says
  std::string store_host;                    // where the ranks meet; 127.0.0.1 where all are on one machine
  uint16_t store_port = 0;
  bool agent_store = false;        // torchrun's agent listens there, and every rank is a client; else rank 0 listens
  int restart_count = 0;           // times torchrun restarted this machine's ranks: it may differ between machines
  int max_restarts = 0;            // torchrun's --max-restarts
  std::string run_id;              // the same on all ranks and after a restart; empty: nobody gives one
  std::vector<std::string> notes;  // for the log: which flags went before which variables
};

/// The place of this process, or nothing where no launcher started it. The innermost launcher counts: torchrun's
/// variables go before Open MPI's, these before SLURM's (mpirun starts its daemons with srun). SLURM counts only inside
/// a step of more than one task. --rdzv, --rank and --world together go before all of it, --rdzv alone moves the
/// meeting place; a note says so. Throws ConfigError naming the variable or flag, its value, what was expected and what
/// to do, for what is malformed, contradicts itself, or is there by half.
std::optional<Launch> read_launch(const Environment& environment, const LaunchFlags& flags);

/// "rank 1 of 4 (torchrun; 1 of 2 on this machine, 2 machines), meeting at node1:29500 (torchrun's agent)".
std::string launch_text(const Launch& launch);

/// "node1:29500", "[::1]:29500".
std::string address_text(const std::string& host, uint16_t port);

}  // namespace mgtrain
