// One evaluation for a person and for a program: accuracy by class, what is taken for what. The summary of a run and
// `mgtrain eval` share it. Class names may be fewer than classes: the others are "class 7".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/observer.h"

namespace mgtrain {

/// Results, per-class accuracy and most confused pairs, a label and a content a line.
std::string evaluation_to_text(const EvalReport& report, const std::vector<std::string>& class_names);
/// The fields of an eval event (but is_best), per_class, confusion and most_confused.
nlohmann::ordered_json evaluation_to_json(const EvalReport& report, const std::vector<std::string>& class_names);

/// Their parts: "top-1 0.9012  top-5 0.9950  loss 0.3120"; the lines and the keys about classes.
std::string result_text(const EvalReport& report);
std::string classes_to_text(const EvalReport& report, const std::vector<std::string>& class_names);
nlohmann::ordered_json classes_to_json(const EvalReport& report, const std::vector<std::string>& class_names);
/// The name of a class, or "class 7".
std::string class_name(const std::vector<std::string>& class_names, size_t index);
/// A line of such a text.
void add_line(std::string& text, const std::string& label, const std::string& content);

}  // namespace mgtrain
