#include "checkpoint/checksum.h"

#include <xxhash.h>

#include <new>

namespace mgtrain {

struct Xxh3::State {
  XXH3_state_t* stream = XXH3_createState();
  ~State() { XXH3_freeState(stream); }
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {
  if (state_->stream == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_->stream);
}

Xxh3::~Xxh3() = default;

void Xxh3::update(std::span<const std::byte> bytes) {
  // An empty span may have no address, and XXH3 wants one.
  if (!bytes.empty()) XXH3_128bits_update(state_->stream, bytes.data(), bytes.size());
}

void Xxh3::update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }

std::string Xxh3::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->stream));
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace mgtrain
