#include "devices/request.h"

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "support/catch.h"

using namespace mgtrain;

namespace {

std::vector<std::string> items(const std::string& text, bool duplicates = false) {
  std::vector<std::string> texts;
  const DeviceRequest request = parse_device_request(text, duplicates);
  for (const DeviceItem& item : std::get<ListRequest>(request).items) texts.push_back(item.text);
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("the words auto, all, cpu and cpu:N", "[devices]") {
  CHECK(std::holds_alternative<AutoRequest>(parse_device_request("auto", false)));
  CHECK(std::holds_alternative<AllRequest>(parse_device_request(" all ", false)));
  CHECK(std::get<CpuRequest>(parse_device_request("cpu", false)).replicas == 0);
  CHECK(std::get<CpuRequest>(parse_device_request("cpu:4", false)).replicas == 4);
}

TEST_CASE("a bare number is a count, a comma makes a list, a dash a range", "[devices]") {
  CHECK(std::get<CountRequest>(parse_device_request("2", false)).count == 2);
  CHECK(items("0,1") == Texts{"0", "1"});
  CHECK(items("1,0") == Texts{"1", "0"});
  CHECK(items("3,") == Texts{"3"});
  CHECK(items("0,") == Texts{"0"});
  CHECK(items("0-3") == Texts{"0", "1", "2", "3"});
  CHECK(items("2-2") == Texts{"2"});
  CHECK(items("5, 0-1 ,3,") == Texts{"5", "0", "1", "3"});
  CHECK(items("GPU-8a1f") == Texts{"GPU-8a1f"});
  CHECK(items("MIG-12ab,1") == Texts{"MIG-12ab", "1"});
}

TEST_CASE("0 is refused with the three things it could have meant", "[devices]") {
  for (const char* text : {"0", "00"}) {
    CHECK_THROWS_WITH(parse_device_request(text, false),
                      Catch::Contains("write `0,` for GPU 0, `1` for one GPU, `cpu` for none"));
  }
}

TEST_CASE("words that mean nothing are refused, naming the item", "[devices]") {
  struct Bad {
    const char* text;
    const char* named;
  };
  const Bad bad =
      GENERATE(Bad{"", "is empty"}, Bad{"  ", "is empty"}, Bad{",", "item is empty"}, Bad{"0,,1", "item is empty"},
               Bad{",0", "item is empty"}, Bad{"1,,", "item is empty"}, Bad{"-1", "\"-1\" is negative"},
               Bad{"0,-2", "\"-2\" is negative"}, Bad{"0,one", "\"one\""}, Bad{"two", "\"two\""}, Bad{"1.5", "\"1.5\""},
               Bad{"+1", "\"+1\""}, Bad{"0x1", "\"0x1\""}, Bad{"0;1", "\"0;1\""}, Bad{"0 1", "\"0 1\""},
               Bad{"3-1", "3-1"}, Bad{"1-", "\"1-\""}, Bad{"0--3", "\"0--3\""}, Bad{"0-1-2", "\"0-1-2\""},
               Bad{"cpu:", "cpu:4"}, Bad{"cpu:0", "0 CPU replicas"}, Bad{"cpu:-1", "\"-1\""}, Bad{"cpu:x", "\"x\""},
               Bad{"0,cpu", "cpu stands alone"}, Bad{"auto,0", "auto stands alone"}, Bad{"all,", "all stands alone"},
               Bad{"cpu:2,0", "stands alone"}, Bad{"CPU", "lower case"}, Bad{"cuda:1", "`1,`"},
               Bad{"GPU8a", "\"GPU8a\""}, Bad{"99999999999999999999", "more than"}, Bad{"0-4000000000", "more than"},
               Bad{"1025", "more than"}, Bad{"cpu:5000", "more than"}, Bad{"0-1000,0-1000", "more than"});
  INFO(bad.text);
  CHECK_THROWS_AS(parse_device_request(bad.text, false), ConfigError);
  CHECK_THROWS_WITH(parse_device_request(bad.text, false), Catch::Contains(bad.named));
}

TEST_CASE("the same item twice is refused, unless a test allows it", "[devices]") {
  CHECK_THROWS_WITH(parse_device_request("0,1,0", false), Catch::Contains("\"0\" is named twice"));
  CHECK_THROWS_WITH(parse_device_request("0-2,1", false), Catch::Contains("\"1\" is named twice"));
  CHECK_THROWS_WITH(parse_device_request("GPU-ab,GPU-ab", false), Catch::Contains("GPU-ab"));
  CHECK(items("0,0", true) == Texts{"0", "0"});
}

TEST_CASE("--primary is one index or UUID", "[devices]") {
  CHECK(parse_primary("1").index() == 1);
  CHECK(parse_primary("1,").index() == 1);
  CHECK(parse_primary("GPU-8a").uuid() == "GPU-8a");
  for (const char* text : {"", "0,1", "-1", "first", "cpu"}) CHECK_THROWS_AS(parse_primary(text), ConfigError);
}

TEST_CASE("no text does worse than a refusal", "[devices]") {
  constexpr std::string_view kAlphabet = "0123456789,,,---: GPUMIGcpualtod\t\x80x.";
  RandomStream random(1, RandomPurpose::kAugment, 0, 0);
  int accepted = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string text;
    const uint32_t length = random.below(12);
    for (uint32_t i = 0; i < length; ++i) text += kAlphabet[random.below(static_cast<uint32_t>(kAlphabet.size()))];
    try {
      const DeviceRequest request = parse_device_request(text, random.below(2) == 0);
      if (const auto* list = std::get_if<ListRequest>(&request)) REQUIRE_FALSE(list->items.empty());
      if (const auto* count = std::get_if<CountRequest>(&request)) REQUIRE(count->count > 0);
      ++accepted;
    } catch (const ConfigError&) {
    }
  }
  CHECK(accepted > 100);
}
