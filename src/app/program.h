// The whole program but for main(): argv in, exit code out. The only catch-all.
#pragma once

#include <functional>

#include "devices/inventory.h"

namespace mgtrain {

/// Parses argv, runs the command, reports an error to stderr. Throws nothing. `inventory`: what the machine has; a test
/// program may say something else.
int run_program(int argc, char** argv, const std::function<Inventory()>& inventory);

}  // namespace mgtrain
