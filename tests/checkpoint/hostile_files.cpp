#include "checkpoint/hostile_files.h"

#include <zlib.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <utility>

namespace mgtrain::test {
namespace {

std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

/// A safetensors file of this header and data.
std::string safetensors(const std::string& header, size_t data = 0) {
  return little_endian(header.size(), 8) + header + std::string(data, '\0');
}
/// One of a tensor `a` with these fields.
std::string tensor(const std::string& fields, size_t data = 0) { return safetensors("{\"a\":{" + fields + "}}", data); }
std::string f32(const std::string& shape, const std::string& offsets, size_t data = 0) {
  return tensor(R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets, data);
}

/// A pickle that calls os.system(command) as it is loaded.
std::string pickle(int protocol, const std::string& command) {
  if (protocol == 0) return "cposix\nsystem\n(V" + command + "\ntR.";
  std::string text = protocol == 1 ? "" : std::string("\x80") + static_cast<char>(protocol);
  const std::string body = "cposix\nsystem\nX" + little_endian(command.size(), 4) + command + "\x85R.";
  if (protocol >= 4) text += "\x95" + little_endian(body.size(), 8);
  return text + body;
}

/// What torch.save() wrote before PyTorch 1.6: magic number, protocol, system information, the object.
std::string legacy_torch_file(const std::string& command) {
  return "\x80\x02\x8a\x0a" + std::string("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10) + ".\x80\x02M\xe9\x03." +
         pickle(2, command);
}

std::string zlib_packed(const std::string& bytes, int window_bits) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib");
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  std::string input = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("zlib");
  return packed;
}

/// A zip archive; `claimed`: the sizes its entries say they have, for all of them, where not their own.
std::string zip(const std::vector<std::pair<std::string, std::string>>& entries, bool packed = false,
                uint32_t claimed = 0) {
  std::string archive, directory;
  for (const auto& [name, content] : entries) {
    const std::string stored = packed ? zlib_packed(content, -15) : content;
    const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    const uint64_t size = claimed != 0 ? claimed : content.size();
    const std::string description = little_endian(packed ? 8 : 0, 2) + std::string(4, '\0') + little_endian(crc, 4) +
                                    little_endian(stored.size(), 4) + little_endian(size, 4) +
                                    little_endian(name.size(), 2) + std::string(2, '\0');
    directory += std::string("PK\1\2\x14\0\x14\0\0\0", 10) + description + std::string(10, '\0') +
                 little_endian(archive.size(), 4) + name;
    archive += std::string("PK\3\4\x14\0\0\0", 8) + description + name + stored;
  }
  return archive + directory + std::string("PK\5\6\0\0\0\0", 8) + little_endian(entries.size(), 2) +
         little_endian(entries.size(), 2) + little_endian(directory.size(), 4) + little_endian(archive.size(), 4) +
         std::string(2, '\0');
}

std::string tar(const std::string& name, const std::string& content) {
  std::string header = name;
  header.resize(257, '\0');
  header += std::string("ustar\00000", 8);
  header.resize(512, '\0');
  std::string block = content;
  block.resize((content.size() + 511) / 512 * 512, '\0');
  return header + block + std::string(1024, '\0');
}

void add_programs(std::vector<HostileFile>& files, const std::string& command, size_t large) {
  const auto add = [&](const std::string& name, const std::string& file_name, std::function<std::string()> make) {
    files.push_back({name, file_name, std::move(make)});
  };
  for (int protocol = 0; protocol <= 5; ++protocol)
    add("pickle of protocol " + std::to_string(protocol), "a.pkl", [=] { return pickle(protocol, command); });
  add("pickle called safetensors", "a.safetensors", [=] { return pickle(2, command); });
  add("PyTorch's file before 1.6", "a.pth", [=] { return legacy_torch_file(command); });
  add("PyTorch's file since 1.6", "a.pt", [=] {
    return zip({{"archive/data.pkl", pickle(2, command)}, {"archive/version", "3\n"}, {"archive/data/0", "abcd"}});
  });
  add("PyTorch's file called safetensors", "a.safetensors", [=] {
    return zip({{"archive/data.pkl", pickle(2, command)}});
  });
  add("TorchScript", "a.pt", [=] {
    return zip({{"m/code/__torch__.py", "import os\nos.system('" + command + "')\n"},
                {"m/constants.pkl", pickle(2, command)},
                {"m/data.pkl", pickle(2, command)},
                {"m/version", "3\n"}});
  });
  add("zip bomb", "a.pt", [=] {
    return zip({{"archive/data.pkl", std::string(large, '\0')}, {"archive/data/0", std::string(large, '\0')}}, true);
  });
  add("zip in a zip", "a.pt", [=] { return zip({{"a", zip({{"b", std::string(large, 'b')}}, true)}}, true); });
  add("zip with lying sizes", "a.pt", [=] { return zip({{"archive/data.pkl", "abc"}}, false, 0xfffffff0); });
  add("zip with a path outside", "a.pt", [=] { return zip({{"../../../../" + command.substr(6), "abc"}}); });
  add("zip without entries", "a.pt", [] { return zip({}); });
  add("zip in several parts", "a.pt", [] { return "PK\7\x8" + std::string(100, '\1'); });
  add("packed pickle", "a.pkl.gz", [=] { return zlib_packed(pickle(2, command), 15 + 16); });
  add("gzip bomb", "a.safetensors", [=] { return zlib_packed(std::string(large, '\0'), 15 + 16); });
  add("tar with a path outside", "a.tar", [=] { return tar("../../../" + command.substr(6), "abc"); });
  add("NumPy array of objects", "a.npy", [=] {
    const std::string header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
    return "\x93NUMPY\1" + std::string(1, '\0') + little_endian(header.size(), 2) + header + pickle(2, command);
  });
  add("HDF5", "a.h5", [] { return "\x89HDF\r\n\x1a\n" + std::string(500, '\xff'); });
  add("GGUF with lying counts", "a.gguf", [] { return "GGUF" + little_endian(3, 4) + std::string(16, '\xff'); });
  add("ONNX", "a.onnx", [] { return "\x08\x07\x12\x07pytorch" + std::string(100, '\x0a'); });
  add("shell script", "a.safetensors", [=] { return "#!/bin/sh\n" + command + "\n"; });
  add("Python", "a.py", [=] { return "import os\nos.system('" + command + "')\n"; });
  add("program", "a.safetensors", [] {
    return "\x7f"
           "ELF\2\1\1" +
           std::string(200, '\0');
  });
  add("web page", "a.safetensors", [] { return std::string("<!DOCTYPE html><html><body>404</body></html>"); });
  add("Git LFS pointer", "a.safetensors",
      [] { return std::string("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 100\n"); });
  add("XML bomb", "a.safetensors", [] {
    return std::string("<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY b \"bb\"><!ENTITY c \"&b;&b;&b;\">]><a>&c;</a>");
  });
  add("YAML that makes objects", "a.safetensors",
      [=] { return "!!python/object/apply:os.system [\"" + command + "\"]\n"; });
}

void add_lengths(std::vector<HostileFile>& files, size_t large) {
  const auto add = [&](const std::string& name, std::function<std::string()> make, bool readable = false) {
    files.push_back({name, "a.safetensors", std::move(make), readable});
  };
  add("nothing", [] { return std::string(); });
  add("seven bytes", [] { return std::string(7, '\1'); });
  add("a length alone", [] { return little_endian(2, 8); });
  add("header of 2^64 - 1 bytes", [] { return std::string(8, '\xff') + "{}"; });
  add("header of 2^63 bytes", [] { return little_endian(uint64_t{1} << 63, 8) + "{}"; });
  add("header of a byte more than the file", [] { return little_endian(3, 8) + "{}"; });
  add("header larger than any", [] { return safetensors("{" + std::string(100'000'000, ' ') + "}"); });
  add("header of blanks", [=] { return safetensors("{" + std::string(large - 2, ' ')); });
  add("header of one name", [=] { return safetensors("{\"" + std::string(large - 10, 'a') + "\":{}}"); });
  add("header of open arrays", [=] { return safetensors("{\"a\":" + std::string(large - 5, '[')); });
  add("header of open objects", [=] { return safetensors(repeated("{\"a\":", large / 5)); });
  add("header of one number", [=] { return safetensors("{\"a\":" + std::string(large - 6, '9') + "}"); });
  add("header of one shape", [=] { return f32("[1" + repeated(",1", large / 2 - 100) + "]", "[0,4]", 4); });
  add(
      "header of one value in the metadata",
      [=] { return safetensors(R"({"__metadata__":{"a":")" + std::string(large - 30, 'a') + "\"}}"); }, true);
  add("more tensors than any network has", [] {
    std::string header = "{";
    for (int i = 0; i < 100'001; ++i)
      header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
    return safetensors(header + "}");
  });
  add("more metadata than anyone writes", [] {
    std::string header = R"({"__metadata__":{)";
    for (int i = 0; i < 10'001; ++i) header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
    return safetensors(header + "}}");
  });
  add("bytes behind the last tensor", [] { return f32("[1]", "[0,4]", 400); });
}

void add_headers(std::vector<HostileFile>& files) {
  const auto add = [&](const std::string& name, const std::string& content, bool readable = false) {
    files.push_back({name, "a.safetensors", [content] { return content; }, readable});
  };
  const std::string max = "18446744073709551615";
  add("negative size", f32("[-1]", "[0,4]", 4));
  add("negative offset", f32("[1]", "[-4,0]", 4));
  add("size 2^63", f32("[9223372036854775808]", "[0,4]", 4));
  add("size 10^400", f32("[1" + std::string(400, '0') + "]", "[0,4]", 4));
  add("size 1e308", f32("[1e308]", "[0,4]", 4));
  add("size NaN", f32("[NaN]", "[0,4]", 4));
  add("size Infinity", f32("[Infinity]", "[0,4]", 4));
  add("sizes whose product overflows", f32("[4294967296,4294967296,4294967296]", "[0,0]"));
  add("sizes whose product overflows to what is there", f32("[4611686018427387905]", "[0,4]", 4));
  add("offset 2^64 - 1", f32("[1]", "[" + max + "," + max + "]", 4));
  add("end 2^64 - 1", f32("[1]", "[0," + max + "]", 4));
  add("end before begin", f32("[1]", "[4,0]", 4));
  add("65 dimensions", f32("[" + repeated("1,", 64) + "1]", "[0,4]", 4));
  add("terabytes that are not there", f32("[1099511627776]", "[0,4398046511104]", 4));
  add("one offset", f32("[1]", "[4]", 4));
  add("three offsets", f32("[1]", "[0,4,4]", 4));
  add("two tensors in one place",
      safetensors(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          4));
  add("a hole between tensors",
      safetensors(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
          4));
  add("one name twice",
      safetensors(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
          4));
  add("one field twice", tensor(R"("dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,4])", 4));
  add("a field more", tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"code":"import os")", 4));
  add("a field less", tensor(R"("dtype":"F32","data_offsets":[0,4])", 4));
  add("unknown type", tensor(R"("dtype":"OBJECT","shape":[1],"data_offsets":[0,4])", 4));
  add("type of a megabyte",
      tensor("\"dtype\":\"" + std::string(1 << 20, 'F') + R"(","shape":[1],"data_offsets":[0,4])", 4));
  add("null", safetensors(R"({"a":null})"));
  add("a list", safetensors("[]"));
  add("two headers", safetensors("{}{}"));
  add("a comment", safetensors("{/* */}"));
  add("name that is no UTF-8", safetensors("{\"\xff\xfe\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"));
  add("half a surrogate", safetensors(R"({"\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"));
  add("name that steers a terminal",
      safetensors(R"({"\u001b]0;owned\u0007":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"), true);
  add("type that steers a terminal", tensor(R"("dtype":"\u001b[2J","shape":[1],"data_offsets":[0,4])", 4));
  add("name with a zero byte", safetensors(R"({"a\u0000b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"), true);
  add("a zero byte in the header", safetensors(std::string("{}\0{", 4)));
  add("names that are paths",
      safetensors(
          R"({"../../etc/passwd":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"/etc/passwd":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
      true);
  add("no tensor", safetensors("{}"), true);
  add("a network of another kind", f32("[1]", "[0,4]", 4), true);
}

}  // namespace

std::vector<HostileFile> hostile_files(const std::filesystem::path& canary, size_t large) {
  std::vector<HostileFile> files;
  add_programs(files, "touch " + canary.string(), large);
  add_lengths(files, large);
  add_headers(files);
  return files;
}

}  // namespace mgtrain::test
