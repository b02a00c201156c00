// The bytes of a TensorBoard event file, written by hand (an own libprotobuf beside LibTorch's would clash).
// Framing: TensorFlow's TFRecord, each record a little-endian u64 length, the masked CRC-32C of those 8 bytes, the
// payload, the masked CRC-32C of the payload. Payload: the Event message of tensorflow/core/util/event.proto, of
// which a scalar needs wall_time (1), step (2), file_version (3), summary (5){ value (1){ tag (1), simple_value (2) }}.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mgtrain {

/// CRC-32C (Castagnoli, as in RFC 3720): 0xe3069283 for "123456789".
uint32_t crc32c(std::string_view bytes);
/// CRC-32C rotated right by 15 bits plus a constant, so that a CRC of data holding CRCs stays meaningful.
uint32_t masked_crc32c(std::string_view bytes);
/// One framed record.
std::string tf_record(std::string_view payload);

struct Scalar {
  std::string_view tag;
  double value = 0;  // written as fp32
};

/// An Event that begins a file: file_version "brain.Event:2".
std::string file_version_event(double wall_time);
/// An Event with the given scalars; `wall_time` in seconds since 1970-01-01 UTC.
std::string scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars);

}  // namespace mgtrain
