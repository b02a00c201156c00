// Where the ranks of a launch meet: c10d's key-value store, behind which process groups find their peers. Rank 0 (or
// torchrun's agent) holds it; join_rendezvous() returns once every rank is there. Called by one thread a rank; a store
// may then be used from any thread.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/signals.h"
#include "comm/launch_environment.h"

namespace mgtrain {

struct RendezvousOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(600);  // --timeout: for the others to come
  int (*stop)() = stop_signal;                                    // asked a few times a second while waiting
  std::function<void(std::string_view)> warn;                     // unset: warnings are dropped
};

/// Meets the other ranks and returns their common store, whose keys are those of this attempt alone: a restart finds
/// none of the one before. Rank 0 listens at launch.store_host, on that address only: on the loopback where that is
/// one, on all addresses only if several machines are named and the name is a loopback address on rank 0's (Debian's
/// 127.0.1.1; warned of). The store's own time-out is options.timeout.
/// Throws DeviceError for a port that cannot be had, a rank 0 that cannot be reached, and after the time-out, naming
/// the ranks that did not come; ConfigError if ranks were started for worlds of different size or twice with one rank;
/// Error with the signal's exit code if `stop` says so.
c10::intrusive_ptr<c10d::Store> join_rendezvous(const Launch& launch, const RendezvousOptions& options = {});

/// Whether torchrun restarted the ranks of any machine after a failure, told alike to all ranks that met at `store`.
/// launch.restart_count alone may be 0 on a machine whose ranks were restarted because another's failed.
bool restarted(c10d::Store& store);

/// The last use of the store by this rank. Rank 0, where it holds the store, waits until all have left or `limit` is
/// over, so that nobody finds it gone while still at work. Never throws: a run that ends does not fail over this.
void leave_rendezvous(c10::intrusive_ptr<c10d::Store> store, const Launch& launch,
                      std::chrono::milliseconds limit = std::chrono::seconds(10)) noexcept;

}  // namespace mgtrain
