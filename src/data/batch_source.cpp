#include "data/batch_source.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"

namespace mgtrain {
namespace {

// Workers share a batch in pieces of this many samples: small enough that the first batch is there soon, large enough
// that taking one costs nothing.
constexpr int64_t kPiece = 32;

// Bytes of the next image that are brought into the cache while this one is transformed.
constexpr int64_t kFetchAhead = 16 << 10;

// Image tensors that are used again once nobody else holds them. A new tensor costs a page fault for every 4 KiB
// written, as much time as the writing itself. Consumer thread only.
class BufferPool {
 public:
  BufferPool(const Transform& transform, const BatchSourceOptions& options)
      : shape_{0, transform.input.channels, transform.output_height, transform.output_width},
        format_(transform.format == MemoryFormat::kNhwc ? at::MemoryFormat::ChannelsLast
                                                        : at::MemoryFormat::Contiguous),
        options_(at::TensorOptions()
                     .dtype(options.float64 ? at::kDouble : at::kFloat)
                     .pinned_memory(options.pin_memory && at::hasCUDA())),
        keep_(std::max<int64_t>(options.prefetch, 1) + 2) {}

  at::Tensor take(int64_t count) {
    // LibTorch's allocator of pinned memory keeps its own free blocks, and alone knows when a copy to a device has
    // read one to the end.
    if (options_.pinned_memory()) return allocate(count);
    const auto fits = [&](const at::Tensor& buffer) { return buffer.size(0) == count && is_free(buffer); };
    const auto found = std::find_if(buffers_.begin(), buffers_.end(), fits);
    if (found != buffers_.end()) return *found;
    if (static_cast<int64_t>(buffers_.size()) >= keep_) std::erase_if(buffers_, is_free);
    return buffers_.emplace_back(allocate(count));
  }

  [[nodiscard]] int64_t allocated() const { return allocated_; }

 private:
  static bool is_free(const at::Tensor& buffer) { return buffer.use_count() == 1 && buffer.storage().use_count() == 1; }

  at::Tensor allocate(int64_t count) {
    ++allocated_;
    shape_[0] = count;
    const c10::InferenceMode off(false);  // a caller's must not mark a tensor that training gets later
    return at::empty(shape_, options_.memory_format(format_));
  }

  std::vector<int64_t> shape_;
  at::MemoryFormat format_;
  at::TensorOptions options_;
  int64_t keep_;
  std::vector<at::Tensor> buffers_;
  int64_t allocated_ = 0;
};

}  // namespace

// Batches `taken` to `opened` of the epoch stand in a ring of slots, `prefetch` at most: their tensors are allocated,
// and workers fill them piece by piece in order. The consumer takes the first once all its pieces are done, and opens
// one more. Workers touch raw memory only, never a tensor.
struct BatchSource::State {
  struct Slot {
    at::Tensor images, labels;
    void* pixels = nullptr;
    int64_t* classes = nullptr;
    int64_t first = 0, count = 0;     // samples order[first, first + count)
    int64_t given = 0, finished = 0;  // samples handed to workers, samples done
    std::exception_ptr error;
    int64_t error_at = 0;  // the first sample of the piece that failed
  };

  State(const ImageSet& image_set, Transform transform, BatchSourceOptions source_options)
      : images(image_set),
        options(source_options),
        transformer(std::move(transform)),
        pool(transformer.transform(), options),
        slots(static_cast<size_t>(std::max<int64_t>(options.workers > 0 ? options.prefetch : 1, 1))) {
    if (images.count() > 0 && transformer.transform().input != images.shape)
      throw std::invalid_argument("the transform is for images of another shape than the set's");
    label_options = at::TensorOptions().dtype(at::kLong).pinned_memory(options.pin_memory && at::hasCUDA());
    workers.reserve(static_cast<size_t>(options.workers));
    for (int64_t worker = 0; worker < options.workers; ++worker) {
      try {
        workers.emplace_back([this] { work(); });
      } catch (const std::system_error& error) {
        stop();
        throw ConfigError("data.workers: thread " + std::to_string(worker + 1) + " of " +
                          std::to_string(options.workers) + " cannot be started (" + error.what() +
                          "); use fewer --workers, or raise the limit on processes (ulimit -u)");
      }
    }
  }

