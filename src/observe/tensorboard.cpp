#include "observe/tensorboard.h"

#include <unistd.h>

#include <array>
#include <vector>

#include "observe/tfrecord.h"

namespace mgtrain {

std::string event_file_name(double unix_seconds) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {'l', 'o', 'c', 'a', 'l'};
  return "events.out.tfevents." + std::to_string(static_cast<int64_t>(unix_seconds)) + "." + host.data() + "." +
         std::to_string(getpid()) + ".0";
}

TensorBoardWriter::TensorBoardWriter(FileSystem& files, const std::filesystem::path& folder, const std::string& name,
                                     std::optional<uint64_t> keep, const Clock& clock)
    : file_(files, folder / name, keep), clock_(clock) {
  if (file_.length() == 0) file_.write(tf_record(file_version_event(clock_.unix_seconds())));
}

void TensorBoardWriter::on_step(const StepReport& report) {
  std::vector<Scalar> scalars = {{"train/loss", report.loss},
                                 {"train/top1", report.top1},
                                 {"train/lr", report.learning_rate},
                                 {"throughput/images_per_second", report.images_per_second}};
  if (report.grad_norm) scalars.push_back({"grad_norm", *report.grad_norm});
  file_.write(tf_record(scalars_event(clock_.unix_seconds(), report.step, scalars)));
}

void TensorBoardWriter::on_eval(const EvalReport& report) {
  const std::array<Scalar, 3> scalars = {
      {{"val/loss", report.loss}, {"val/top1", report.top1}, {"val/top5", report.top5}}};
  file_.write(tf_record(scalars_event(clock_.unix_seconds(), report.step, scalars)));
}

void TensorBoardWriter::on_end(const EndReport&) { file_.sync(); }

}  // namespace mgtrain
