// The plan in words and as JSON.
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/check.h"
#include "devices/report.h"
#include "optim/lr_schedule.h"
#include "plan/run_plan.h"

namespace mgtrain {
namespace {

/// 11173962 as "11,173,962".
std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  const size_t first = digits.starts_with('-') ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string formatted(const char* format, double value) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

/// Four digits and a unit: "43.2 MiB".
std::string bytes_text(uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return formatted(unit == 0 ? "%.0f " : "%.1f ", value) + kUnits[unit];
}

std::string flops_text(double flops) {
  constexpr std::array kUnits{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  size_t unit = 0;
  for (; flops >= 1000 && unit + 1 < kUnits.size(); ++unit) flops /= 1000;
  return formatted("%.3g ", flops) + kUnits[unit];
}

/// "ResNet18" for "resnet18".
std::string model_title(const std::string& name) {
  return name.starts_with("resnet") ? "ResNet" + name.substr(6) : name;
}

/// "1 epoch", "100 steps", "15 % of the run": a period for a sentence that starts with "every".
std::string period_text(const Every& every) {
  if (every.never()) return "never";
  const std::string amount = formatted("%g", every.amount);
  const std::string plural = every.amount == 1 ? "" : "s";
  switch (every.unit) {
    case Every::Unit::kSteps:
      return "every " + amount + " step" + plural;
    case Every::Unit::kEpochs:
      return "every " + amount + " epoch" + plural;
    case Every::Unit::kMinutes:
      return "every " + amount + " minute" + plural;
    case Every::Unit::kPercent:
      break;
  }
  return "every " + amount + " % of the run";
}

const char* stem_text(Stem stem) { return stem == Stem::kCifar ? "cifar" : "imagenet"; }

std::string image_text(const DatasetInfo& data) {
  return std::to_string(data.channels) + "x" + std::to_string(data.input_height) + "x" +
         std::to_string(data.input_width);
}

/// "128, 128", or "4 x 32" where all are the same and many.
std::string sizes_text(const std::vector<int64_t>& sizes) {
  const bool same = std::ranges::adjacent_find(sizes, std::ranges::not_equal_to{}) == sizes.end();
  if (same && sizes.size() > 1) return std::to_string(sizes.size()) + " x " + grouped(sizes.front());
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(sizes.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + grouped(sizes[i]);
  if (sizes.size() > kShown) text += ", ... (" + std::to_string(sizes.size()) + ")";
  return text;
}

std::string devices_phrase(const RunPlan& plan) {
  const Selection& selection = plan.selection;
  const size_t count = selection.devices.size();
  const Device& first = selection.devices.front();
  if (!plan.launch.launcher.empty()) {
    return count_of(plan.num_devices, "rank") + " (" + plan.launch.launcher + "), each with " +
           (selection.on_cpu() ? "a CPU replica" : "a GPU");
  }
  if (selection.on_cpu()) {
    return count == 1 ? "the CPU (" + count_of(first.threads, "thread") + ")" : std::to_string(count) + " CPU replicas";
  }
  std::string labels;
  for (const Device& device : selection.devices) labels += (labels.empty() ? "" : ", ") + device.label();
  return (count == 1 ? "1 GPU (" : std::to_string(count) + " GPUs (") + labels + ")";
}

std::string optimizer_text(const OptimConfig& optim) {
  std::string text = optim.optimizer;
  if (optim.optimizer == "sgd") {
    text += formatted(", momentum %g", optim.momentum);
    if (optim.nesterov && optim.momentum > 0) text += " (Nesterov)";
  } else {
    text += formatted(", betas %g", optim.beta1) + formatted(" and %g", optim.beta2);
  }
  text += formatted(", weight decay %g", optim.weight_decay);
  if (!optim.decay_norms && optim.weight_decay > 0) text += " (not on norms and biases)";
  if (optim.clip_grad > 0) text += formatted(", gradients clipped to norm %g", optim.clip_grad);
  if (optim.label_smoothing > 0) text += formatted(", label smoothing %g", optim.label_smoothing);
  return text;
}

std::string rate_text(const RunPlan& plan, const OptimConfig& optim) {
  const LrSchedule schedule(optim, plan.learning_rate, plan.steps_per_epoch, plan.total_steps);
  std::string text = formatted("%g", plan.learning_rate);
  if (optim.lr_scale != "none") text += " (" + optim.lr_scale + " of batch " + grouped(plan.global_batch) + ")";
  text += ", " + plan.schedule;
  if (plan.warmup_steps > 0) text += " after " + count_of(plan.warmup_steps, "step") + " of warm-up";
  text += formatted("; first step %.4g", schedule.at(0));
  return text + formatted(", last %.4g", schedule.at(plan.total_steps - 1));
}

std::string steps_text(const RunPlan& plan) {
  std::string text = grouped(plan.steps_per_epoch) + " an epoch, " + grouped(plan.total_steps) + " in " +
                     count_of(plan.epochs, "epoch");
  if (plan.total_steps % plan.steps_per_epoch != 0) text += " (the last not whole)";
  if (plan.dropped_samples == 0 && plan.last_batch != plan.global_batch) {
    text += "; an epoch's last batch is " + grouped(plan.last_batch);
  }
  return text;
}

using Row = std::pair<std::string, std::string>;

std::string aligned(const std::vector<Row>& rows) {
  size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.first.size());
  std::string text;
  for (const Row& row : rows)
    text += "  " + row.first + std::string(width - row.first.size() + 2, ' ') + row.second + "\n";
  return text;
}

const char* kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kSimulated:
      return "sim";
  }
  return "";
}

/// One line a device; columns only where a device has them.
std::string device_table(const RunPlan& plan) {
  std::vector<std::vector<std::string>> rows{
      {"device", "name", "UUID", "PCI bus", "threads", "batch", "at once", "memory"}};
  const int64_t count = plan.num_devices;
  const bool launched = !plan.launch.launcher.empty();
  for (size_t own = 0; own < plan.selection.devices.size(); ++own) {
    const auto at = static_cast<size_t>(plan.first_device) + own;  // among those of all processes
    const Device& device = plan.selection.devices[own];
    const int64_t largest = std::ranges::max(plan.micro_batches);
    const int64_t chunk = largest / count + (static_cast<int64_t>(at) < largest % count ? 1 : 0);
    const std::string mark = launched ? " (rank " + std::to_string(at) + ")" : at == 0 && count > 1 ? " *" : "";
    rows.push_back({device.label() + mark, device.name, device.uuid, device.pci_bus_id,
                    device.kind == DeviceKind::kCpu ? std::to_string(device.threads) : "",
                    grouped(plan.device_shares[at]), grouped(std::min(chunk, plan.device_shares[at])),
                    bytes_text(plan.device_bytes[own]) + " of " + bytes_text(device.memory_bytes)});
  }
  std::string text;
  std::vector<size_t> widths(rows.front().size(), 0);
  for (size_t column = 0; column < widths.size(); ++column) {
    for (size_t row = 1; row < rows.size(); ++row) widths[column] = std::max(widths[column], rows[row][column].size());
    if (widths[column] > 0) widths[column] = std::max(widths[column], rows[0][column].size());
  }
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t column = 0; column < widths.size(); ++column) {
      if (widths[column] > 0) line += " " + row[column] + std::string(widths[column] - row[column].size() + 1, ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return count > 1 && !launched ? text + "  * the primary: holds the weights that are saved, and the optimizer\n"
                                : text;
}

}  // namespace

std::string headline(const RunPlan& plan) {
  return model_title(plan.model.name) + " (width " + std::to_string(plan.model.width) + ", " +
         stem_text(plan.model.stem) + " stem, " + grouped(plan.model.num_parameters()) + " parameters) on " +
         plan.dataset.name + " (" + grouped(plan.dataset.train.num_samples) + " images " + image_text(plan.dataset) +
         ", " + std::to_string(plan.dataset.num_classes) + " classes) on " + devices_phrase(plan);
}

std::string render_plan(const RunPlan& plan, const CheckedConfig& checked) {
  const RunConfig& config = checked.values();
  int64_t layers = 0;
  for (const UnitSpec& unit : plan.model.units) layers += static_cast<int64_t>(unit.layers.size());
  const int64_t parameters = plan.model.num_parameters();
  std::vector<Row> rows;
  rows.emplace_back(
      "model",
      model_title(plan.model.name) + ", width " + std::to_string(plan.model.width) + ", " + stem_text(plan.model.stem) +
          " stem, " + std::to_string(plan.model.num_classes) + " classes: " + grouped(layers) + " layers, " +
          grouped(parameters) + " parameters" +
          (plan.trainable_parameters == parameters ? "" : " (" + grouped(plan.trainable_parameters) + " train)"));
  rows.emplace_back("work", flops_text(2 * static_cast<double>(plan.model.macs_per_image())) + " an image forward, " +
                                flops_text(plan.flops_per_step) + " a step");
  rows.emplace_back("data", plan.dataset.name + " (" + plan.dataset.format + ", " + plan.dataset.path.string() +
                                "): " + grouped(plan.dataset.train.num_samples) + " images to train, " +
                                (plan.dataset.val ? grouped(plan.dataset.val->num_samples) : std::string("none")) +
                                " to evaluate, " + image_text(plan.dataset));
  rows.emplace_back("strategy", std::string(strategy_name(plan.strategy)) + ": " + plan.strategy_reason);
  rows.emplace_back("batch", grouped(plan.global_batch) + " samples an update; per device " +
                                 sizes_text(plan.device_shares) + "; micro-batches " + sizes_text(plan.micro_batches));
  rows.emplace_back("steps", steps_text(plan));
  rows.emplace_back("optimizer", optimizer_text(config.optim));
  rows.emplace_back("learning rate", rate_text(plan, config.optim));
  rows.emplace_back("precision",
                    plan.dtype + ", " + plan.memory_format + (config.train.deterministic ? ", deterministic" : ""));
  rows.emplace_back("evaluation", plan.dataset.val
                                      ? period_text(config.train.eval_every) + "; best by " + config.checkpoint.best
                                      : "none");
  rows.emplace_back("checkpoint",
                    bytes_text(plan.checkpoint_bytes) + " each, " + period_text(config.checkpoint.save_every) +
                        "; the newest " + std::to_string(config.checkpoint.keep) + " and the best are kept: up to " +
                        bytes_text(plan.checkpoint_bytes * static_cast<uint64_t>(config.checkpoint.keep + 1)));
  rows.emplace_back("seed", std::to_string(plan.seed));

  std::string text = headline(plan) + "\n" + aligned(rows) + device_table(plan);
  for (const std::string& note : plan.notes) text += "  note: " + note + "\n";
  for (const std::string& warning : plan.warnings) text += "  warning: " + warning + "\n";
  return text;
}

nlohmann::ordered_json plan_to_json(const RunPlan& plan) {
  using Json = nlohmann::ordered_json;
  Json devices = Json::array();
  for (size_t i = 0; i < plan.selection.devices.size(); ++i) {
    const Device& device = plan.selection.devices[i];
    devices.push_back({{"label", device.label()},
                       {"kind", kind_name(device.kind)},
                       {"index", device.index},
                       {"primary", plan.first_device == 0 && i == 0},
                       {"name", device.name},
                       {"uuid", device.uuid},
                       {"pci_bus_id", device.pci_bus_id},
                       {"threads", device.threads},
                       {"memory_bytes", device.memory_bytes},
                       {"needed_bytes", plan.device_bytes[i]},
                       {"batch", plan.device_shares[static_cast<size_t>(plan.first_device) + i]}});
  }
  const DatasetInfo& data = plan.dataset;
  const auto part = [](const DatasetPart& part) {
    Json files = Json::array();
    for (const auto& file : part.files) files.push_back(file.string());
    return Json{{"samples", part.num_samples}, {"files", files}};
  };
  return {{"headline", headline(plan)},
          {"strategy", strategy_name(plan.strategy)},
          {"strategy_reason", plan.strategy_reason},
          {"requested_gpus", plan.selection.requested},
          {"fell_back_to_cpu", plan.selection.fell_back_to_cpu},
          {"launch",
           plan.launch.launcher.empty()
               ? Json()
               : Json{{"launcher", plan.launch.launcher}, {"rank", plan.launch.rank}, {"ranks", plan.launch.ranks}}},
          {"devices", devices},
          {"model",
           {{"name", plan.model.name},
            {"width", plan.model.width},
            {"stem", stem_text(plan.model.stem)},
            {"classes", plan.model.num_classes},
            {"parameters", plan.model.num_parameters()},
            {"trainable_parameters", plan.trainable_parameters},
            {"macs_per_image", plan.model.macs_per_image()}}},
          {"data",
           {{"name", data.name},
            {"format", data.format},
            {"path", data.path.string()},
            {"channels", data.channels},
            {"height", data.height},
            {"width", data.width},
            {"input_height", data.input_height},
            {"input_width", data.input_width},
            {"class_names", data.class_names},
            {"train", part(data.train)},
            {"val", data.val ? part(*data.val) : Json()}}},
          {"batch",
           {{"global", plan.global_batch},
            {"per_device", plan.device_shares},
            {"accumulate", plan.accumulate},
            {"micro_batches", plan.micro_batches},
            {"last", plan.last_batch},
            {"dropped_samples", plan.dropped_samples}}},
          {"steps", {{"per_epoch", plan.steps_per_epoch}, {"total", plan.total_steps}, {"epochs", plan.epochs}}},
          {"optimizer", plan.optimizer},
          {"learning_rate", plan.learning_rate},
          {"schedule", plan.schedule},
          {"warmup_steps", plan.warmup_steps},
          {"dtype", plan.dtype},
          {"memory_format", plan.memory_format},
          {"seed", plan.seed},
          {"flops_per_step", plan.flops_per_step},
          {"checkpoint_bytes", plan.checkpoint_bytes},
          {"notes", plan.notes},
          {"warnings", plan.warnings}};
}

}  // namespace mgtrain
