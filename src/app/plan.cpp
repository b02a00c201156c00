// `mgtrain plan`, also `train --dry-run`: everything train would decide, and the exit code it would start with.
#include <ostream>

#include "app/commands.h"
#include "app/decide.h"

namespace mgtrain {

ExitCode run_plan(const CommandLine& line, AppContext& context) {
  const Decision decision = decide(line, context);
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
