#include "comm/launch_environment.h"

#include "base/error.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

/// `changes` over `base`; an empty value takes the variable away.
Environment changed(Environment base, const Environment& changes) {
  for (const auto& [name, value] : changes) {
    if (value.empty()) {
      base.erase(name);
    } else {
      base[name] = value;
    }
  }
  return base;
}

/// What torchrun 2.11 sets for rank 3 of 4 on the second of two machines.
Environment torchrun_environment() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"ROLE_NAME", "default"},
          {"MASTER_ADDR", "node1"},
          {"MASTER_PORT", "41234"},
          {"TORCHELASTIC_RESTART_COUNT", "2"},
          {"TORCHELASTIC_MAX_RESTARTS", "3"},
          {"TORCHELASTIC_RUN_ID", "job-7"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

/// What srun sets for task 4 of 5, the only one on the third node.
Environment slurm_environment() {
  return {{"SLURM_JOB_ID", "4711"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "4"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "2"},
          {"SLURM_NTASKS", "5"},
          {"SLURM_STEP_NUM_TASKS", "5"},
          {"SLURM_STEP_NODELIST", "gpu[01-02],login1"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
          {"SLURM_JOB_NODELIST", "gpu[01-09],login1"}};
}

/// What Open MPI 4 sets for rank 1 of 2 on one machine.
Environment open_mpi_environment() {
  return {{"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"PMIX_RANK", "1"},
          {"PMIX_NAMESPACE", "3141599233"}};
}

/// What Hydra's mpiexec (MPICH, Intel MPI) sets for rank 0 of 3 on one machine.
Environment pmi_environment() {
  return {{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "3"}, {"PMI_FD", "9"}};
}

std::string refusal(const Environment& environment, const LaunchFlags& flags = {}) {
  try {
    (void)read_launch(environment, flags);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// --- none

TEST_CASE("no launcher's variables: no launch", "[comm]") {
  CHECK_FALSE(read_launch({}, {}).has_value());
  CHECK_FALSE(read_launch({{"PATH", "/bin"}, {"MASTER_ADDR", "node1"}, {"OMP_NUM_THREADS", "4"}}, {}).has_value());
}

// --- torchrun

TEST_CASE("torchrun on two machines: the agent's store, at the address it names", "[comm]") {
  const auto launch = read_launch(torchrun_environment(), {});
  REQUIRE(launch);
  CHECK(launch->launcher == Launcher::kTorchrun);
  CHECK(launch->rank == 3);
  CHECK(launch->world_size == 4);
  CHECK(launch->local_rank == 1);
  CHECK(launch->local_world_size == 2);
  CHECK(launch->num_nodes == 2);
  CHECK(launch->store_host == "node1");
  CHECK(launch->store_port == 41234);
  CHECK(launch->agent_store);
  CHECK(launch->restart_count == 2);
  CHECK(launch->max_restarts == 3);
  CHECK(launch->run_id == "job-7");
  CHECK(launch->notes.empty());
  CHECK(launch_text(*launch) ==
        "rank 3 of 4 (torchrun; 1 of 2 on this machine, 2 machines), meeting at node1:41234 (torchrun's agent)");
}

TEST_CASE("torchrun on one machine without the agent's store meets on the loopback", "[comm]") {
  const auto launch = read_launch(
      changed(
          torchrun_environment(),
          {{"WORLD_SIZE", "2"}, {"RANK", "1"}, {"GROUP_WORLD_SIZE", "1"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}}),
      {});
  REQUIRE(launch);
  CHECK(launch->num_nodes == 1);
  CHECK_FALSE(launch->agent_store);
  CHECK(launch->store_host == "127.0.0.1");
  CHECK(launch->store_port == 41234);
}

TEST_CASE("torchrun's run id 'none' is no id, and a world of one is a launch", "[comm]") {
  const auto launch = read_launch(changed(torchrun_environment(), {{"TORCHELASTIC_RUN_ID", "none"},
                                                                   {"RANK", "0"},
                                                                   {"WORLD_SIZE", "1"},
                                                                   {"LOCAL_RANK", "0"},
                                                                   {"LOCAL_WORLD_SIZE", "1"},
                                                                   {"GROUP_WORLD_SIZE", "1"}}),
                                  {});
  REQUIRE(launch);
  CHECK(launch->run_id.empty());
  CHECK(launch->world_size == 1);
  CHECK(launch->num_nodes == 1);
}

TEST_CASE("RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT suffice, and say nothing of machines", "[comm]") {
  const auto launch =
      read_launch({{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "pod-0"}, {"MASTER_PORT", "23456"}}, {});
  REQUIRE(launch);
  CHECK(launch->rank == 1);
  CHECK(launch->world_size == 3);
  CHECK(launch->num_nodes == 0);
  CHECK(launch->local_rank == 0);
  CHECK(launch->local_world_size == 1);
  CHECK(launch->store_host == "pod-0");
  CHECK_FALSE(launch->agent_store);
  CHECK(launch_text(*launch) == "rank 1 of 3 (torchrun), meeting at pod-0:23456");
}

TEST_CASE("torchrun's variables by half, malformed or contradictory are refused by name and value", "[comm]") {
  struct Bad {
    Environment changes;
    std::string said;
  };
  const auto bad = GENERATE(
      Bad{{{"WORLD_SIZE", ""}}, "RANK=3 is set, but WORLD_SIZE is not"},
      Bad{{{"RANK", ""}}, "WORLD_SIZE=4 is set, but RANK is not"},
      Bad{{{"RANK", ""}, {"WORLD_SIZE", ""}}, "LOCAL_RANK=1 is set, but RANK is not"},
      Bad{{{"MASTER_ADDR", ""}}, "RANK=3 is set, but MASTER_ADDR is not"},
      Bad{{{"MASTER_PORT", ""}}, "RANK=3 is set, but MASTER_PORT is not"},
      Bad{{{"LOCAL_RANK", ""}}, "LOCAL_WORLD_SIZE=2 is set, but LOCAL_RANK is not"},
      Bad{{{"LOCAL_WORLD_SIZE", ""}}, "LOCAL_RANK=1 is set, but LOCAL_WORLD_SIZE is not"},
      Bad{{{"RANK", "4"}}, "RANK=4: expected a whole number from 0 to 3, below WORLD_SIZE=4"},
      Bad{{{"RANK", "-1"}}, "RANK=-1: expected a whole number from 0 to 3"},
      Bad{{{"RANK", "1x"}}, "RANK=1x: expected a whole number"},
      Bad{{{"WORLD_SIZE", "0"}}, "WORLD_SIZE=0: expected a whole number from 1"},
      Bad{{{"WORLD_SIZE", "99999999999999999999"}}, "WORLD_SIZE=99999999999999999999: expected a whole number"},
      Bad{{{"LOCAL_RANK", "2"}}, "LOCAL_RANK=2: expected a whole number from 0 to 1, below LOCAL_WORLD_SIZE=2"},
      Bad{{{"LOCAL_WORLD_SIZE", "8"}}, "LOCAL_WORLD_SIZE=8: expected a whole number from 1 to 4, at most WORLD_SIZE=4"},
      Bad{{{"GROUP_WORLD_SIZE", "1"}}, "GROUP_WORLD_SIZE=1: expected machines that fit WORLD_SIZE=4 and LOCAL_WORLD"},
      Bad{{{"MASTER_PORT", "0"}}, "MASTER_PORT=0: expected a whole number from 1 to 65535"},
      Bad{{{"MASTER_PORT", "65536"}}, "MASTER_PORT=65536: expected"},
      Bad{{{"TORCHELASTIC_USE_AGENT_STORE", "1"}}, "TORCHELASTIC_USE_AGENT_STORE=1: expected True or False"},
      Bad{{{"TORCHELASTIC_RESTART_COUNT", "two"}}, "TORCHELASTIC_RESTART_COUNT=two: expected a whole number from 0"});
  const std::string said = refusal(changed(torchrun_environment(), bad.changes));
  CHECK_THAT(said, Catch::StartsWith(bad.said));
  CHECK_THAT(said, Catch::Contains("torchrun's variables") && Catch::Contains("--rdzv HOST:PORT --rank R --world N"));
}

// --- SLURM

TEST_CASE("a SLURM step: the ranks meet on the first host, at a port made of job and step", "[comm]") {
  const auto launch = read_launch(slurm_environment(), {});
  REQUIRE(launch);
  CHECK(launch->launcher == Launcher::kSlurm);
  CHECK(launch->rank == 4);
  CHECK(launch->world_size == 5);
  CHECK(launch->local_rank == 0);
  CHECK(launch->local_world_size == 1);
  CHECK(launch->num_nodes == 3);
  CHECK(launch->store_host == "gpu01");
  CHECK(launch->run_id == "4711");
  CHECK_FALSE(launch->agent_store);
  CHECK(launch->store_port >= 10000);
  CHECK(launch->store_port < 30000);

  const auto peer = read_launch(
      changed(slurm_environment(), {{"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "1"}}), {});
  REQUIRE(peer);
  CHECK(peer->local_world_size == 2);
  CHECK(peer->local_rank == 1);
  CHECK(peer->store_port == launch->store_port);
  const auto other_step = read_launch(changed(slurm_environment(), {{"SLURM_STEP_ID", "1"}}), {});
  CHECK(other_step->store_port != launch->store_port);
  const auto other_job = read_launch(changed(slurm_environment(), {{"SLURM_JOB_ID", "4712"}}), {});
  CHECK(other_job->store_port != launch->store_port);
}

TEST_CASE("MASTER_ADDR and MASTER_PORT of a batch script say where a SLURM step meets", "[comm]") {
  const auto launch =
      read_launch(changed(slurm_environment(), {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}}), {});
  REQUIRE(launch);
  CHECK(launch->launcher == Launcher::kSlurm);
  CHECK(launch->store_host == "10.0.0.1");
  CHECK(launch->store_port == 29500);
}

TEST_CASE("a SLURM step on one machine meets on the loopback", "[comm]") {
  const auto launch = read_launch(changed(slurm_environment(), {{"SLURM_STEP_NODELIST", "gpu07"},
                                                                {"SLURM_STEP_TASKS_PER_NODE", "5"},
                                                                {"SLURM_NODEID", "0"},
                                                                {"SLURM_LOCALID", "4"},
                                                                {"MASTER_ADDR", "gpu07"}}),
                                  {});
  REQUIRE(launch);
  CHECK(launch->num_nodes == 1);
  CHECK(launch->store_host == "127.0.0.1");
  CHECK(launch->local_rank == 4);
}

TEST_CASE("SLURM's variables outside a step of several tasks are no launch", "[comm]") {
  const auto outside = GENERATE(
      // sbatch's own script: the job's numbers, no step
      Environment{{"SLURM_STEP_ID", ""}, {"SLURM_STEP_NUM_TASKS", ""}, {"SLURM_PROCID", "0"}},
      // srun --pty bash
      Environment{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}},
      // the same where the job has more tasks, and PMI's variables of the one task
      Environment{{"SLURM_STEP_NUM_TASKS", "1"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"PMIX_RANK", "0"}},
      // salloc's shell in the interactive step
      Environment{{"SLURM_STEP_ID", "4294967290"}});
  CHECK_FALSE(read_launch(changed(slurm_environment(), outside), {}).has_value());
}

TEST_CASE("a SLURM step's variables that do not fit are refused by name and value", "[comm]") {
  struct Bad {
    Environment changes;
    std::string said;
  };
  const auto bad = GENERATE(
      Bad{{{"SLURM_PROCID", ""}}, "SLURM_STEP_ID=0 is set, but SLURM_PROCID is not"},
      Bad{{{"SLURM_PROCID", "5"}}, "SLURM_PROCID=5: expected a whole number from 0 to 4, below SLURM_STEP_NUM_TASKS=5"},
      Bad{{{"SLURM_STEP_ID", "x"}}, "SLURM_STEP_ID=x: expected the number of a step"},
      Bad{{{"SLURM_STEP_NUM_TASKS", "many"}}, "SLURM_STEP_NUM_TASKS=many: expected a whole number"},
      Bad{{{"SLURM_STEP_NODELIST", "gpu[01-"}}, "'gpu[01-' is no list of hosts"},
      Bad{{{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}, "'2(x' is no list of counts"},
      Bad{{{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}}, "SLURM_STEP_TASKS_PER_NODE=2(x2): expected the tasks of each of"},
      Bad{{{"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}}, "SLURM_STEP_TASKS_PER_NODE=2(x3): expected the tasks of each of"},
      Bad{{{"SLURM_NODEID", "3"}}, "SLURM_NODEID=3: expected a whole number from 0 to 2"},
      Bad{{{"SLURM_LOCALID", "1"}}, "SLURM_LOCALID=1: expected a whole number from 0 to 0"},
      Bad{{{"SLURM_PROCID", "0"}}, "SLURM_NODEID=2: expected 0 for the task with SLURM_PROCID=0"});
  const std::string said = refusal(changed(slurm_environment(), bad.changes));
  CHECK_THAT(said, Catch::StartsWith(bad.said));
  CHECK_THAT(said, Catch::Contains("SLURM") && Catch::Contains("--rdzv HOST:PORT --rank R --world N"));
}

// --- MPI

TEST_CASE("mpirun on one machine meets on the loopback, at a port of the job's own", "[comm]") {
  const auto launch = read_launch(open_mpi_environment(), {});
  REQUIRE(launch);
  CHECK(launch->launcher == Launcher::kOpenMpi);
  CHECK(launch->rank == 1);
  CHECK(launch->world_size == 2);
  CHECK(launch->local_rank == 1);
  CHECK(launch->local_world_size == 2);
  CHECK(launch->num_nodes == 1);
  CHECK(launch->store_host == "127.0.0.1");
  const auto other = read_launch(changed(open_mpi_environment(), {{"PMIX_NAMESPACE", "3141664769"}}), {});
  CHECK(other->store_port != launch->store_port);
}

TEST_CASE("mpirun on several machines needs a place to meet", "[comm]") {
  const Environment two_machines = changed(open_mpi_environment(), {{"OMPI_COMM_WORLD_SIZE", "4"}});
  CHECK_THAT(refusal(two_machines), Catch::StartsWith("OMPI_COMM_WORLD_SIZE=4 with OMPI_COMM_WORLD_LOCAL_SIZE=2: not "
                                                      "all on one machine") &&
                                        Catch::Contains("MASTER_ADDR is not set") &&
                                        Catch::Contains("give --rdzv HOST:PORT with the host of rank 0"));
  CHECK_THAT(refusal(changed(two_machines, {{"MASTER_ADDR", "node1"}})), Catch::Contains("MASTER_PORT is not set"));
  const Environment none_local =
      changed(two_machines, {{"OMPI_COMM_WORLD_LOCAL_RANK", ""}, {"OMPI_COMM_WORLD_LOCAL_SIZE", ""}});
  CHECK_THAT(refusal(none_local), Catch::Contains("no OMPI_COMM_WORLD_LOCAL_SIZE to say they are"));

  const auto by_variables =
      read_launch(changed(two_machines, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29511"}}), {});
  REQUIRE(by_variables);
  CHECK(by_variables->num_nodes == 2);
  CHECK(by_variables->store_host == "node1");
  CHECK(by_variables->store_port == 29511);

  const auto by_flag = read_launch(two_machines, {.rdzv = "node1:1234"});
  REQUIRE(by_flag);
  CHECK(by_flag->rank == 1);
  CHECK(by_flag->world_size == 4);
  CHECK(by_flag->store_host == "node1");
  CHECK(by_flag->store_port == 1234);
  CHECK(by_flag->notes.empty());
}

TEST_CASE("PMI's variables of Hydra", "[comm]") {
  const auto launch = read_launch(pmi_environment(), {});
  REQUIRE(launch);
  CHECK(launch->launcher == Launcher::kPmi);
  CHECK(launch->rank == 0);
  CHECK(launch->world_size == 3);
  CHECK(launch->local_world_size == 3);
  CHECK(launch->store_host == "127.0.0.1");
  CHECK(launch->store_port == 29500);
}

TEST_CASE("MPI's variables by half, malformed or contradictory are refused by name and value", "[comm]") {
  struct Bad {
    Environment environment;
    std::string said;
  };
  const auto bad = GENERATE(
      Bad{changed(open_mpi_environment(), {{"OMPI_COMM_WORLD_SIZE", ""}}),
          "OMPI_COMM_WORLD_RANK=1 is set, but OMPI_COMM_WORLD_SIZE is not"},
      Bad{changed(open_mpi_environment(), {{"OMPI_COMM_WORLD_RANK", ""}}),
          "OMPI_COMM_WORLD_SIZE=2 is set, but OMPI_COMM_WORLD_RANK is not"},
      Bad{changed(open_mpi_environment(), {{"OMPI_COMM_WORLD_RANK", "2"}}), "OMPI_COMM_WORLD_RANK=2: expected"},
      Bad{changed(open_mpi_environment(), {{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}}),
          "OMPI_COMM_WORLD_LOCAL_SIZE=3: expected a whole number from 1 to 2, at most OMPI_COMM_WORLD_SIZE=2"},
      Bad{changed(pmi_environment(), {{"PMI_SIZE", ""}}), "PMI_RANK=0 is set, but PMI_SIZE is not"},
      Bad{changed(pmi_environment(), {{"MPI_LOCALRANKID", ""}}),
          "MPI_LOCALNRANKS=3 is set, but MPI_LOCALRANKID is not"},
      Bad{{{"PMIX_RANK", "1"}}, "PMIX_RANK=1 is set, but nothing says of how many ranks"});
  CHECK_THAT(refusal(bad.environment),
             Catch::StartsWith(bad.said) && Catch::Contains("--rdzv HOST:PORT --rank R --world N"));
}

// --- which launcher counts

TEST_CASE("the innermost launcher counts", "[comm]") {
  // srun of one torchrun a node
  CHECK(read_launch(changed(slurm_environment(), torchrun_environment()), {})->launcher == Launcher::kTorchrun);
  // mpirun within a SLURM job: its daemons were started by srun, whose variables the ranks see
  const auto mpirun = read_launch(changed(slurm_environment(), open_mpi_environment()), {});
  CHECK(mpirun->launcher == Launcher::kOpenMpi);
  CHECK(mpirun->run_id == "4711");
  // srun --mpi=pmi2 says the same twice, mpiexec in a step something else
  const auto pmi2 = read_launch(changed(slurm_environment(), {{"PMI_RANK", "4"}, {"PMI_SIZE", "5"}}), {});
  CHECK(pmi2->launcher == Launcher::kSlurm);
  const auto mpiexec = read_launch(changed(slurm_environment(), pmi_environment()), {});
  CHECK(mpiexec->launcher == Launcher::kPmi);
  CHECK(mpiexec->world_size == 3);
  // srun --mpi=pmix
  CHECK(read_launch(changed(slurm_environment(), {{"PMIX_RANK", "4"}}), {})->launcher == Launcher::kSlurm);
}

// --- flags

TEST_CASE("--rdzv, --rank and --world launch by themselves", "[comm]") {
  struct Given {
    std::string rdzv, host, shown;
    int port;
  };
  const auto given =
      GENERATE(Given{"node1:29500", "node1", "node1:29500", 29500}, Given{"10.0.0.1:1", "10.0.0.1", "10.0.0.1:1", 1},
               Given{"[::1]:1234", "::1", "[::1]:1234", 1234},
               Given{"[fe80::1%eth0]:65535", "fe80::1%eth0", "[fe80::1%eth0]:65535", 65535});
  const auto launch = read_launch({}, {.rdzv = given.rdzv, .rank = 2, .world = 4});
  REQUIRE(launch);
  CHECK(launch->launcher == Launcher::kFlags);
  CHECK(launch->rank == 2);
  CHECK(launch->world_size == 4);
  CHECK(launch->store_host == given.host);
  CHECK(launch->store_port == given.port);
  CHECK(launch->num_nodes == 0);
  CHECK(launch->local_world_size == 1);
  CHECK(launch->notes.empty());
  CHECK(launch_text(*launch) == "rank 2 of 4 (--rdzv), meeting at " + given.shown);
}

TEST_CASE("flags go before the environment, and it is said", "[comm]") {
  const auto all = read_launch(torchrun_environment(), {.rdzv = "node9:1", .rank = 0, .world = 2});
  REQUIRE(all);
  CHECK(all->launcher == Launcher::kFlags);
  CHECK(all->rank == 0);
  CHECK(all->world_size == 2);
  CHECK_FALSE(all->agent_store);
  CHECK(all->notes == std::vector<std::string>{"--rdzv, --rank and --world go before the environment: RANK=3 "
                                               "WORLD_SIZE=4 MASTER_ADDR=node1 MASTER_PORT=41234 not used"});
  // Even one that could not be read.
  CHECK(read_launch({{"RANK", "x"}}, {.rdzv = "node9:1", .rank = 0, .world = 2})->rank == 0);

  const auto place = read_launch(torchrun_environment(), {.rdzv = "node9:1"});
  REQUIRE(place);
  CHECK(place->launcher == Launcher::kTorchrun);
  CHECK(place->rank == 3);
  CHECK(place->local_rank == 1);
  CHECK(place->store_host == "node9");
  CHECK_FALSE(place->agent_store);
  CHECK(place->notes ==
        std::vector<std::string>{"--rdzv goes before the environment: the ranks meet at node9:1, not at node1:41234"});
}

TEST_CASE("flags by half or malformed are refused", "[comm]") {
  struct Bad {
    LaunchFlags flags;
    std::string said;
  };
  const auto bad = GENERATE(
      Bad{{.rank = 1}, "--rank 1 without --world"}, Bad{{.world = 2}, "--world 2 without --rank"},
      Bad{{.rdzv = "a:1", .rank = 1}, "--rank 1 without --world"},
      Bad{{.rank = 1, .world = 2}, "--rank 1 --world 2 without --rdzv; give --rdzv HOST:PORT"},
      Bad{{.rdzv = "a:1"},
          "--rdzv a:1: no launcher's variables say which rank this process is; give --rank R --world N"},
      Bad{{.rdzv = "a:1", .rank = 2, .world = 2}, "--rank 2: expected 0 to 1, below --world 2"},
      Bad{{.rdzv = "a:1", .rank = -1, .world = 2}, "--rank -1: expected 0 to 1"},
      Bad{{.rdzv = "a:1", .rank = 0, .world = 0}, "--world 0: expected the number of ranks"},
      Bad{{.rdzv = "", .rank = 0, .world = 2}, "--rdzv : the port is missing; write HOST:PORT"},
      Bad{{.rdzv = "node1", .rank = 0, .world = 2}, "--rdzv node1: the port is missing"},
      Bad{{.rdzv = ":1", .rank = 0, .world = 2}, "--rdzv :1: the host is missing"},
      Bad{{.rdzv = "a:0", .rank = 0, .world = 2}, "--rdzv a:0: '0' is no port (1 to 65535)"},
      Bad{{.rdzv = "a:65536", .rank = 0, .world = 2}, "'65536' is no port"},
      Bad{{.rdzv = "a:x", .rank = 0, .world = 2}, "'x' is no port"},
      Bad{{.rdzv = "::1:1234", .rank = 0, .world = 2}, "--rdzv ::1:1234: an IPv6 address is written in brackets"},
      Bad{{.rdzv = "[::1", .rank = 0, .world = 2}, "'[' is not closed"},
      Bad{{.rdzv = "[::1]", .rank = 0, .world = 2}, "the port is missing"},
      Bad{{.rdzv = "[::1]:", .rank = 0, .world = 2}, "'' is no port"},
      Bad{{.rdzv = "[a]:1", .rank = 0, .world = 2}, "brackets are for an IPv6 address"},
      Bad{{.rdzv = "tcp//a:1", .rank = 0, .world = 2}, "'tcp//a' is no host name"});
  CHECK_THAT(refusal({}, bad.flags), Catch::Contains(bad.said));
}

TEST_CASE("a process environment becomes a map", "[comm]") {
  std::string first = "RANK=1", second = "EMPTY=", third = "A=b=c", broken = "NOTHING";
  char* entries[] = {first.data(), second.data(), third.data(), broken.data(), nullptr};
  CHECK(environment_of(entries) == Environment{{"RANK", "1"}, {"EMPTY", ""}, {"A", "b=c"}});
}

}  // namespace
}  // namespace mgtrain
