#include "observe/evaluation.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "observe/event_json.h"
#include "observe/number_text.h"

namespace mgtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kClassesShown = 10;
constexpr size_t kPairsShown = 3;

int64_t samples_of_class(const EvalReport& eval, size_t index) {
  if (index >= eval.confusion.size()) return 0;
  const std::vector<int64_t>& row = eval.confusion[index];
  return std::accumulate(row.begin(), row.end(), int64_t{0});
}

struct ConfusedPair {
  size_t truth, predicted;
  int64_t count;
};

// Wrong predictions, the most frequent first; equal counts in class order.
std::vector<ConfusedPair> most_confused(const EvalReport& eval, size_t limit) {
  std::vector<ConfusedPair> pairs;
  for (size_t truth = 0; truth < eval.confusion.size(); ++truth) {
    for (size_t predicted = 0; predicted < eval.confusion[truth].size(); ++predicted) {
      const int64_t count = eval.confusion[truth][predicted];
      if (truth != predicted && count > 0) pairs.push_back({truth, predicted, count});
    }
  }
  std::ranges::stable_sort(pairs, std::ranges::greater{}, &ConfusedPair::count);
  if (pairs.size() > limit) pairs.resize(limit);
  return pairs;
}

Json per_class_json(const std::vector<std::string>& names, const EvalReport& eval) {
  Json classes = Json::array();
  for (size_t i = 0; i < eval.class_accuracy.size(); ++i) {
    classes.push_back({{"class", i},
                       {"name", class_name(names, i)},
                       {"accuracy", eval.class_accuracy[i]},
                       {"num_samples", samples_of_class(eval, i)}});
  }
  return classes;
}

Json confused_json(const std::vector<std::string>& names, const EvalReport& eval) {
  Json pairs = Json::array();
  for (const ConfusedPair& pair : most_confused(eval, 10)) {
    pairs.push_back({{"true", class_name(names, pair.truth)},
                     {"predicted", class_name(names, pair.predicted)},
                     {"count", pair.count}});
  }
  return pairs;
}

// All classes if they are few, else those the model knows worst.
void add_classes(std::string& text, const std::vector<std::string>& names, const EvalReport& eval) {
  std::vector<size_t> order(eval.class_accuracy.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return std::isnan(eval.class_accuracy[i]); });
  const bool all = order.size() <= kClassesShown;
  if (!all) {
    std::ranges::stable_sort(order, std::ranges::less{}, [&](size_t i) { return eval.class_accuracy[i]; });
    order.resize(kClassesShown);
  }
  size_t width = 0;
  for (const size_t i : order) width = std::max(width, class_name(names, i).size());
  std::string label = all ? "per class" : "worst";
  for (const size_t i : order) {
    add_line(text, label, padded(class_name(names, i), width + 2) + fixed_text(eval.class_accuracy[i], 4));
    label.clear();
  }
}

void add_confused(std::string& text, const std::vector<std::string>& names, const EvalReport& eval) {
  std::string label = "confused";
  for (const ConfusedPair& pair : most_confused(eval, kPairsShown)) {
    const auto total = static_cast<double>(samples_of_class(eval, pair.truth));
    add_line(text, label,
             class_name(names, pair.truth) + " taken for " + class_name(names, pair.predicted) + ": " +
                 std::to_string(pair.count) + " (" + fixed_text(100 * static_cast<double>(pair.count) / total, 1) +
                 " %)");
    label.clear();
  }
}

}  // namespace

std::string class_name(const std::vector<std::string>& names, size_t index) {
  if (index < names.size()) return names[index];
  return "class " + std::to_string(index);
}

void add_line(std::string& text, const std::string& label, const std::string& content) {
  constexpr size_t kLabelWidth = 12;
  text += padded(label, kLabelWidth) + content + "\n";
}

std::string result_text(const EvalReport& report) {
  return "top-1 " + fixed_text(report.top1, 4) + "  top-5 " + fixed_text(report.top5, 4) + "  loss " +
         fixed_text(report.loss, 4);
}

std::string classes_to_text(const EvalReport& report, const std::vector<std::string>& class_names) {
  std::string text;
  add_classes(text, class_names, report);
  add_confused(text, class_names, report);
  return text;
}

Json classes_to_json(const EvalReport& report, const std::vector<std::string>& class_names) {
  return {{"per_class", per_class_json(class_names, report)},
          {"confusion", report.confusion},
          {"most_confused", confused_json(class_names, report)}};
}

Json evaluation_to_json(const EvalReport& report, const std::vector<std::string>& class_names) {
  Json json = eval_fields(report);
  json.erase("is_best");
  json.update(classes_to_json(report, class_names));
  return json;
}

std::string evaluation_to_text(const EvalReport& report, const std::vector<std::string>& class_names) {
  std::string text;
  add_line(text, "result", result_text(report));
  return text + classes_to_text(report, class_names);
}

}  // namespace mgtrain
