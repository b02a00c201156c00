// The ranks of one process, a thread each, and how they end: all together, with the error of the one that failed first.
// Torch-free.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <vector>

#include "comm/comm_world.h"

namespace mgtrain {

/// What to do where ranks do not end although the world was aborted: they hang outside of every call that could be
/// broken off. Must not return: threads that still run cannot be taken down.
using StuckRanks = std::function<void(const std::exception_ptr& cause, const std::vector<int>& ranks)>;

/// Runs `work(rank)` for every rank of the world, each in a thread of its own, and waits for all. A rank that throws
/// aborts the world, so that the others stop where they wait for it. Rethrows what the first one threw. Ranks that have
/// not ended `grace` after a failure are `stuck`'s.
void run_ranks(CommWorld& world, const std::function<void(int rank)>& work, std::chrono::milliseconds grace,
               const StuckRanks& stuck);

}  // namespace mgtrain
