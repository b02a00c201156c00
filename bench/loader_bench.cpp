// The data path alone: images/s of random crop (padding 4), flip and normalise of CIFAR-shaped images, and the write
// bandwidth of one core over buffers of the same sizes, measured in turn. One JSON object a line, each one repeat;
// scripts/bench/loader.py runs it beside torchvision's DataLoader and prints the ratios.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "data/batch_source.h"
#include "data/epoch_order.h"

namespace {

using namespace mgtrain;

struct Options {
  int64_t images = 50'000, size = 32, resize = 32, crop_padding = 4, batch = 128, repeats = 1, epochs = 4;
};

// Batches that stay with the consumer, so that buffers rotate through the caches as in training with prefetch 4.
constexpr size_t kHeld = 5;

Options parse(int argc, char** argv) {
  Options options;
  const std::map<std::string, int64_t*> fields{{"--images", &options.images}, {"--size", &options.size},
                                               {"--resize", &options.resize}, {"--crop-padding", &options.crop_padding},
                                               {"--batch", &options.batch},   {"--repeats", &options.repeats},
                                               {"--epochs", &options.epochs}};
  for (int i = 1; i < argc; i += 2) {
    const auto field = fields.find(argv[i]);
    if (field == fields.end() || i + 1 == argc || (*field->second = std::atoll(argv[i + 1])) < 0) {
      std::cerr << "usage: loader_bench";
      for (const auto& [name, value] : fields) std::cerr << " [" << name << " N]";
      std::cerr << '\n';
      std::exit(2);
    }
  }
  return options;
}

ImageSet synthetic(const Options& options) {
  ImageSet set{.shape = {3, options.size, options.size}, .pixels = {}, .labels = {}, .num_classes = 10};
  set.pixels.resize(static_cast<size_t>(options.images * set.shape.size()));
  RandomStream random(0, RandomPurpose::kSyntheticImage, 0, 0);
  for (uint8_t& pixel : set.pixels) pixel = static_cast<uint8_t>(random.next_u32() >> 24);
  for (int64_t i = 0; i < options.images; ++i) set.labels.push_back(static_cast<int32_t>(i % 10));
  return set;
}

// Of this process, all its threads.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Rate {
  double wall = 0, cpu = 0;  // a second of time, a second of one core
};

template <typename Work>
Rate measure(double amount, Work&& work) {
  const SystemClock clock;
  const double began = clock.monotonic_seconds(), cpu_began = cpu_seconds();
  work();
  const double cpu = cpu_seconds() - cpu_began;
  return {amount / (clock.monotonic_seconds() - began), amount / cpu};
}

void one_epoch(BatchSource& source, const Options& options, int64_t epoch) {
  const int64_t batches = options.images / options.batch;
  source.start(epoch_order(0, epoch, options.images), std::vector<int64_t>(static_cast<size_t>(batches), options.batch),
               epoch, true);
  std::deque<Batch> held;
  while (std::optional<Batch> batch = source.next()) {
    held.push_back(std::move(*batch));
    if (held.size() > kHeld) held.pop_front();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const ImageSet set = synthetic(options);
  const Transform transform{.input = set.shape,
                            .output_height = options.resize,
                            .output_width = options.resize,
                            .crop_padding = options.crop_padding,
                            .flip = true,
                            .mean = {0.4914F, 0.4822F, 0.4465F},
                            .stddev = {0.2470F, 0.2435F, 0.2616F},
                            .format = MemoryFormat::kNhwc,
                            .seed = 0};
  std::map<int64_t, std::unique_ptr<BatchSource>> sources;
  for (const int64_t workers : {0, 1, 2}) {
    sources[workers] = std::make_unique<BatchSource>(set, transform, BatchSourceOptions{.workers = workers});
    one_epoch(*sources[workers], options, 0);  // buffers are there, the images are in memory
  }
  const auto batch_floats = static_cast<size_t>(options.batch * 3 * options.resize * options.resize);
  std::vector<std::vector<float>> buffers(kHeld + 1, std::vector<float>(batch_floats));
  const int64_t images = options.images / options.batch * options.batch * options.epochs;

  for (int64_t repeat = 0; repeat < options.repeats; ++repeat) {
    nlohmann::ordered_json line;
    for (auto& [workers, source] : sources) {
      const Rate rate = measure(static_cast<double>(images), [&] {
        for (int64_t epoch = 0; epoch < options.epochs; ++epoch) one_epoch(*source, options, epoch);
      });
      line["workers_" + std::to_string(workers)] = {{"images_per_second", rate.wall},
                                                    {"images_per_core_second", rate.cpu}};
    }
    // As many bytes as the images filled, in the same rotation: by memset, which need not read what it overwrites, and
    // by plain stores of floats, which must.
    const int64_t writes = images / options.batch;
    const auto write_bandwidth = [&](auto&& write) {
      return measure(static_cast<double>(writes) * static_cast<double>(batch_floats * sizeof(float)),
                     [&] {
                       for (int64_t i = 0; i < writes; ++i) {
                         std::vector<float>& buffer = buffers[static_cast<size_t>(i) % buffers.size()];
                         write(buffer, i);
                         asm volatile("" : : "r"(buffer.data()) : "memory");  // the compiler may not leave it out
                       }
                     })
          .cpu;
    };
    line["bytes_per_image"] = batch_floats * sizeof(float) / static_cast<size_t>(options.batch);
    line["memset_bytes_per_core_second"] = write_bandwidth([](std::vector<float>& buffer, int64_t i) {
      std::memset(buffer.data(), static_cast<int>(i), buffer.size() * sizeof(float));
    });
    line["store_bytes_per_core_second"] = write_bandwidth([](std::vector<float>& buffer, int64_t i) {
      std::fill(buffer.begin(), buffer.end(), 0.1F * static_cast<float>(i));
    });
    std::cout << line.dump() << std::endl;
  }
  return 0;
}
