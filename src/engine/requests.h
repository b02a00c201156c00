// What a rank wants all ranks to do at a step boundary. Torch-free.
#pragma once

#include <span>
#include <vector>

namespace mgtrain {

struct Requests {
  bool interrupt = false, terminate = false;  // a signal came
  bool time_limit = false;                    // the run's time is up
  bool evaluate = false, save = false;        // a schedule in minutes is due
};

/// A number for each request, 1 if it is made, so that sums over the ranks say what any of them wants; and back.
std::vector<double> to_numbers(const Requests& requests);
Requests requests_of(std::span<const double> sums);

}  // namespace mgtrain
