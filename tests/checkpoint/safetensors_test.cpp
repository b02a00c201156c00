#include "checkpoint/safetensors.h"

#include "base/error.h"
#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using Catch::Matchers::Contains;

/// A file of this header and this many bytes of data. `length`: what the prefix says; by default the truth.
std::string file_of(const std::string& header, size_t data_bytes, uint64_t length = ~uint64_t{0}) {
  if (length == ~uint64_t{0}) length = header.size();
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(length >> (8 * i));
  return text + header + std::string(data_bytes, '\7');
}

SafetensorsIndex read(const std::string& content) {
  test::MemoryFileSystem files;
  files.put("/w.safetensors", content);
  return read_safetensors_index(files, "/w.safetensors");
}

std::string fault_of(const std::string& content) {
  try {
    read(content);
  } catch (const CheckpointError& error) {
    const std::string message = error.what();
    CHECK_THAT(message, Contains("/w.safetensors: not a valid safetensors file: "));
    return message;
  }
  return "accepted";
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TEST_CASE("a safetensors header is read back as it was written", "[checkpoint]") {
  const std::vector<TensorEntry> tensors = {
      {.name = "layer1.0.conv1.weight", .dtype = "F32", .shape = {8, 3, 3, 3}},
      {.name = "bn1.num_batches_tracked", .dtype = "I64", .shape = {}},
      {.name = "empty", .dtype = "F16", .shape = {0, 5}},
      {.name = "mask \"quoted\" \xc3\xa9", .dtype = "BOOL", .shape = {7}},
  };
  const std::string header = safetensors_header(tensors, {{"format", "pt"}, {"by", "mgtrain"}});
  CHECK(header.size() % 8 == 0);
  CHECK(header[8] == '{');

  const uint64_t data = header.size();
  const SafetensorsIndex index = read(header + std::string(864 + 8 + 0 + 7, '\0'));
  CHECK(index.metadata == std::map<std::string, std::string>{{"by", "mgtrain"}, {"format", "pt"}});
  REQUIRE(index.tensors.size() == 4);
  const std::vector<uint64_t> offsets = {data, data + 864, data + 872, data + 872}, lengths = {864, 8, 0, 7};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(index.tensors[i].name == tensors[i].name);
    CHECK(index.tensors[i].dtype == tensors[i].dtype);
    CHECK(index.tensors[i].shape == tensors[i].shape);
    CHECK(index.tensors[i].offset == offsets[i]);
    CHECK(index.tensors[i].length == lengths[i]);
  }
}

TEST_CASE("tensors come in file order, whatever the order of the header", "[checkpoint]") {
  const std::string header = "{" + tensor("b", "U8", "[2]", "[4,6]") + "," + tensor("a", "F32", "[1]", "[0,4]") + "}  ";
  const SafetensorsIndex index = read(file_of(header, 6));
  REQUIRE(index.tensors.size() == 2);
  CHECK(index.tensors[0].name == "a");
  CHECK(index.tensors[1].name == "b");
  CHECK(index.tensors[1].offset == 8 + header.size() + 4);
  CHECK(read(file_of("{}", 0)).tensors.empty());
}

TEST_CASE("writing refuses names twice, unknown types and data that do not fit the shape", "[checkpoint]") {
  const std::byte data[4] = {};
  CHECK_THROWS_WITH(safetensors_header({{.name = "a", .dtype = "U8"}, {.name = "a", .dtype = "U8"}}, {}),
                    Contains("the name a"));
  CHECK_THROWS_WITH(safetensors_header({{.name = "__metadata__", .dtype = "U8"}}, {}), Contains("__metadata__"));
  CHECK_THROWS_WITH(safetensors_header({{.name = "a", .dtype = "C64"}}, {}), Contains("unknown dtype \"C64\""));
  CHECK_THROWS_WITH(safetensors_header({{.name = "a", .dtype = "F32", .shape = {2}, .bytes = data}}, {}),
                    Contains("has 4 bytes, not the 8 of F32 [2]"));
}

TEST_CASE("sizes are counted without overflow", "[checkpoint]") {
  CHECK(tensor_bytes("F64", {3, 4}) == 96);
  CHECK(tensor_bytes("F32", {}) == 4);
  CHECK(tensor_bytes("I64", {0, int64_t{1} << 61}) == 0);
  CHECK_THROWS_AS(tensor_bytes("F32", {int64_t{1} << 61, 8}), CheckpointError);
  CHECK_THROWS_AS(tensor_bytes("F32", {int64_t{1} << 32, int64_t{1} << 32}), CheckpointError);
  CHECK_THROWS_AS(tensor_bytes("U8", {-1}), CheckpointError);
}

