// Mixed precision on the simulated devices: LibTorch's own lists of which operator computes in which precision.
#pragma once

namespace mgtrain::sim {

/// Once a process, after enable().
void enable_autocast();

}  // namespace mgtrain::sim
