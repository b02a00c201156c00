#include "engine/requests.h"

#include <array>
#include <stdexcept>

namespace mgtrain {
namespace {

constexpr std::array kRequests = {&Requests::interrupt, &Requests::terminate, &Requests::time_limit,
                                  &Requests::evaluate, &Requests::save};

}  // namespace

std::vector<double> to_numbers(const Requests& requests) {
  std::vector<double> numbers;
  numbers.reserve(kRequests.size());
  for (const auto request : kRequests) numbers.push_back(requests.*request ? 1 : 0);
  return numbers;
}

Requests requests_of(std::span<const double> sums) {
  if (sums.size() != kRequests.size()) throw std::logic_error("another number of requests than there are");
  Requests requests;
  for (size_t i = 0; i < kRequests.size(); ++i) requests.*kRequests[i] = sums[i] > 0;
  return requests;
}

}  // namespace mgtrain
