#include "comm/launch_environment.h"

#include <limits>
#include <numeric>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "comm/host_list.h"
#include "comm/launch_variables.h"

namespace mgtrain {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr uint16_t kDefaultPort = 29500;  // torch's own default
// Steps that are no srun: the batch script's, an interactive shell's and the like have numbers from here on.
constexpr int64_t kFirstSpecialStep = 0xfffffff0;

/// A port all ranks of a job find alike without talking, from what names the job: below the range from which Linux
/// takes ports for outgoing connections (32768 up).
uint16_t port_from(std::string_view job) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<uint16_t>(10000 + hash % 20000);
}

struct Address {
  std::string host;
  uint16_t port = 0;
};

Address read_address(const std::string& text) {
  const auto refuse = [&](const std::string& problem) {
    throw ConfigError("--rdzv " + text + ": " + problem +
                      "; write HOST:PORT, such as node1:29500, 10.0.0.1:29500 or [::1]:29500");
  };
  std::string host, port;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == text.npos) refuse("'[' is not closed");
    host = text.substr(1, close - 1);
    if (host.find(':') == host.npos) refuse("brackets are for an IPv6 address");
    if (close + 1 >= text.size() || text[close + 1] != ':') refuse("the port is missing");
    port = text.substr(close + 2);
  } else {
    const size_t colon = text.rfind(':');
    if (colon == text.npos) refuse("the port is missing");
    host = text.substr(0, colon), port = text.substr(colon + 1);
    if (host.find(':') != host.npos) refuse("an IPv6 address is written in brackets");
  }
  if (host.empty()) refuse("the host is missing");
  if (host.find_first_of(" \t/[]") != host.npos) refuse("'" + host + "' is no host name");
  const auto number = read_integer(port);
  if (!number || *number < 1 || *number > std::numeric_limits<uint16_t>::max()) {
    refuse("'" + port + "' is no port (1 to 65535)");
  }
  return {host, static_cast<uint16_t>(*number)};
}

/// --rdzv, --rank and --world together.
Launch read_flags(const LaunchFlags& flags) {
  const int64_t rank = *flags.rank, world = *flags.world;
  if (world < 1 || world > kMaxRanks) {
    throw ConfigError("--world " + std::to_string(world) + ": expected the number of ranks, 1 to " +
                      std::to_string(kMaxRanks) + "; give every process the same --world");
  }
  if (rank < 0 || rank >= world) {
    throw ConfigError("--rank " + std::to_string(rank) + ": expected 0 to " + std::to_string(world - 1) +
                      ", below --world " + std::to_string(world) + "; give every process another --rank");
  }
  const Address address = read_address(*flags.rdzv);
  return {.launcher = Launcher::kFlags,
          .rank = static_cast<int>(rank),
          .world_size = static_cast<int>(world),
          .store_host = address.host,
          .store_port = address.port};
}

