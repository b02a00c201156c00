// A child process that does nothing, to be stopped and killed by tests of what others notice of it.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "comm/process_card.h"

namespace mgtrain::test {

class SleepingProcess {
 public:
  SleepingProcess() : process_(fork()) {
    if (process_ < 0) throw std::runtime_error("no child process");
    if (process_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  ~SleepingProcess() {
    send(SIGKILL);
    reap();
  }
  SleepingProcess(const SleepingProcess&) = delete;
  SleepingProcess& operator=(const SleepingProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return process_; }
  void send(int signal) const {
    if (process_ > 0) kill(process_, signal);
  }
  /// Until then a killed child is a zombie.
  void reap() {
    if (process_ > 0) waitpid(process_, nullptr, 0);
    process_ = -1;
  }

  /// The card it would have as a rank of this machine.
  [[nodiscard]] ProcessCard card() const {
    ProcessCard card = own_card("127.0.0.1");
    card.pid = process_;
    std::ifstream stat("/proc/" + std::to_string(process_) + "/stat");
    std::string line, field;
    std::getline(stat, line);
    std::istringstream rest(line.substr(line.rfind(')') + 1));
    constexpr int kFromStateToStart = 20;  // fields 3 to 22
    for (int i = 0; i < kFromStateToStart; ++i) rest >> field;
    card.started = std::stoull(field);
    return card;
  }

 private:
  pid_t process_;
};

}  // namespace mgtrain::test