  ~State() { stop(); }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    work_there.notify_all();
    for (std::thread& worker : workers) worker.join();
    workers.clear();
  }

  Slot& slot(int64_t batch) { return slots[static_cast<size_t>(batch) % slots.size()]; }

  // Whether a worker has something to do; `filling` is the first batch with pieces left to hand out.
  bool find_work() {
    while (filling < opened && slot(filling).given == slot(filling).count) ++filling;
    return filling < opened;
  }

  void open_batches() {
    while (opened < num_batches() && opened - taken < static_cast<int64_t>(slots.size())) {
      Slot fresh;
      fresh.first = next_sample;
      fresh.count = sizes[static_cast<size_t>(opened)];
      fresh.images = pool.take(fresh.count);
      fresh.labels = at::empty({fresh.count}, label_options);
      fresh.pixels = fresh.images.mutable_data_ptr();
      fresh.classes = fresh.labels.mutable_data_ptr<int64_t>();
      next_sample += fresh.count;
      const std::lock_guard lock(mutex);
      slot(opened++) = std::move(fresh);
    }
    work_there.notify_all();
  }

  void work() {
    Scratch scratch;
    std::unique_lock lock(mutex);
    for (;;) {
      work_there.wait(lock, [this] { return stopping || find_work(); });
      if (stopping) return;
      do_piece(lock, scratch);
    }
  }

  struct Scratch {
    ResizeScratch resize;
    std::vector<float> image;
  };