std::optional<Launch> read_torchrun(const Environment& environment) {
  const LaunchVariables variables(environment, "torchrun's variables");
  if (!variables.both("RANK", "WORLD_SIZE")) {
    if (variables.has("LOCAL_RANK")) variables.need("LOCAL_RANK", {"RANK", "WORLD_SIZE"});
    return std::nullopt;
  }
  variables.need("RANK", {"MASTER_ADDR", "MASTER_PORT"});
  Launch launch{.launcher = Launcher::kTorchrun};
  launch.world_size = variables.count("WORLD_SIZE");
  launch.rank = variables.rank("RANK", launch.world_size, "WORLD_SIZE");
  // Set by hand or by Kubernetes the four above stand alone: like --rdzv, they say nothing of machines.
  if (variables.both("LOCAL_RANK", "LOCAL_WORLD_SIZE")) {
    launch.local_world_size = variables.integer("LOCAL_WORLD_SIZE", 1, launch.world_size,
                                                ", at most WORLD_SIZE=" + std::to_string(launch.world_size));
    launch.local_rank = variables.rank("LOCAL_RANK", launch.local_world_size, "LOCAL_WORLD_SIZE");
    launch.num_nodes = (launch.world_size + launch.local_world_size - 1) / launch.local_world_size;
    if (variables.has("GROUP_WORLD_SIZE")) {
      launch.num_nodes = variables.integer("GROUP_WORLD_SIZE", 1, launch.world_size, "");
      if ((launch.num_nodes == 1) != (launch.local_world_size == launch.world_size)) {
        variables.refuse_value("GROUP_WORLD_SIZE", "machines that fit " + variables.shown("WORLD_SIZE") + " and " +
                                                       variables.shown("LOCAL_WORLD_SIZE"));
      }
    }
  }
  launch.store_host = variables.text("MASTER_ADDR");
  launch.store_port = variables.port("MASTER_PORT");
  const std::string agent = variables.text("TORCHELASTIC_USE_AGENT_STORE");
  if (!agent.empty() && agent != "True" && agent != "False") {
    variables.refuse_value("TORCHELASTIC_USE_AGENT_STORE", "True or False");
  }
  launch.agent_store = agent == "True";
  if (launch.num_nodes == 1 && !launch.agent_store) launch.store_host = kLoopback;
  if (variables.has("TORCHELASTIC_RESTART_COUNT")) {
    launch.restart_count = variables.integer("TORCHELASTIC_RESTART_COUNT", 0, kMaxRanks, "");
  }
  if (variables.has("TORCHELASTIC_MAX_RESTARTS")) {
    launch.max_restarts = variables.integer("TORCHELASTIC_MAX_RESTARTS", 0, kMaxRanks, "");
  }
  launch.run_id = variables.text("TORCHELASTIC_RUN_ID");
  if (launch.run_id == "none") launch.run_id.clear();  // torchrun's word for no --rdzv-id
  return launch;
}

/// Where the ranks of a launcher meet that names no place itself: MASTER_ADDR and MASTER_PORT if the user set them, the
/// loopback where all ranks are on one machine, a port made of what names the job.
void choose_meeting_place(Launch& launch, const LaunchVariables& variables, const std::string& first_host,
                          const std::string& job) {
  const bool one_machine = launch.num_nodes == 1;
  launch.store_host = one_machine                    ? kLoopback
                      : variables.has("MASTER_ADDR") ? variables.text("MASTER_ADDR")
                                                     : first_host;
  launch.store_port = variables.has("MASTER_PORT") ? variables.port("MASTER_PORT")
                      : job.empty()                ? kDefaultPort
                                                   : port_from(job);
}

