// A folder with tiny data in it, and the flags of a run over them that takes a second or two.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "end_to_end/run_files.h"
#include "support/program.h"
#include "support/temporary_folder.h"
#include "support/tiny_data.h"

namespace mgtrain::test {

class Scene {
 public:
  /// 100 training images: 7 updates of 16 an epoch, the last of 4.
  explicit Scene(uint32_t num_train = 100, uint32_t num_val = 42) {
    write_tiny_data(folder_.path() / "data", num_train, num_val);
  }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  [[nodiscard]] std::filesystem::path run(const std::string& name) const { return folder_.path() / name; }

  /// mgtrain's arguments: the tiny run into `output`, and `more`, which wins.
  [[nodiscard]] std::vector<std::string> arguments(const std::string& output,
                                                   std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"--data",      "data",
                                    "--width",     "2",
                                    "--batch",     "16",
                                    "--epochs",    "3",
                                    "--lr",        "0.05",
                                    "--log-every", "1",
                                    "--gpus",      "cpu",
                                    "--set",       "data.crop_padding=1",
                                    "--set",       "output.tensorboard=false",
                                    "--output",    output};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  [[nodiscard]] ProgramResult train(const std::string& output, std::vector<std::string> more = {},
                                    ProgramOptions options = {}) const {
    options.folder = folder();
    return mgtrain_program(arguments(output, std::move(more)), std::move(options));
  }
  [[nodiscard]] ProgramResult mgtrain(std::vector<std::string> arguments, ProgramOptions options = {}) const {
    options.folder = folder();
    return mgtrain_program(std::move(arguments), std::move(options));
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace mgtrain::test