TEST_CASE("a faulty safetensors file is refused with what is wrong", "[checkpoint]") {
  const std::string good = tensor("a", "F32", "[2]", "[0,8]");
  REQUIRE(fault_of(file_of("{" + good + "}", 8)) == "accepted");

  SECTION("lengths") {
    CHECK_THAT(fault_of(""), Contains("0 bytes are too few"));
    CHECK_THAT(fault_of("1234567"), Contains("7 bytes are too few"));
    CHECK_THAT(fault_of(file_of("", 0)), Contains("8 bytes are too few"));
    CHECK_THAT(fault_of(file_of("{" + good + "}", 8, 1000)), Contains("said to be 1000 bytes long, the file has"));
    CHECK_THAT(fault_of(file_of("{}", 0, ~uint64_t{0} - 1)), Contains("said to be 18446744073709551614 bytes"));
    CHECK_THAT(fault_of(file_of("{" + good + "}", 7)), Contains("tensor a ends 1 bytes behind the end"));
    CHECK_THAT(fault_of(file_of("{" + good + "}", 9)), Contains("1 bytes behind the last tensor belong to none"));
  }
  SECTION("a header beyond the cap is refused before it is read") {
    std::string huge = file_of("{", 100'000'008, 100'000'001);
    CHECK_THAT(fault_of(huge), Contains("header of 100000001 bytes is larger than 100000000"));
  }
  SECTION("overlaps and holes") {
    const std::string b = tensor("b", "F32", "[2]", "[4,12]");
    CHECK_THAT(fault_of(file_of("{" + good + "," + b + "}", 12)), Contains("tensor b overlaps the one before it"));
    const std::string c = tensor("c", "F32", "[2]", "[9,17]");
    CHECK_THAT(fault_of(file_of("{" + good + "," + c + "}", 17)), Contains("tensor c leaves a hole before it"));
    const std::string same = tensor("d", "F32", "[2]", "[0,8]");
    CHECK_THAT(fault_of(file_of("{" + good + "," + same + "}", 8)), Contains("overlaps"));
    CHECK_THAT(fault_of(file_of("{" + tensor("a", "F32", "[2]", "[8,16]") + "}", 16)), Contains("leaves a hole"));
  }
  SECTION("names") {
    CHECK_THAT(fault_of(file_of("{" + good + "," + good + "}", 8)), Contains("two tensors have the name \"a\""));
    CHECK_THAT(fault_of(file_of("{" + tensor(std::string(5000, 'n'), "U8", "[0]", "[0,0]") + "}", 0)),
               Contains("longer than 4096 bytes"));
    CHECK_THAT(fault_of(file_of("{" + tensor("\xff\xfe", "U8", "[0]", "[0,0]") + "}", 0)), Contains("not JSON"));
  }
  SECTION("fields") {
    const auto one = [](const std::string& fields) { return file_of("{\"a\":{" + fields + "}}", 8); };
    CHECK_THAT(fault_of(one("\"dtype\":\"F32\",\"shape\":[2]")),
               Contains("lacks one of dtype, shape and data_offsets"));
    CHECK_THAT(fault_of(one("\"dtype\":\"F32\",\"dtype\":\"F32\"")), Contains("two dtype"));
    CHECK_THAT(fault_of(one("\"strides\":[2]")), Contains("\"strides\", which is none of"));
    CHECK_THAT(fault_of(one("\"dtype\":7")), Contains("the number 7 in a wrong place"));
    CHECK_THAT(fault_of(one("\"shape\":\"2\"")), Contains("a text in a wrong place"));
    CHECK_THAT(fault_of(one("\"shape\":[[2]]")), Contains("an array in a wrong place"));
    CHECK_THAT(fault_of(one("\"shape\":[-2]")), Contains("the number -2 in a wrong place"));
    CHECK_THAT(fault_of(one("\"shape\":[2.5]")), Contains("the number 2.5 in a wrong place"));
    CHECK_THAT(fault_of(one("\"shape\":[true]")), Contains("true or false in a wrong place"));
    CHECK_THAT(fault_of(one("\"shape\":null")), Contains("null in a wrong place"));
    CHECK_THAT(fault_of(file_of("{\"a\":[1]}", 8)), Contains("an array in a wrong place"));
    CHECK_THAT(fault_of(file_of("{\"a\":{\"dtype\":{}}}", 8)), Contains("an object in a wrong place"));
    CHECK_THAT(fault_of(file_of("{\"__metadata__\":{\"a\":1}}", 0)), Contains("in a wrong place"));
    CHECK_THAT(fault_of(file_of("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0)), Contains("have the name \"a\""));
  }
  SECTION("dtypes, shapes and offsets") {
    const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
      return fault_of(file_of("{" + tensor("a", dtype, shape, offsets) + "}", 8));
    };
    CHECK_THAT(one("F99", "[2]", "[0,8]"), Contains("tensor \"a\": unknown dtype \"F99\""));
    CHECK_THAT(one("F32", "[3]", "[0,8]"), Contains("hold 8 bytes, F32 [3] needs 12"));
    CHECK_THAT(one("F32", "[2]", "[8,0]"), Contains("not a begin and an end"));
    CHECK_THAT(one("F32", "[2]", "[0]"), Contains("not a begin and an end"));
    CHECK_THAT(one("F32", "[2]", "[0,8,8]"), Contains("more than two data_offsets"));
    CHECK_THAT(one("F32", "[4611686018427387904,4]", "[0,8]"), Contains("impossibly large shape"));
    CHECK_THAT(one("F32", "[18446744073709551615]", "[0,8]"), Contains("is impossible"));
    CHECK_THAT(one("F32", "[18446744073709551616]", "[0,8]"), Contains("in a wrong place"));
    CHECK_THAT(one("F32", "[2]", "[0,18446744073709551615]"), Contains("needs 8"));
    std::string ones = "[1";
    for (int i = 0; i < 64; ++i) ones += ",1";
    CHECK_THAT(one("F64", ones + "]", "[0,8]"), Contains("more than 64 dimensions"));
  }
  SECTION("JSON") {
    CHECK_THAT(fault_of(file_of("[]", 0)), Contains("does not start with '{'"));
    CHECK_THAT(fault_of(file_of(" {}", 0)), Contains("does not start with '{'"));
    CHECK_THAT(fault_of(file_of("{" + good, 8)), Contains("not JSON"));
    CHECK_THAT(fault_of(file_of("{" + good + "}{}", 8)), Contains("not JSON at byte"));
    CHECK_THAT(fault_of(file_of("{" + good + "}" + std::string(3, '\0'), 8)), Contains("not JSON at byte"));
  }
}