std::optional<Launch> read_slurm(const Environment& environment) {
  const LaunchVariables variables(environment, "SLURM's variables of a step");
  if (!variables.has("SLURM_STEP_ID")) return std::nullopt;  // a batch script, or none of SLURM's
  const auto step = read_integer(variables.text("SLURM_STEP_ID"));
  if (!step || *step < 0) variables.refuse_value("SLURM_STEP_ID", "the number of a step");
  if (*step >= kFirstSpecialStep) return std::nullopt;
  const std::string_view tasks = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  if (!variables.has(tasks)) return std::nullopt;
  Launch launch{.launcher = Launcher::kSlurm};
  launch.world_size = variables.count(tasks);
  if (launch.world_size == 1) return std::nullopt;

  const std::string_view list = variables.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_NODELIST";
  variables.need("SLURM_STEP_ID",
                 {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID", "SLURM_STEP_TASKS_PER_NODE", list});
  launch.rank = variables.rank("SLURM_PROCID", launch.world_size, tasks);
  std::vector<std::string> hosts;
  std::vector<int> ranks_of_node;
  try {
    hosts = expand_host_list(variables.text(list));
    ranks_of_node = expand_counts(variables.text("SLURM_STEP_TASKS_PER_NODE"));
  } catch (const ConfigError& error) {
    variables.refuse(error.what(), "start the step with srun, or give --rdzv HOST:PORT --rank R --world N");
  }
  launch.num_nodes = static_cast<int>(hosts.size());
  const auto sum = std::accumulate(ranks_of_node.begin(), ranks_of_node.end(), int64_t{0});
  if (ranks_of_node.size() != hosts.size() || sum != launch.world_size) {
    variables.refuse_value("SLURM_STEP_TASKS_PER_NODE", "the tasks of each of the " + std::to_string(hosts.size()) +
                                                            " nodes of " + variables.shown(list) + ", " +
                                                            variables.shown(tasks) + " in all");
  }
  const int node = variables.integer("SLURM_NODEID", 0, launch.num_nodes - 1, ", a node of " + variables.shown(list));
  if (launch.rank == 0 && node != 0) {
    variables.refuse_value("SLURM_NODEID",
                           "0 for the task with SLURM_PROCID=0, since the ranks meet on the first node");
  }
  launch.local_world_size = ranks_of_node[static_cast<size_t>(node)];
  launch.local_rank = variables.rank("SLURM_LOCALID", launch.local_world_size, "the tasks of this node");
  launch.run_id = variables.text("SLURM_JOB_ID");
  choose_meeting_place(launch, variables, hosts.front(), launch.run_id + "." + variables.text("SLURM_STEP_ID"));
  return launch;
}

/// Open MPI's and PMI's: the names of the four variables differ, and what there is to name the job by.
struct MpiNames {
  Launcher launcher;
  std::string_view rank, size, local_rank, local_size;
  std::vector<std::string_view> job;
};

std::optional<Launch> read_mpi(const Environment& environment, const MpiNames& names, const LaunchFlags& flags) {
  const LaunchVariables variables(environment, "the variables of " + launcher_name(names.launcher));
  if (!variables.both(names.rank, names.size)) return std::nullopt;
  Launch launch{.launcher = names.launcher};
  launch.world_size = variables.count(names.size);
  launch.rank = variables.rank(names.rank, launch.world_size, names.size);
  if (launch.world_size == 1) return std::nullopt;  // an interactive step's shell has such variables too
  if (variables.both(names.local_rank, names.local_size)) {
    launch.local_world_size =
        variables.integer(names.local_size, 1, launch.world_size, ", at most " + variables.shown(names.size));
    launch.local_rank = variables.rank(names.local_rank, launch.local_world_size, names.local_size);
    launch.num_nodes = (launch.world_size + launch.local_world_size - 1) / launch.local_world_size;
  }
  launch.run_id = variables.text("SLURM_JOB_ID");
  if (launch.num_nodes != 1 && !flags.rdzv) {
    for (const std::string_view name : {"MASTER_ADDR", "MASTER_PORT"}) {
      if (variables.has(name)) continue;
      variables.refuse(
          variables.shown(names.size) +
              (launch.num_nodes == 0 ? " and no " + std::string(names.local_size) + " to say they are"
                                     : " with " + variables.shown(names.local_size) + ": not") +
              " all on one machine, so the ranks need a place to meet, and " + std::string(name) + " is not set",
          "give --rdzv HOST:PORT with the host of rank 0, or set MASTER_ADDR and MASTER_PORT on all ranks");
    }
  }
  std::string job;
  for (const std::string_view name : names.job) {
    if (job.empty()) job = variables.text(name);
  }
  choose_meeting_place(launch, variables, "", job);
  return launch;
}

const MpiNames& open_mpi_names() {
  static const MpiNames names = {Launcher::kOpenMpi,           "OMPI_COMM_WORLD_RANK",
                                 "OMPI_COMM_WORLD_SIZE",       "OMPI_COMM_WORLD_LOCAL_RANK",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE", {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}};
  return names;
}

const MpiNames& pmi_names() {
  static const MpiNames names = {Launcher::kPmi,    "PMI_RANK",        "PMI_SIZE",
                                 "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {"PMI_PORT", "SLURM_JOB_ID"}};
  return names;
}

std::optional<Launch> read_launcher(const Environment& environment, const LaunchFlags& flags) {
  if (auto launch = read_torchrun(environment)) return launch;
  if (auto launch = read_mpi(environment, open_mpi_names(), flags)) return launch;
  const auto slurm = read_slurm(environment);
  const LaunchVariables variables(environment, "PMI's variables");
  // srun --mpi=pmi2 sets PMI's variables to what SLURM's say; an mpiexec started inside a step to something else.
  if (slurm && variables.text("PMI_RANK") == variables.text("SLURM_PROCID")) return slurm;
  if (slurm && !variables.has("PMI_RANK") && !variables.has("PMI_SIZE")) return slurm;
  if (auto launch = read_mpi(environment, pmi_names(), flags)) return launch;
  if (variables.has("PMIX_RANK") && !variables.has("SLURM_STEP_ID")) {
    variables.refuse(variables.shown("PMIX_RANK") + " is set, but nothing says of how many ranks",
                     "start mgtrain with mpirun, unset PMIX_RANK if no launcher started this process, or give "
                     "--rdzv HOST:PORT --rank R --world N");
  }
  return std::nullopt;
}

/// Which launcher's variables are there, well-formed or not; for the note that they were passed over.
std::string passed_over(const Environment& environment) {
  std::string names;
  for (const std::string_view name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID"}) {
    const auto found = environment.find(name);
    if (found != environment.end() && !found->second.empty()) {
      names += (names.empty() ? "" : " ") + found->first + "=" + found->second;
    }
  }
  return names;
}

}  // namespace

Environment environment_of(char** entries) {
  Environment environment;
  for (; entries != nullptr && *entries != nullptr; ++entries) {
    const std::string_view entry = *entries;
    if (const size_t equals = entry.find('='); equals != entry.npos) {
      environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return environment;
}

std::string launcher_name(Launcher launcher) {
  switch (launcher) {
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kSlurm:
      return "srun";
    case Launcher::kOpenMpi:
      return "mpirun (Open MPI)";
    case Launcher::kPmi:
      return "mpiexec (PMI)";
    case Launcher::kFlags:
      break;
  }
  return "--rdzv";
}

std::optional<Launch> read_launch(const Environment& environment, const LaunchFlags& flags) {
  if (flags.rank.has_value() != flags.world.has_value()) {
    throw ConfigError(flags.rank ? "--rank " + std::to_string(*flags.rank) + " without --world; give --world N too"
                                 : "--world " + std::to_string(*flags.world) + " without --rank; give --rank R too");
  }
  if (flags.rank) {
    if (!flags.rdzv) {
      throw ConfigError("--rank " + std::to_string(*flags.rank) + " --world " + std::to_string(*flags.world) +
                        " without --rdzv; give --rdzv HOST:PORT, the host of rank 0 and a free port there");
    }
    Launch launch = read_flags(flags);
    if (const std::string unused = passed_over(environment); !unused.empty()) {
      launch.notes.push_back("--rdzv, --rank and --world go before the environment: " + unused + " not used");
    }
    return launch;
  }
  auto launch = read_launcher(environment, flags);
  if (!flags.rdzv) return launch;
  const Address address = read_address(*flags.rdzv);
  if (!launch) {
    throw ConfigError("--rdzv " + *flags.rdzv +
                      ": no launcher's variables say which rank this process is; give --rank R "
                      "--world N too, or start it with torchrun, srun or mpirun");
  }
  if (!launch->store_host.empty()) {
    launch->notes.push_back("--rdzv goes before the environment: the ranks meet at " + *flags.rdzv + ", not at " +
                            address_text(launch->store_host, launch->store_port));
  }
  launch->store_host = address.host;
  launch->store_port = address.port;
  launch->agent_store = false;
  return launch;
}

std::string address_text(const std::string& host, uint16_t port) {
  const bool ipv6 = host.find(':') != host.npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string launch_text(const Launch& launch) {
  std::ostringstream text;
  text << "rank " << launch.rank << " of " << launch.world_size << " (" << launcher_name(launch.launcher);
  if (launch.num_nodes > 0) {
    text << "; " << launch.local_rank << " of " << launch.local_world_size << " on this machine, " << launch.num_nodes
         << (launch.num_nodes == 1 ? " machine" : " machines");
  }
  text << "), meeting at " << address_text(launch.store_host, launch.store_port)
       << (launch.agent_store ? " (torchrun's agent)" : "");
  return text.str();
}

}  // namespace mgtrain
