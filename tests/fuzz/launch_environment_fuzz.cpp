// A launcher's variables, a line each ("RANK=1"), with --rdzv, --rank and --world as lines of their own ("--rank=1");
// and the whole text as SLURM's lists of hosts and of counts.
#include "comm/launch_environment.h"

#include "base/error.h"
#include "comm/host_list.h"
#include "comm/launch_variables.h"
#include "fuzz/fuzz.h"

using namespace mgtrain;

namespace {

void read_launch_of(std::string_view text) {
  Environment environment;
  LaunchFlags flags;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (const size_t equals = line.find('='); equals != std::string_view::npos) {
      const std::string name(line.substr(0, equals)), value(line.substr(equals + 1));
      if (name == "--rdzv") flags.rdzv = value;
      if (name == "--rank") flags.rank = read_integer(value).value_or(-1);
      if (name == "--world") flags.world = read_integer(value).value_or(-1);
      environment[name] = value;
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  const std::optional<Launch> launch = read_launch(environment, flags);
  if (!launch) return;
  fuzz::demand(launch->world_size >= 1 && launch->rank >= 0 && launch->rank < launch->world_size,
               "a rank is one of the world's");
  fuzz::demand(
      launch->local_world_size >= 1 && launch->local_rank >= 0 && launch->local_rank < launch->local_world_size,
      "a local rank is one of the machine's");
  fuzz::demand(!launch->store_host.empty() && launch->store_port != 0, "the ranks have a place to meet");
  fuzz::touch(std::string_view(launch_text(*launch) + address_text(launch->store_host, launch->store_port)));
  fuzz::touch(std::string_view(launch->run_id));
  fuzz::touch(launch->notes);
}

/// Whether brackets hold a number of more than four digits: such a range may name a million hosts, in its time.
bool is_slow(std::string_view text) {
  size_t digits = 0;
  bool inside = false;
  for (const char c : text) {
    if (c == '[') inside = true;
    if (c == ']') inside = false;
    digits = inside && c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > 4) return true;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = fuzz::text_of(data, size);
  if (is_slow(text)) return 0;
  const auto attempt = [](const auto& step) {
    try {
      step();
    } catch (const ConfigError& error) {
      fuzz::touch(std::string_view(error.what()));
    }
  };
  attempt([&] { read_launch_of(text); });
  attempt([&] { fuzz::touch(expand_host_list(text)); });
  attempt([&] {
    for (const int count : expand_counts(text)) fuzz::demand(count >= 0, "a count is a number");
  });
  return 0;
}