TEST_CASE("nesting as deep as the header is long is refused at its first level", "[checkpoint]") {
  CHECK_THAT(fault_of(file_of("{\"a\":" + std::string(4'000'000, '['), 0)), Contains("an array in a wrong place"));
  std::string objects = "{";
  for (int i = 0; i < 500'000; ++i) objects += "\"a\":{";
  CHECK_THAT(fault_of(file_of(objects, 0)), Contains("\"a\", which is none of"));
}

TEST_CASE("a number as long as the header is refused before it is copied", "[checkpoint]") {
  CHECK_THAT(fault_of(file_of("{\"a\":" + std::string(1'000'000, '9') + "}", 0)),
             Contains("a number of more than 64 characters at byte 69"));
  CHECK_THAT(fault_of(file_of("{\"a\\\"\":" + std::string(65, '-') + "}", 0)), Contains("more than 64 characters"));
  // In a text they are no number.
  CHECK(fault_of(file_of("{\"__metadata__\":{\"a\":\"" + std::string(100, '9') + "\"}}", 0)) == "accepted");
}

TEST_CASE("what a stranger wrote is shown without control characters", "[checkpoint]") {
  const auto named = [](const std::string& name, const std::string& fields) {
    return fault_of(file_of("{\"" + name + "\":{" + fields + "}}", 0));
  };
  CHECK_THAT(named("\\u001b[2J", "\"dtype\":1"), Contains("tensor \"\\x1b[2J\": "));
  CHECK_THAT(named("a", "\"\\u0007\":1"), Contains("has \"\\x07\", which is none of"));
  CHECK_THAT(named("a", R"("dtype":"\u001b","shape":[],"data_offsets":[0,0])"), Contains("unknown dtype \"\\x1b\""));
  CHECK_THAT(named("\\u001b", R"("dtype":"U8","shape":[0],"data_offsets":[1,1])"), Contains("tensor \\x1b leaves"));
}

TEST_CASE("more tensors than any network has are refused", "[checkpoint]") {
  std::string header = "{";
  for (int i = 0; i <= 100'000; ++i) header += (i == 0 ? "" : ",") + tensor(std::to_string(i), "U8", "[0]", "[0,0]");
  CHECK_THAT(fault_of(file_of(header + "}", 0)), Contains("more than 100,000 tensors"));
}

TEST_CASE("more metadata than anyone writes is refused", "[checkpoint]") {
  std::string header = "{\"__metadata__\":{\"first\":\"\"";
  for (int i = 0; i < 10'000; ++i) header += ",\"" + std::to_string(i) + "\":\"\"";
  CHECK_THAT(fault_of(file_of(header + "}}", 0)), Contains("more than 10,000 entries"));
}

TEST_CASE("PyTorch's pickled files are recognised and not read", "[checkpoint]") {
  CHECK_THAT(fault_of("PK\3\4" + std::string(100, 'z')), Contains("safetensors.torch.save_file"));
  CHECK_THAT(fault_of("\x80\2}q" + std::string(100, 'z')), Contains("safetensors.torch.save_file"));
  // 0x4b50 = 19280 is a length a true header may have.
  const std::string good = "{" + tensor("a", "F32", "[2]", "[0,8]") + "}";
  CHECK(fault_of(file_of(good + std::string(0x4b50 - good.size(), ' '), 8)) == "accepted");
}

TEST_CASE("a file that is missing or a folder is a CheckpointError", "[checkpoint]") {
  test::MemoryFileSystem files;
  files.put("/d/x", "");
  CHECK_THROWS_AS(read_safetensors_index(files, "/none"), CheckpointError);
  CHECK_THROWS_AS(read_safetensors_index(files, "/d"), CheckpointError);
}

}  // namespace
}  // namespace mgtrain
