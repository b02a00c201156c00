#include "config/nearest_name.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

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

constexpr size_t kLongestName = 64;

/// Optimal string alignment distance, or some number beyond `limit` where it is larger than that. Names of up to
/// kLongestName characters, `limit` longer at most.
size_t edit_distance(const std::string& a, const std::string& b, size_t limit) {
  std::array<std::array<size_t, 2 * kLongestName>, 3> rows{};  // two rows ago, the last one, this one
  auto *before = rows[0].data(), *last = rows[1].data(), *row = rows[2].data();
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t least = row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t cost = last[j - 1] + (a[i - 1] != b[j - 1]);
      cost = std::min({cost, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) cost = std::min(cost, before[j - 2] + 1);
      row[j] = cost;
      least = std::min(least, cost);
    }
    // What two rows in a row exceed, all later ones do; an exchange of two letters looks back two rows.
    if (least > limit + 1) return least;
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

/// Smaller is closer; a name that shares too little is infinitely far.
double distance(const std::string& a, const std::string& b) {
  if (a.size() > kLongestName) return std::numeric_limits<double>::infinity();
  const size_t shorter = std::min(a.size(), b.size()), longer = std::max(a.size(), b.size());
  const size_t allowed = std::max<size_t>(1, shorter / 3);
  // Lengths alone tell of most names; a file of thousands of unknown keys is looked up in a second.
  if (longer - shorter > allowed) return std::numeric_limits<double>::infinity();
  const size_t edits = edit_distance(a, b, allowed);
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
