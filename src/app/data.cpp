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

/// All faults that can be found; those that keep the rest from being read end the list.
Faults find_faults(const RunConfig& config, const CommandLine& line) {
  Faults faults(/*collect=*/true);
  try {
    DataConfig own = config.data;
    own.val = "auto";
    std::filesystem::path path = own.path;
    if (path.empty()) path = inspect_dataset(own, embedded_data_candidates(line.program)).path;
    const DatasetInfo info = inspect_parts(own, path, faults);
    if (info.format == "synthetic") return faults;
    if (info.train.num_samples > 0) load_part(own, info, info.train, faults);
    if (info.val && info.val->num_samples > 0) load_part(own, info, *info.val, faults);
    if (info.train.num_samples == 0 && faults.count() == 0)
      faults.add(path.string() + ": has a part for evaluation but none for training");
    if (faults.count() == 0) inspect_dataset(config.data, embedded_data_candidates(line.program));  // --val
  } catch (const DataError& error) {
    faults.add(error.what());
  }
  return faults;
}

}  // namespace

ExitCode run_data_info(const CommandLine& line, AppContext& context) {
  const CheckedConfig config = config_of(line, context);
  const DataConfig& data_config = config.values().data;
  const DatasetInfo info = inspect_dataset(data_config, embedded_data_candidates(line.program));
  const LoadedData data = load_dataset(data_config, info, config.values().train.seed);
  if (line.json) {
    context.out << info_json(info, data).dump(2) << '\n';
  } else {
    print_info(info, data, context.out);
  }
  return ExitCode::kDone;
}

ExitCode run_data_check(const CommandLine& line, AppContext& context) {
  const CheckedConfig config = config_of(line, context);
  const Faults faults = find_faults(config.values(), line);
  if (line.json) {
    context.out << Json({{"faults", faults.list()}, {"count", faults.count()}}).dump(2) << '\n';
  } else {
    for (const std::string& fault : faults.list()) context.out << fault << '\n';
    if (faults.count() > faults.list().size())
      context.out << "... and " << faults.count() - faults.list().size() << " more\n";
    if (!line.quiet || faults.count() > 0)
      context.out << (faults.count() == 0 ? "no fault" : std::to_string(faults.count()) + " faults") << '\n';
  }
  return faults.count() == 0 ? ExitCode::kDone : ExitCode::kData;
}

}  // namespace mgtrain
