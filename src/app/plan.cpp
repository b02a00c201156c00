// `mgtrain plan`, also `train --dry-run`: everything train would decide, and the exit code it would start with.
#include <ostream>

#include "app/commands.h"
#include "app/decide.h"
#include "app/joined_ranks.h"
#include "data/sources.h"

namespace mgtrain {

ExitCode run_plan(const CommandLine& line, AppContext& context) {
  const std::optional<Launch> launch = find_launch(line);
  std::optional<LaunchedProcess> process;
  if (launch) process = unmet_process(*launch, line, context);
  const Decision decision = decide(line, context, process ? &*process : nullptr);
  // A fault in the data behind their headers would end a run before its first step, so plan ends with it too.
  if (decision.dataset.format != "synthetic") {
    const LoadedData data = load_dataset(decision.config.values().data, decision.dataset, decision.plan.seed);
    if (decision.place.record) {
      check_resume(*decision.place.record, decision.config.values(), decision.plan, line.resume_changes_allow,
                   data.fingerprint);
    }
  }
  for (const std::string& warning : decision.warnings) context.log.warning(warning);
  for (const std::string& note : decision.notes) context.log.info(note);
  if (line.json) {
    nlohmann::ordered_json json = plan_to_json(decision.plan);
    json["config_warnings"] = decision.warnings;
    context.out << json.dump(2) << '\n';
  } else {
    context.out << render_plan(decision.plan, decision.config);
  }
  return ExitCode::kDone;
}

}  // namespace mgtrain