  // Fills one piece of batch `filling`, without the lock meanwhile.
  void do_piece(std::unique_lock<std::mutex>& lock, Scratch& scratch) {
    Slot& mine = slot(filling);
    const int64_t begin = mine.given, end = std::min(mine.count, begin + kPiece);
    mine.given = end;
    ++busy;
    lock.unlock();
    std::exception_ptr error;
    try {
      for (int64_t at = begin; at < end; ++at) {
        if (at + 1 < end) fetch_ahead(order[static_cast<size_t>(mine.first + at + 1)]);
        fill(mine, at, scratch);
      }
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --busy;
    mine.finished += end - begin;
    if (error && (!mine.error || begin < mine.error_at)) {
      mine.error = error;
      mine.error_at = begin;
    }
    if (mine.finished == mine.count) most_ready = std::max(most_ready, count_ready());
    if (mine.finished == mine.count || busy == 0) piece_done.notify_one();
  }

  // Samples come in random order, so that the hardware cannot guess where the next image lies. Always inline: GCC drops
  // calls of a function that does nothing but prefetch, as one without effect.
  [[gnu::always_inline]] inline void fetch_ahead(int64_t sample) const {
    const int64_t size = images.shape.size(), begin = sample * size;
    const int64_t end = std::min({begin + size, begin + kFetchAhead, static_cast<int64_t>(images.pixels.size())});
    for (int64_t at = begin; at < end; at += 64) __builtin_prefetch(images.pixels.data() + at);
  }

  void fill(const Slot& slot, int64_t at, Scratch& scratch) const {
    const int64_t sample = order[static_cast<size_t>(slot.first + at)], size = transformer.output_size();
    if ((sample + 1) * images.shape.size() > static_cast<int64_t>(images.pixels.size())) {
      throw DataError("image " + std::to_string(sample) + " is not there: the set has " +
                      std::to_string(images.pixels.size()) + " bytes of pixels, " +
                      std::to_string(images.shape.size()) + " an image, for " + std::to_string(images.count()) +
                      " labels");
    }
    slot.classes[at] = images.labels[static_cast<size_t>(sample)];
    if (!options.float64) {
      transformer.apply(images.image(sample), epoch, sample, augment, static_cast<float*>(slot.pixels) + at * size,
                        scratch.resize);
      return;
    }
    scratch.image.resize(static_cast<size_t>(size));
    transformer.apply(images.image(sample), epoch, sample, augment, scratch.image.data(), scratch.resize);
    std::copy(scratch.image.begin(), scratch.image.end(), static_cast<double*>(slot.pixels) + at * size);
  }

  [[nodiscard]] int64_t num_batches() const { return static_cast<int64_t>(sizes.size()); }
  [[nodiscard]] int64_t count_ready() {
    int64_t ready = 0;
    for (int64_t batch = taken; batch < opened; ++batch) ready += slot(batch).finished == slot(batch).count ? 1 : 0;
    return ready;
  }

  // Set before the workers start, then read only.
  const ImageSet& images;
  const BatchSourceOptions options;
  const ImageTransformer transformer;
  at::TensorOptions label_options;

  // The consumer's.
  BufferPool pool;
  int64_t next_sample = 0;  // of order, to be opened next
  double wait_seconds = 0;

  // The epoch: written by the consumer while no worker is busy and none can find work.
  std::vector<int64_t> order, sizes;
  int64_t epoch = 0;
  bool augment = false;

  std::mutex mutex;  // guards what follows, and the counts in slots
  std::condition_variable work_there, piece_done;
  std::vector<Slot> slots;
  int64_t taken = 0, opened = 0, filling = 0;  // batches of the epoch
  int64_t busy = 0;                            // workers filling a piece
  int64_t most_ready = 0;
  bool stopping = false;
  std::vector<std::thread> workers;
};

BatchSource::BatchSource(const ImageSet& images, Transform transform, BatchSourceOptions options)
    : state_(std::make_unique<State>(images, std::move(transform), options)) {}

BatchSource::~BatchSource() = default;

void BatchSource::start(std::vector<int64_t> order, std::vector<int64_t> batch_sizes, int64_t epoch, bool augment) {
  State& s = *state_;
  int64_t sum = 0;
  for (const int64_t size : batch_sizes) {
    if (size < 1) throw std::invalid_argument("a batch of " + std::to_string(size) + " samples; each needs 1 or more");
    sum += size;
  }
  if (sum > static_cast<int64_t>(order.size())) {
    throw std::invalid_argument("batches of " + std::to_string(sum) + " samples together; the order has " +
                                std::to_string(order.size()));
  }
  for (const int64_t sample : order) {
    if (sample < 0 || sample >= s.images.count()) {
      throw std::invalid_argument("sample " + std::to_string(sample) + " of a set of " +
                                  std::to_string(s.images.count()));
    }
  }
  {
    std::unique_lock lock(s.mutex);
    s.filling = s.opened;  // what is not yet begun never will be
    s.piece_done.wait(lock, [&] { return s.busy == 0; });
    for (State::Slot& slot : s.slots) slot = {};
    s.taken = s.opened = s.filling = 0;
  }
  s.next_sample = 0;
  s.order = std::move(order);
  s.sizes = std::move(batch_sizes);
  s.epoch = epoch;
  s.augment = augment;
  if (s.options.workers > 0) s.open_batches();
}

std::optional<Batch> BatchSource::next() {
  State& s = *state_;
  if (s.taken == s.num_batches()) return std::nullopt;
  if (s.options.workers == 0) s.open_batches();
  State::Slot& slot = s.slot(s.taken);
  Batch batch;
  {
    const auto began = std::chrono::steady_clock::now();
    std::unique_lock lock(s.mutex);
    if (s.options.workers == 0) {
      State::Scratch scratch;
      while (s.find_work()) s.do_piece(lock, scratch);
    }
    s.piece_done.wait(lock, [&] { return slot.finished == slot.count; });
    s.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (slot.error) std::rethrow_exception(slot.error);
    const auto first = s.order.begin() + slot.first;
    batch = {
        .images = std::move(slot.images), .labels = std::move(slot.labels), .samples = {first, first + slot.count}};
    ++s.taken;
  }
  if (s.options.workers > 0) s.open_batches();
  return batch;
}

double BatchSource::take_wait_seconds() { return std::exchange(state_->wait_seconds, 0.0); }

BatchSourceStats BatchSource::stats() const {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  return {.ready = s.count_ready(), .most_ready = s.most_ready, .buffers = s.pool.allocated()};
}

}  // namespace mgtrain
