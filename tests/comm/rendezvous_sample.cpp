// A rank that meets the others and leaves again, for torchrun to start: rendezvous_sample torchrun|user, the one who is
// to be told as having set OMP_NUM_THREADS. Rank 1 of the first attempt dies after the meeting, so that torchrun
// restarts all. Exit 0 if all was as it must be.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>

#include "comm/rendezvous_store.h"
#include "comm/torchrun_threads.h"

namespace {

int fail(const std::string& problem) {
  std::fprintf(stderr, "rendezvous_sample: %s\n", problem.c_str());
  return 1;
}

int run_rank(const std::string& threads_setter) {
  const mgtrain::Environment environment = mgtrain::environment_of(environ);
  const auto launch = mgtrain::read_launch(environment, {});
  if (!launch) return fail("no launch in the environment");
  const bool torchruns = mgtrain::threads_set_by_torchrun(environment, mgtrain::environment_of_launcher());
  if (torchruns != (threads_setter == "torchrun")) return fail("OMP_NUM_THREADS taken for another's");

  mgtrain::RendezvousOptions options;
  options.timeout = std::chrono::seconds(60);
  const auto store = mgtrain::join_rendezvous(*launch, options);
  const std::string mine = std::to_string(launch->rank);
  if (store->check({"from/" + mine})) return fail("a key of the attempt before is seen");
  store->set("from/" + mine, mine);
  for (int rank = 0; rank < launch->world_size; ++rank) {
    if (store->get_to_str("from/" + std::to_string(rank)) != std::to_string(rank)) return fail("a key of another run");
  }
  std::printf("%s, restart %d\n", mgtrain::launch_text(*launch).c_str(), launch->restart_count);
  std::fflush(stdout);
  if (launch->restart_count > 0 && !mgtrain::restarted(*store)) return fail("a restart is not known");
  if (launch->rank == 1 && launch->restart_count == 0) return fail("rank 1 dies, as it must");
  if (launch->rank == 1) store->set("survived", "yes");
  store->wait({"survived"});  // at first until torchrun ends this rank
  mgtrain::leave_rendezvous(store, *launch);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_rank(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
