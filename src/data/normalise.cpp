#include "data/normalise.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mgtrain {

PixelNormaliser::PixelNormaliser(int64_t channels, std::span<const float> mean, std::span<const float> stddev)
    : channels_(channels) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t value = 0; value < kValues; ++value) {
      float normalised = static_cast<float>(value) / 255.0F;
      if (!mean.empty()) {
        normalised -= mean[static_cast<size_t>(c)];
        normalised /= stddev[static_cast<size_t>(c)];
      }
      table_.push_back(normalised);
    }
    black_.push_back(table_[static_cast<size_t>(c * kValues)]);
  }
  if (channels != 1 && channels != 3) return;
  for (int64_t i = 0; i < kBlock; ++i) {
    const auto c = static_cast<size_t>(i % channels);
    mean_.push_back(mean.empty() ? 0.0F : mean[c]);
    stddev_.push_back(stddev.empty() ? 1.0F : stddev[c]);
    inverse_.push_back(1.0F / stddev_.back());
  }
  if (!computes_the_table()) mean_.clear();
}

template <int kChannels>
void PixelNormaliser::look_up(const PixelRows& rows) const {
  const int64_t channels = kChannels > 0 ? kChannels : channels_;
  const float* table = table_.data();
  for (int64_t y = 0; y < rows.rows; ++y) {
    const uint8_t* pixel = rows.in + y * rows.in_stride + (rows.flip ? (rows.pixels - 1) * channels : 0);
    float* __restrict out = rows.out + y * rows.out_stride;
    for (int64_t x = 0; x < rows.pixels; ++x, pixel += rows.flip ? -channels : channels, out += channels)
      for (int64_t c = 0; c < channels; ++c) out[c] = table[c * kValues + pixel[c]];
  }
}

void PixelNormaliser::planar(const PixelRows& rows, int64_t channel) const {
  if (channels_ == 1) return interleaved(rows);
  const float* table = table_.data() + channel * kValues;
  const int64_t step = rows.flip ? -channels_ : channels_;
  for (int64_t y = 0; y < rows.rows; ++y) {
    const uint8_t* pixel = rows.in + y * rows.in_stride + channel + (rows.flip ? (rows.pixels - 1) * channels_ : 0);
    float* __restrict out = rows.out + y * rows.out_stride;
    for (int64_t x = 0; x < rows.pixels; ++x, pixel += step) out[x] = table[*pixel];
  }
}

#if defined(__x86_64__)
// A quotient by its reciprocal is off by a rounding; its remainder, which FMA gives exactly, puts that right
// (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990).
[[gnu::target("avx2,fma"), gnu::always_inline]] static inline __m256 divided(__m256 value, __m256 by, __m256 inverse) {
  const __m256 quotient = _mm256_mul_ps(value, inverse);
  return _mm256_fmadd_ps(_mm256_fnmadd_ps(quotient, by, value), inverse, quotient);
}

// Eight bytes of the block at `in`, of its end first if kFlip (pixels of three channels, or of one).
template <bool kFlip>
[[gnu::target("avx2,fma"), gnu::always_inline]] static inline __m128i eight_bytes(const uint8_t* in, int part,
                                                                                  bool three) {
  if constexpr (!kFlip) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + 8 * part));
  const __m128i one_channel = _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, -1, -1, -1, -1, -1, -1, -1, -1);
  if (!three) {
    return _mm_shuffle_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + 8 * (2 - part))), one_channel);
  }
  // Bytes 21 22 23 18 19 20 15 16 | 17 12 13 14 9 10 11 6 | 7 8 3 4 5 0 1 2 of the block, from loads at 8, 4 and 0.
  const __m128i orders[3] = {_mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, -1, -1, -1, -1, -1, -1, -1, -1),
                             _mm_setr_epi8(13, 8, 9, 10, 5, 6, 7, 2, -1, -1, -1, -1, -1, -1, -1, -1),
                             _mm_setr_epi8(7, 8, 3, 4, 5, 0, 1, 2, -1, -1, -1, -1, -1, -1, -1, -1)};
  return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 4 * (2 - part))), orders[part]);
}

template <bool kFlip>
[[gnu::target("avx2,fma")]] void PixelNormaliser::compute(const PixelRows& rows) const {
  __m256 mean[3], stddev[3], inverse[3];
  for (int part = 0; part < 3; ++part) {
    mean[part] = _mm256_loadu_ps(mean_.data() + 8 * part);
    stddev[part] = _mm256_loadu_ps(stddev_.data() + 8 * part);
    inverse[part] = _mm256_loadu_ps(inverse_.data() + 8 * part);
  }
  const __m256 top = _mm256_set1_ps(255.0F), inverse_top = _mm256_set1_ps(1.0F / 255.0F);
  const bool three = channels_ == 3;
  const int64_t size = rows.pixels * channels_;
  for (int64_t y = 0; y < rows.rows; ++y) {
    const uint8_t* in = rows.in + y * rows.in_stride;
    float* out = rows.out + y * rows.out_stride;
    for (int64_t at = 0; at < size; at += kBlock) {
      // The last block overlaps the one before; both write the same there.
      const int64_t begin = at + kBlock <= size ? at : size - kBlock;
      const uint8_t* block = in + (kFlip ? size - kBlock - begin : begin);
      for (int part = 0; part < 3; ++part) {
        const __m256 pixel = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight_bytes<kFlip>(block, part, three)));
        const __m256 centred = _mm256_sub_ps(divided(pixel, top, inverse_top), mean[part]);
        _mm256_storeu_ps(out + begin + 8 * part, divided(centred, stddev[part], inverse[part]));
      }
    }
  }
}
#else
template <bool kFlip>
void PixelNormaliser::compute(const PixelRows&) const {}
#endif

// Every value of every channel: what is found equal here is equal for every image.
bool PixelNormaliser::computes_the_table() const {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return false;
  std::vector<uint8_t> in;
  std::vector<float> wanted;
  for (int64_t value = 0; value < kValues; ++value) {
    for (int64_t c = 0; c < channels_; ++c) {
      in.push_back(static_cast<uint8_t>(value));
      wanted.push_back(table_[static_cast<size_t>(c * kValues + value)]);
    }
  }
  std::vector<float> out(wanted.size());
  compute<false>({.in = in.data(), .out = out.data(), .rows = 1, .pixels = kValues});
  return std::memcmp(out.data(), wanted.data(), out.size() * sizeof(float)) == 0;
#else
  return false;
#endif
}

void PixelNormaliser::interleaved(const PixelRows& rows) const {
  if (!mean_.empty() && rows.pixels * channels_ >= kBlock)
    return rows.flip ? compute<true>(rows) : compute<false>(rows);
  switch (channels_) {
    case 1:
      return look_up<1>(rows);
    case 3:
      return look_up<3>(rows);
    default:
      return look_up<0>(rows);
  }
}

}  // namespace mgtrain
