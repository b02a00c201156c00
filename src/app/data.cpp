// `mgtrain data info [PATH]`: what a data set is; `mgtrain data check [PATH]`: every fault in it.
#include <algorithm>
#include <iomanip>
#include <locale>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>

#include "app/commands.h"
#include "base/error.h"
#include "data/dataset_parts.h"
#include "data/published.h"
#include "data/sources.h"

namespace mgtrain {
namespace {

using Json = nlohmann::ordered_json;

CheckedConfig config_of(const CommandLine& line, AppContext& context) {
  ConfigSources sources = line.config;
  if (!line.items.empty()) sources.flags.emplace_back("data.path", line.items.front());
  std::vector<std::string> warnings;
  CheckedConfig config = check(sources, &warnings);
  for (const std::string& warning : warnings) context.log.warning(warning);
  return config;
}

std::vector<int64_t> class_counts(const ImageSet& images, int64_t num_classes) {
  std::vector<int64_t> counts(static_cast<size_t>(num_classes), 0);
  for (const int32_t label : images.labels) ++counts[static_cast<size_t>(label)];
  return counts;
}

/// A path may hold bytes that are no UTF-8.
std::string text_of(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

Json part_json(const DatasetPart& part, const ImageSet& images, int64_t num_classes) {
  Json json = {{"images", part.num_samples}, {"files", Json::array()}};
  for (const auto& file : part.files) json["files"].push_back(file.string());
  json["per_class"] = class_counts(images, num_classes);
  return json;
}

Json info_json(const DatasetInfo& info, const LoadedData& data) {
  Json json = {{"name", info.name},
               {"path", info.path.string()},
               {"format", info.format},
               {"channels", info.channels},
               {"height", info.height},
               {"width", info.width},
               {"num_classes", info.num_classes},
               {"classes", info.class_names}};
  json["train"] = part_json(info.train, data.train, info.num_classes);
  json["val"] = info.val ? part_json(*info.val, data.val, info.num_classes) : Json(nullptr);
  json["mean"] = data.stats.mean;
  json["stddev"] = data.stats.stddev;
  json["fingerprint"] = data.fingerprint;
  return json;
}

std::string list(const std::vector<double>& values) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::fixed << std::setprecision(4);
  for (size_t i = 0; i < values.size(); ++i) text << (i > 0 ? ", " : "") << values[i];
  return text.str();
}

void print_info(const DatasetInfo& info, const LoadedData& data, std::ostream& out) {
  out << info.name << " (" << info.path.string() << ")\n"
      << "format       " << info.format << "\n"
      << "images       " << info.channels << " x " << info.height << " x " << info.width
      << " (channels, height, width)\n"
      << "training     " << info.train.num_samples << " images\n"
      << "evaluation   " << (info.val ? std::to_string(info.val->num_samples) + " images" : std::string("none")) << "\n"
      << "mean         " << list(data.stats.mean) << "\n"
      << "deviation    " << list(data.stats.stddev) << "\n"
      << "fingerprint  " << data.fingerprint << "\n"
      << "classes      " << info.num_classes << "\n";
  const std::vector<int64_t> train = class_counts(data.train, info.num_classes),
                             val = class_counts(data.val, info.num_classes);
  size_t width = 0;
  for (const std::string& name : info.class_names) width = std::max(width, name.size());
  for (size_t c = 0; c < train.size(); ++c) {
    out << "  " << std::left << std::setw(static_cast<int>(width)) << info.class_names[c] << std::right << "  "
        << std::setw(7) << train[c] << " training  " << std::setw(7) << val[c] << " evaluation\n";
  }
}

/// What `mgtrain data check` finds: faults, and what is worth a look.
struct Findings {
  Faults faults{/*collect=*/true};
  std::vector<std::string> remarks;
};

void remark_on_constant_images(const DatasetPart& part, const ImageSet& images, Findings& found) {
  int64_t count = 0, first = -1;
  for (int64_t i = 0; i < images.count(); ++i) {
    const auto image = images.image(i);
    if (std::ranges::any_of(image, [&](uint8_t value) { return value != image[0]; })) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return;
  found.remarks.push_back(part.files.front().string() + ": " + std::to_string(count) +
                          (count == 1 ? " image" : " images") + " of one value only, the first is number " +
                          std::to_string(first));
}

/// All faults of the set at `path`, its own two parts.
void check_set(const DataConfig& config, const std::filesystem::path& path, bool needs_train, Findings& found) {
  Faults& faults = found.faults;
  const DatasetInfo info = inspect_parts(config, path, faults);
  if (info.format == "synthetic") return;
  std::vector<std::filesystem::path> files;
  const auto check_part = [&](const DatasetPart& part) {
    files.insert(files.end(), part.files.begin(), part.files.end());
    if (part.num_samples > 0) remark_on_constant_images(part, load_part(config, info, part, faults), found);
  };
  check_part(info.train);
  if (info.val) check_part(*info.val);
  if (needs_train && info.train.files.empty())
    faults.add(path.string() + ": has a part for evaluation but none for training; expected both");
  if (info.format != "idx") return;
  Faults told(/*collect=*/true);  // unreadable files are
  const std::string published = told.attempt([&] { return compare_with_published(files, faults); });
  if (!published.empty() && faults.count() == 0)
    found.remarks.push_back("the files are " + published + "'s, as published");
}

/// All that can be found; what keeps the rest from being read ends the list.
Findings find_faults(const RunConfig& config, const CommandLine& line) {
  Findings found;
  found.faults.attempt([&] {
    DataConfig own = config.data;
    own.val = "auto";
    std::filesystem::path path = own.path;
    if (path.empty()) path = inspect_dataset(own, embedded_data_candidates(line.program)).path;
    check_set(own, path, /*needs_train=*/true, found);
    const std::string& val = config.data.val;
    if (val != "auto" && val != "none" && !holds_out(config.data)) {
      DataConfig other = own;
      other.path = val;
      other.format = "auto";
      check_set(other, val, /*needs_train=*/false, found);
    }
    // What only shows in the whole: --val against the set, images without any difference.
    if (found.faults.count() == 0) {
      const DatasetInfo info = inspect_dataset(config.data, embedded_data_candidates(line.program));
      if (info.format != "synthetic") load_dataset(config.data, info, config.train.seed);
    }
  });
  return found;
}

}  // namespace

ExitCode run_data_info(const CommandLine& line, AppContext& context) {
  const CheckedConfig config = config_of(line, context);
  const DataConfig& data_config = config.values().data;
  const DatasetInfo info = inspect_dataset(data_config, embedded_data_candidates(line.program));
  const LoadedData data = load_dataset(data_config, info, config.values().train.seed);
  if (line.json) {
    context.out << text_of(info_json(info, data)) << '\n';
  } else {
    print_info(info, data, context.out);
  }
  return ExitCode::kDone;
}

ExitCode run_data_check(const CommandLine& line, AppContext& context) {
  const CheckedConfig config = config_of(line, context);
  const Findings found = find_faults(config.values(), line);
  const size_t count = found.faults.count(), shown = found.faults.list().size();
  if (line.json) {
    const Json json = {{"faults", found.faults.list()}, {"count", count}, {"remarks", found.remarks}};
    context.out << text_of(json) << '\n';
  } else {
    for (const std::string& fault : found.faults.list()) context.out << fault << '\n';
    if (count > shown) context.out << "... and " << count - shown << " more\n";
    if (!line.quiet)
      for (const std::string& remark : found.remarks) context.out << "remark: " << remark << '\n';
    if (!line.quiet || count > 0)
      context.out << (count == 0 ? "no fault" : std::to_string(count) + (count == 1 ? " fault" : " faults")) << '\n';
  }
  return count == 0 ? ExitCode::kDone : ExitCode::kData;
}

}  // namespace mgtrain
