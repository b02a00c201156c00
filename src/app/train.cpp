// `mgtrain train`, in the order of docs/architecture.md's flow: decide -> folder -> data -> ranks, each with model,
// strategy, optimizer and loop (train_rank) -> the end.
#include <ATen/Context.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/decide.h"
#include "app/failure.h"
#include "app/joined_ranks.h"
#include "app/run_records.h"
#include "app/train_rank.h"
#include "comm/process_groups.h"
#include "comm/rank_team.h"
#include "data/sources.h"
#include "devices/torch_device.h"
#include "engine/assertions.h"
#include "observe/console.h"
#include "observe/past_evals.h"

namespace mgtrain {
namespace {

using Path = std::filesystem::path;

/// How long ranks may take to end after one has failed.
constexpr std::chrono::seconds kGrace(25);

/// Settings of LibTorch that hold for the whole process.
void set_numerics(const TrainConfig& train) {
  at::globalContext().setDeterministicAlgorithms(train.deterministic, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(train.deterministic);
  // Trying out algorithms pays for a fixed shape, and may choose another one in each run.
  at::globalContext().setBenchmarkCuDNN(!train.deterministic);
  if (train.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

/// "A finished run resumed": its results again, and nothing touched.
ExitCode tell_finished(const Decision& decision, AppContext& context) {
  const RunRecord& record = *decision.place.record;
  const Path folder = decision.place.from.empty() ? decision.place.folder : decision.place.from;
  const auto length = record.file_lengths.find("metrics.jsonl");
  const PastEvals past =
      past_evals(context.files, folder / "metrics.jsonl", length == record.file_lengths.end() ? 0 : length->second);
  EndReport report{.reason = "done", .step = record.state.step, .last_eval = past.last, .best_eval = past.best};
  report.failed_asserts = failed_assertions(decision.config.values().train.asserts, past.last);
  if (!report.failed_asserts.empty()) report.exit_code = static_cast<int>(ExitCode::kAssertionFailed);
  context.log.info("the run is finished: nothing to do");
  context.out << last_line(report, folder.string()) << std::endl;
  return static_cast<ExitCode>(report.exit_code);
}

[[noreturn]] void end_despite_stuck_ranks(const std::exception_ptr& cause, const std::vector<int>& ranks, Log& log) {
  const Failure failure = describe_failure(cause);
  log.error(ranks_text(ranks) + " did not end after: " + failure.message + "; the process ends without them");
  log.flush();
  std::_Exit(static_cast<int>(failure.code));
}

/// Rethrows the current exception with what it does not know of itself: which rank, on what, and how far it was.
[[noreturn]] void rethrow_of_rank(const TrainJob& job, size_t rank, const TrainRank* own) {
  try {
    throw;
  } catch (const PeerFailed&) {
    throw;  // names the one that failed
  } catch (...) {
    const Failure failure = describe_failure(std::current_exception());
    const std::string when =
        own == nullptr ? ", at its start: " : ", after step " + std::to_string(own->trainer().state().step) + ": ";
    throw Error(failure.code, "rank " + std::to_string(rank) + " (" + job.devices[rank] + ")" + when + failure.message);
  }
}

/// Makes and runs one rank, in its thread. `own` outlives a failure: it knows how far the run has come.
TrainOutcome train_rank(const TrainJob& job, size_t rank, size_t device,
                        const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::unique_ptr<TrainRank>& own) {
  try {
    own = std::make_unique<TrainRank>(job, device, group);
    return own->train();
  } catch (...) {
    rethrow_of_rank(job, rank, own.get());
  }
}

/// Trains with the ranks of this process: one in the calling thread, or one a device in threads of their own.
TrainOutcome train_ranks(const TrainJob& job, JoinedRanks* joined, std::vector<std::unique_ptr<TrainRank>>& ranks) {
  const RunPlan& plan = job.decision.plan;
  if (joined != nullptr) {
    const auto group = joined->make_group(plan.selection.devices.front());
    return train_rank(job, static_cast<size_t>(plan.launch.rank), 0, group, ranks.emplace_back());
  }
  if (plan.strategy != StrategyKind::kRanks) {
    ranks.push_back(std::make_unique<TrainRank>(job, 0, nullptr));
    return ranks.front()->train();
  }
  TrainOutcome outcome;
  ranks.resize(plan.selection.devices.size());
  const std::chrono::duration<double> timeout(job.decision.config.values().parallel.timeout);
  const auto world = make_in_process_world(static_cast<int>(ranks.size()),
                                           std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
  run_ranks(
      *world->comm(),
      [&](int rank) {
        const auto at = static_cast<size_t>(rank);
        const auto group = world->process_group(rank, to_torch(plan.selection.devices[at]).type());
        const TrainOutcome ended = train_rank(job, at, at, group, ranks[at]);
        if (rank == 0) outcome = ended;
      },
      kGrace, [&](const auto& cause, const auto& stuck) { end_despite_stuck_ranks(cause, stuck, job.context.log); });
  return outcome;
}

std::vector<std::string> labels_of(const std::vector<Device>& devices) {
  std::vector<std::string> labels;
  for (const Device& device : devices) labels.push_back(device.label());
  return labels;
}

/// How the run ends for a rank that is not the first: as for that one, which tells it.
int end_of_others(TrainRank& rank, const TrainConfig& config, int exit_code) {
  if (exit_code != 0) return exit_code;
  const bool failed = !failed_assertions(config.asserts, rank.trainer().last_eval()).empty();
  return static_cast<int>(failed ? ExitCode::kAssertionFailed : ExitCode::kDone);
}

Decision decide_here(const CommandLine& line, AppContext& context, JoinedRanks* joined) {
  if (joined == nullptr) return decide(line, context);
  const LaunchedProcess process = joined->process();
  return decide(line, context, &process);
}

/// `joined`: where this process is one rank among others; the first one has the run's files.
ExitCode train(const CommandLine& line, AppContext& context, JoinedRanks* joined) {
  const double started = context.clock.monotonic_seconds();
  const Decision decision = decide_here(line, context, joined);
  const bool first_process = joined == nullptr || joined->first();
  const RunConfig& config = decision.config.values();
  const RunPlan& plan = decision.plan;
  if (decision.place.record && nothing_to_do(*decision.place.record, plan))
    return first_process ? tell_finished(decision, context) : ExitCode::kDone;
  set_numerics(config.train);

  Path folder;
  if (first_process) {
    folder = claim_run_folder(decision.place, plan.model.name, context);
    context.log.add_file(folder / "log.txt");
    write_run_records(decision, line, folder, context.files);
  }

  LoadedData data = load_dataset(config.data, decision.dataset, plan.seed);
  if (decision.place.record)
    check_resume(*decision.place.record, config, plan, line.resume_changes_allow, data.fingerprint);
  const InputFormat input = input_format(config.data, decision.dataset, data.stats);
  TrainJob job{.decision = decision,
               .line = line,
               .context = context,
               .folder = folder,
               .data = std::move(data),
               .input = input,
               .devices = labels_of(plan.selection.devices)};
  if (joined != nullptr) {
    job.devices = joined->agree(decision, job.data.fingerprint);
    job.on_finished = [joined](int64_t step) { joined->watch().at_step(step); };
  }

  std::vector<std::unique_ptr<TrainRank>> ranks;
  EndReport end;
  std::exception_ptr failure;
  try {
    const TrainOutcome outcome = train_ranks(job, joined, ranks);
    end.reason = outcome.reason;
    end.exit_code = static_cast<int>(outcome.exit_code);
  } catch (...) {
    failure = std::current_exception();
    Failure described = describe_failure(failure);
    if (joined != nullptr) {  // another rank's end may be the cause
      const LaunchFailure cause = joined->watch().explain(described.code, described.message);
      described = {cause.code, cause.message};
    }
    end.reason = "error: " + described.message;
    end.exit_code = static_cast<int>(described.code);
  }
  TrainRank* first = ranks.empty() ? nullptr : ranks.front().get();
  if (first == nullptr) std::rethrow_exception(failure);  // nothing of the run has begun
  if (!first_process) {
    if (failure) std::rethrow_exception(failure);
    return static_cast<ExitCode>(end_of_others(*first, config.train, end.exit_code));
  }
  const Trainer* trainer = &first->trainer();
  RunObservers* observers = first->observers();
  end.step = trainer->state().step;
  end.epoch = trainer->state().epoch;
  end.samples_seen = trainer->state().samples_seen;
  end.seconds = context.clock.monotonic_seconds() - started;
  end.last_eval = trainer->last_eval() ? trainer->last_eval() : observers->past().last;
  end.best_eval = trainer->best_eval() ? trainer->best_eval() : observers->past().best;
  end.scaling = trainer->scaling();
  end.mean_images_per_second = trainer->mean_images_per_second();
  if (end.exit_code == 0) {
    end.failed_asserts = failed_assertions(config.train.asserts, end.last_eval);
    if (!end.failed_asserts.empty()) end.exit_code = static_cast<int>(ExitCode::kAssertionFailed);
  }
  const std::exception_ptr unwritten = observers->end(end);
  if (failure) std::rethrow_exception(failure);
  if (unwritten) std::rethrow_exception(unwritten);
  for (const std::string& failed : end.failed_asserts) context.log.error("assertion failed: " + failed);
  return static_cast<ExitCode>(end.exit_code);
}

}  // namespace

ExitCode run_train(const CommandLine& line, AppContext& context) {
  const std::optional<Launch> launch = find_launch(line);
  if (!launch) return train(line, context, nullptr);
  JoinedRanks joined(*launch, line, context);
  try {
    const ExitCode code = train(line, context, &joined);
    joined.leave();
    return code;
  } catch (...) {
    joined.end_process(std::current_exception());
  }
}

}  // namespace mgtrain
