#include "config/nearest_name.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace mgtrain {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kUsualElsewhere{{
    {"learning_rate", "lr"},   {"batch_size", "batch"},      {"num_workers", "workers"}, {"wd", "weight_decay"},
    {"scheduler", "schedule"}, {"lr_scheduler", "schedule"}, {"dataset", "data"},        {"data_dir", "data"},
    {"arch", "model"},         {"architecture", "model"},    {"device", "gpus"},         {"devices", "gpus"},
    {"gpu", "gpus"},           {"max_epochs", "epochs"},     {"num_epochs", "epochs"},   {"max_steps", "steps"},
    {"random_seed", "seed"},   {"opt", "optimizer"},         {"grad_clip", "clip_grad"}, {"pretrained", "init"},
}};

std::string plain(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string text(name);
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return text;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string usual_name(const std::string& name) {
  for (const auto& [elsewhere, here] : kUsualElsewhere) {
    if (name == elsewhere) return std::string(here);
  }
  return name;
}

/// Optimal string alignment distance.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

/// Smaller is closer; a name that shares too little is infinitely far.
double distance(const std::string& a, const std::string& b) {
  if (a.size() > 64) return std::numeric_limits<double>::infinity();
  const size_t shorter = std::min(a.size(), b.size()), longer = std::max(a.size(), b.size());
  const size_t allowed = std::max<size_t>(1, shorter / 3);
  // Lengths alone tell of most names; a file of thousands of unknown keys is looked up in a second.
  if (longer - shorter > allowed) return std::numeric_limits<double>::infinity();
  const size_t edits = edit_distance(a, b);
  if (edits > allowed) return std::numeric_limits<double>::infinity();
  return static_cast<double>(edits);
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  const std::string written = plain(name);
  std::string best;
  double best_distance = std::numeric_limits<double>::infinity();
  for (const std::string& candidate : candidates) {
    const std::string known = plain(candidate);
    double d = distance(written, known);
    d = std::min(d, distance(usual_name(written), known) + 0.25);
    // The right key in a wrong section, or without one, is a little further than the same edits in the whole name.
    d = std::min(d, distance(usual_name(last_part(written)), last_part(known)) + 0.5);
    if (d < best_distance) {
      best = candidate;
      best_distance = d;
    }
  }
  return best;
}

}  // namespace mgtrain
