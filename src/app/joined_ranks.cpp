#include "app/joined_ranks.h"

#include <torch/version.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "app/failure.h"
#include "base/error.h"
#include "base/version.h"
#include "comm/process_groups.h"
#include "comm/rendezvous_store.h"
#include "comm/torchrun_threads.h"
#include "config/options.h"
#include "devices/torch_device.h"

namespace mgtrain {
namespace {

using Json = nlohmann::json;
using Path = std::filesystem::path;

constexpr const char* kPlace = "place";
constexpr const char* kRun = "run";

LaunchFlags flags_of(const ParallelConfig& config) {
  LaunchFlags flags;
  if (!config.rdzv.empty()) flags.rdzv = config.rdzv;
  if (config.rank >= 0) flags.rank = config.rank;
  if (config.world > 0) flags.world = config.world;
  return flags;
}

/// The threads that the user wants a process to have; nothing where nobody said, or torchrun did.
std::optional<int> threads_of_user(const Environment& environment, std::vector<std::string>& notes) {
  const auto variable = environment.find("OMP_NUM_THREADS");
  if (variable == environment.end() || variable->second.empty()) return std::nullopt;
  if (threads_set_by_torchrun(environment, environment_of_launcher())) {
    notes.push_back("OMP_NUM_THREADS=1 is torchrun's default and not used: ranks share out the cores");
    return std::nullopt;
  }
  // "4,2" is one number for each level of nested parallel regions.
  const int threads = std::atoi(variable->second.c_str());
  if (threads < 1) return std::nullopt;
  notes.push_back("OMP_NUM_THREADS=" + variable->second + ": " + std::to_string(threads) + " threads a rank");
  return threads;
}

/// The same folder for all ranks and after a restart, where nobody named one.
std::string folder_of_launch(const Launch& launch, const CommandLine& line) {
  const bool resumes_path = !line.resume.empty() && line.resume != "auto";
  if (!line.output.empty() || resumes_path) return line.output;
  if (!launch.run_id.empty()) return "runs/" + resolve(line.config).values.model.name + "-" + launch.run_id;
  if (launch.max_restarts > 0) {
    throw ConfigError("torchrun may restart this run (--max-restarts " + std::to_string(launch.max_restarts) +
                      "), and nothing names its folder alike after that; give --output FOLDER, or torchrun a "
                      "--rdzv-id");
  }
  return "";
}

/// What ranks must have in common: every option but those of a machine or of the files the first rank writes, and the
/// program itself.
std::map<std::string, std::string> common_ground(const RunConfig& config) {
  static const std::vector<std::string> own = {"data.path",     "data.val",   "data.workers",
                                               "data.prefetch", "model.init", "devices.",
                                               "checkpoint.",   "output.",    "parallel.timeout"};
  std::map<std::string, std::string> common = {{"mgtrain", kVersion}, {"LibTorch", TORCH_VERSION}};
  for (const Option& option : options()) {
    const bool may_differ = option.of_process || std::any_of(own.begin(), own.end(), [&](const std::string& key) {
                              return key.ends_with('.') ? option.key.starts_with(key) : option.key == key;
                            });
    if (!may_differ) common[option.key] = toml_text(option.get(config));
  }
  return common;
}

}  // namespace

std::optional<Launch> find_launch(const CommandLine& line) {
  // A problem of the config is for check() to tell.
  return read_launch(environment_of(environ), flags_of(resolve(line.config).values.parallel));
}

LaunchedProcess unmet_process(const Launch& launch, const CommandLine& line, AppContext& context) {
  LaunchedProcess process{.launcher = launcher_name(launch.launcher),
                          .rank = launch.rank,
                          .ranks = launch.world_size,
                          .machine = {launch.local_rank, launch.num_nodes > 0 ? launch.local_world_size : 0},
                          .cores = {launch.local_rank, launch.local_world_size},
                          .notes = launch.notes};
  process.threads = threads_of_user(environment_of(environ), process.notes);
  CommandLine adapted = line;
  adapted.output = folder_of_launch(launch, line);
  process.find_place = [adapted, &context] { return find_run_place(adapted, context); };
  return process;
}

JoinedRanks::JoinedRanks(Launch launch, const CommandLine& line, AppContext& context)
    : launch_(std::move(launch)), line_(line), context_(context) {
  // What is wrong with the config by itself ends every rank at once, before it waits for others.
  const CheckedConfig config = check(line.config, nullptr);
  timeout_ = std::chrono::milliseconds(static_cast<int64_t>(config.values().parallel.timeout * 1000));
  (void)folder_of_launch(launch_, line_);
  if (!first()) context_.log.only_errors();  // the first rank speaks for all
  context_.log.info(launch_text(launch_));
  store_ = join_rendezvous(launch_,
                           {.timeout = timeout_, .warn = [&](std::string_view text) { context_.log.warning(text); }});
  const ProcessCard own = own_card(launch_.store_host);
  const auto card_key = [](int rank) { return "card/" + std::to_string(rank); };
  store_->set(card_key(launch_.rank), card_text(own));
  for (int rank = 0; rank < launch_.world_size; ++rank) cards_.push_back(parse_card(read(card_key(rank))));
  watch_ = std::make_unique<RankWatch>(
      store_->clone(), launch_.rank,
      RankWatchOptions{.timeout = timeout_,
                       .cards = cards_,
                       .holds_store = first() && !launch_.agent_store,
                       .leave = [rank = launch_.rank, &log = context_.log](const LaunchFailure& failure) {
                         log.error("rank " + std::to_string(rank) +
                                   " does not come back from its work and ends: " + failure.message);
                         log.flush();
                         std::_Exit(static_cast<int>(failure.code));
                       }});
}

JoinedRanks::~JoinedRanks() = default;

/// Waits for a key of another rank, or for the news that one has failed.
std::string JoinedRanks::read(const std::string& key) {
  const auto end = std::chrono::steady_clock::now() + timeout_;
  constexpr std::chrono::milliseconds kPause(10);
  for (;;) {
    if (store_->check({key})) return store_->get_to_str(key);
    if (watch_) {
      if (const auto failure = watch_->known_failure()) throw Error(failure->code, failure->message);
    }
    if (std::chrono::steady_clock::now() > end) {
      throw DeviceError("rank " + std::to_string(launch_.rank) + " waited " + seconds_text(timeout_) +
                        " (--timeout) for another rank's word (" + key + ")");
    }
    std::this_thread::sleep_for(kPause);
  }
}

LaunchedProcess JoinedRanks::process() {
  const PlaceAmong machine = place_on_machine(cards_, launch_.rank), cores = place_on_cores(cards_, launch_.rank);
  LaunchedProcess process{.launcher = launcher_name(launch_.launcher),
                          .rank = launch_.rank,
                          .ranks = launch_.world_size,
                          .machine = machine,
                          .cores = cores,
                          .notes = launch_.notes};
  process.threads = threads_of_user(environment_of(environ), process.notes);
  process.find_place = [this] { return find_place(); };
  return process;
}

RunPlace JoinedRanks::find_place_as_first() const {
  CommandLine line = line_;
  line.output = folder_of_launch(launch_, line_);
  if (!restarted(*store_) || line.output.empty()) return find_run_place(line, context_);
  // As if the ranks before had never been: what they saved is gone on from, and nothing of it replaced.
  line.resume = "auto";
  line.overwrite = false;
  RunPlace place = find_run_place(line, context_);
  place.notes.insert(place.notes.begin(), "torchrun restarted the ranks: goes on as with --resume auto");
  return place;
}

RunPlace JoinedRanks::find_place() {
  if (first()) {
    RunPlace place = find_place_as_first();
    const Json told = {{"folder", place.folder.string()},
                       {"checkpoint", place.checkpoint ? place.checkpoint->string() : ""},
                       {"record", place.record ? render_run_record(*place.record) : ""}};
    store_->set(kPlace, told.dump(-1, ' ', false, Json::error_handler_t::replace));
    return place;
  }
  const Json told = Json::parse(read(kPlace));
  RunPlace place;
  place.folder = told.at("folder").get<std::string>();
  if (const std::string checkpoint = told.at("checkpoint"); !checkpoint.empty()) {
    place.checkpoint = checkpoint;
    place.record = parse_run_record(told.at("record").get<std::string>(), checkpoint);
  }
  return place;
}

std::vector<std::string> JoinedRanks::agree(const Decision& decision, const std::string& fingerprint) {
  const std::string name = "rank " + std::to_string(launch_.rank);
  std::map<std::string, std::string> own = common_ground(decision.config.values());
  own["data"] = fingerprint;
  if (first()) {
    store_->set(kRun, Json(own).dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    const auto theirs = Json::parse(read(kRun)).get<std::map<std::string, std::string>>();
    std::string differences;
    for (const auto& [key, value] : theirs) {
      if (key == "data" || own[key] == value) continue;
      differences += "\n  " + key + ": " + own[key] + ", rank 0: " + value;
    }
    if (!differences.empty()) {
      throw ConfigError(
          name + " was started otherwise than rank 0; give all ranks the same config and program:" + differences);
    }
    if (own["data"] != theirs.at("data")) {
      throw DataError(name + " has other data at " + decision.dataset.path.string() +
                      " than rank 0: their fingerprints differ; give every machine the same data set");
    }
  }

  const Device& device = decision.plan.selection.devices.front();
  store_->set(device_key(launch_.rank), Json{{"label", device.label()}, {"uuid", device.uuid}}.dump());
  const bool several = count_machines(cards_) > 1;
  std::vector<std::string> labels;
  std::map<std::string, int> users;
  for (int rank = 0; rank < launch_.world_size; ++rank) {
    const Json other = Json::parse(read(device_key(rank)));
    const std::string& host = cards_[static_cast<size_t>(rank)].host;
    labels.push_back(other.at("label").get<std::string>() + (several ? " on " + host : ""));
    const std::string uuid = other.at("uuid");
    if (uuid.empty()) continue;
    if (const auto [user, is_new] = users.emplace(uuid, rank); !is_new) {
      throw ConfigError("ranks " + std::to_string(user->second) + " and " + std::to_string(rank) + " both use " + uuid +
                        " (" + labels.back() + "); give each rank of a machine a GPU of its own, such as --gpus 0,1");
    }
  }
  watch_->set_devices(labels);
  return labels;
}

c10::intrusive_ptr<c10d::ProcessGroup> JoinedRanks::make_group(const Device& device) {
  return make_process_group(c10::make_intrusive<c10d::PrefixStore>("ranks", store_->clone()), launch_.rank,
                            launch_.world_size, to_torch(device).type(), timeout_, address_for(cards_, launch_.rank));
}

void JoinedRanks::leave() {
  watch_->finish();
  leave_rendezvous(store_, launch_);
}

void JoinedRanks::end_process(const std::exception_ptr& failure) {
  const Failure own = describe_failure(failure);
  const LaunchFailure first = watch_->explain(own.code, own.message);
  std::string text = first.message;
  if (first.rank != launch_.rank) text = "rank " + std::to_string(launch_.rank) + " ends with the others: " + text;
  std::cout.flush();
  std::cerr << "mgtrain: error: " << text << std::endl;
  context_.log.flush();
  watch_->let_others_know();
  // Not by unwinding: a group's destructor may wait for a rank that no longer answers.
  std::_Exit(static_cast<int>(first.code));
}

}  // namespace mgtrain
