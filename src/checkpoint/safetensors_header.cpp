#include "checkpoint/safetensors_header.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace mgtrain {

namespace {

constexpr size_t kMostTensors = 100'000;
constexpr size_t kMostMetadata = 10'000;
constexpr size_t kMostDimensions = 64;
constexpr size_t kLongestName = 4096;
constexpr size_t kLongestNumber = 64;
constexpr char kMetadata[] = "__metadata__";

/// Receives nlohmann's events. The state says where in {"name": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
/// the reader stands; anything that does not belong there is an error, so nesting cannot run deep.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsIndex take() {
    if (place_ != Place::kAfter) throw CheckpointError("its header is cut");
    return std::move(index_);
  }

  bool null() override { return misplaced("null"); }
  bool boolean(bool) override { return misplaced("true or false"); }
  bool number_float(number_float_t, const string_t& text) override {
    return misplaced("the number " + text.substr(0, 32));
  }
  bool number_integer(number_integer_t value) override { return misplaced("the number " + std::to_string(value)); }
  bool binary(binary_t&) override { return misplaced("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        fail("the size " + std::to_string(value) + " in its shape is impossible");
      if (tensor_.shape.size() == kMostDimensions) fail("its shape has more than 64 dimensions");
      tensor_.shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::kOffsets) {
      if (num_offsets_ == 2) fail("it has more than two data_offsets");
      offsets_[num_offsets_++] = value;
    } else {
      return misplaced("the number " + std::to_string(value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadataValue) {
      index_.metadata.emplace(key_, std::move(value));
      place_ = Place::kMetadata;
    } else if (place_ == Place::kDtype) {
      tensor_.dtype = printable(value.substr(0, 32));
      place_ = Place::kTensor;
    } else {
      return misplaced("a text");
    }
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kBefore) {
      place_ = Place::kNames;
    } else if (place_ == Place::kValue) {
      place_ = key_ == kMetadata ? Place::kMetadata : Place::kTensor;
    } else {
      return misplaced("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::kNames) return top_level_key(name);
    if (place_ == Place::kMetadata) {
      if (index_.metadata.contains(name)) fail("two entries of its metadata have the name " + shown(name));
      if (index_.metadata.size() == kMostMetadata) fail("its metadata has more than 10,000 entries");
      key_ = std::move(name);
      place_ = Place::kMetadataValue;
      return true;
    }
    return field_key(name);
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      finish_tensor();
      place_ = Place::kNames;
    } else if (place_ == Place::kMetadata) {
      place_ = Place::kNames;
    } else {
      place_ = Place::kAfter;
    }
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kShapeArray) {
      place_ = Place::kShape;
    } else if (place_ == Place::kOffsetsArray) {
      place_ = Place::kOffsets;
    } else {
      return misplaced("an array");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    throw CheckpointError("its header is not JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place {
    kBefore,         // of the header
    kNames,          // in the header's object
    kValue,          // after a name
    kMetadata,       // in the object of __metadata__
    kMetadataValue,  // after a name there
    kTensor,         // in the object of a tensor
    kDtype,          // after "dtype"
    kShapeArray,     // after "shape"
    kShape,          // in its array
    kOffsetsArray,   // after "data_offsets"
    kOffsets,        // in its array
    kAfter,
  };

  static std::string shown(const std::string& name) {
    return "\"" + printable(name.size() <= 64 ? name : name.substr(0, 61) + "...") + "\"";
  }

  [[noreturn]] void fail(const std::string& problem) const {
    const bool in_tensor = place_ >= Place::kTensor && place_ <= Place::kOffsets;
    throw CheckpointError((in_tensor ? "tensor " + shown(tensor_.name) + ": " : "") + problem);
  }

  [[noreturn]] bool misplaced(const std::string& what) const { fail("its header has " + what + " in a wrong place"); }

  bool top_level_key(string_t& name) {
    if (name.size() > kLongestName) fail("the name " + shown(name) + " is longer than 4096 bytes");
    if (!names_.insert(name).second) fail("two tensors have the name " + shown(name));
    if (index_.tensors.size() == kMostTensors) fail("it has more than 100,000 tensors");
    key_ = name;
    tensor_ = {};
    tensor_.name = std::move(name);
    has_dtype_ = has_shape_ = has_offsets_ = false;
    num_offsets_ = 0;
    place_ = Place::kValue;
    return true;
  }

  bool field_key(const std::string& name) {
    const auto enter = [&](bool& seen, Place place) {
      if (seen) fail("it has two " + name);
      seen = true;
      place_ = place;
      return true;
    };
    if (name == "dtype") return enter(has_dtype_, Place::kDtype);
    if (name == "shape") return enter(has_shape_, Place::kShapeArray);
    if (name == "data_offsets") return enter(has_offsets_, Place::kOffsetsArray);
    fail("it has " + shown(name) + ", which is none of dtype, shape and data_offsets");
  }

  void finish_tensor() {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) fail("it lacks one of dtype, shape and data_offsets");
    if (num_offsets_ != 2 || offsets_[0] > offsets_[1]) fail("its data_offsets are not a begin and an end");
    tensor_.offset = offsets_[0];
    tensor_.length = offsets_[1] - offsets_[0];
    uint64_t bytes = 0;
    try {
      bytes = tensor_bytes(tensor_.dtype, tensor_.shape);
    } catch (const CheckpointError& error) {
      fail(error.what());
    }
    if (bytes != tensor_.length)
      fail("its data_offsets hold " + std::to_string(tensor_.length) + " bytes, " +
           describe_tensor(tensor_.dtype, tensor_.shape) + " needs " + std::to_string(bytes));
    index_.tensors.push_back(std::move(tensor_));
  }

  SafetensorsIndex index_;
  std::unordered_set<std::string> names_;
  Place place_ = Place::kBefore;
  std::string key_;
  TensorEntry tensor_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  size_t num_offsets_ = 0;
  uint64_t offsets_[2] = {0, 0};
};

/// The parser keeps several copies of a number's text: one as long as the header would take eight times its bytes.
void refuse_long_numbers(std::string_view json) {
  size_t length = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
      continue;
    }
    in_text = c == '"';
    length = (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E' ? length + 1 : 0;
    if (length > kLongestNumber)
      throw CheckpointError("its header has a number of more than 64 characters at byte " + std::to_string(i));
  }
}

}  // namespace

SafetensorsIndex parse_safetensors_header(std::string_view json) {
  // The parser takes a zero byte for the end and would not see what follows.
  if (const size_t zero = json.find('\0'); zero != std::string_view::npos)
    throw CheckpointError("its header is not JSON at byte " + std::to_string(zero));
  refuse_long_numbers(json);
  HeaderEvents events;
  nlohmann::json::sax_parse(json, &events);
  return events.take();
}

}  // namespace mgtrain
