#include "comm/host_list.h"

#include "base/error.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("a host list is expanded in its order, leading zeros kept", "[comm]") {
  CHECK(expand_host_list("login1") == Names{"login1"});
  CHECK(expand_host_list("gpu[01-03,7],login1") == Names{"gpu01", "gpu02", "gpu03", "gpu7", "login1"});
  CHECK(expand_host_list("b,a[2,1]") == Names{"b", "a2", "a1"});
  CHECK(expand_host_list("n[8-11]") == Names{"n8", "n9", "n10", "n11"});
  CHECK(expand_host_list("n[098-101]") == Names{"n098", "n099", "n100", "n101"});
  CHECK(expand_host_list("n[3]") == Names{"n3"});
}

TEST_CASE("a host name may have several brackets, and text after them", "[comm]") {
  CHECK(expand_host_list("r[1-2]n[01-02]") == Names{"r1n01", "r1n02", "r2n01", "r2n02"});
  CHECK(expand_host_list("a[1,3]-ib.example,b") == Names{"a1-ib.example", "a3-ib.example", "b"});
}

TEST_CASE("what is no host list is refused, naming the item", "[comm]") {
  struct Bad {
    std::string list, named;
  };
  const auto bad = GENERATE(
      Bad{"", "'' is an empty name"}, Bad{"a,,b", "'' is an empty name"}, Bad{"a[1-2", "has an open bracket"},
      Bad{"a,b]1", "'b]1' closes a bracket"}, Bad{"a[1[2]]", "has a bracket within brackets"},
      Bad{"a[3-1]", "'3-1' runs backwards"}, Bad{"a[x-2]", "'x-2' is neither"}, Bad{"a[1-]", "'1-' is neither"},
      Bad{"a[]", "'' is neither"}, Bad{"a[1,,2]", "'' is neither"}, Bad{"a[-2]", "'-2' is neither"},
      Bad{"a[1-2-3]", "'1-2-3' is neither"}, Bad{"a[0-99999999]", "'0-99999999' names more than a million"},
      Bad{"a[0-1999][0-1999]", "names more than a million"}, Bad{"a[1-18446744073709551616]", "is neither"},
      Bad{"a[18446744073709551615]", "is neither"}, Bad{"a[0000000000000000001]", "is neither"},
      Bad{"a[1-999999,1-999999]", "'1-999999' names more than a million"},
      Bad{std::string(200, 'a') + "[1-9]" + std::string(56, 'b'), "is longer than a name can be"});
  CHECK_THROWS_AS(expand_host_list(bad.list), ConfigError);
  CHECK_THROWS_WITH(expand_host_list(bad.list),
                    Catch::Contains(bad.named) && Catch::StartsWith("'" + bad.list + "' is no list of hosts"));
}

TEST_CASE("counts a node are expanded", "[comm]") {
  CHECK(expand_counts("2") == std::vector<int>{2});
  CHECK(expand_counts("4(x2),3") == std::vector<int>{4, 4, 3});
  CHECK(expand_counts("1,2(x1)") == std::vector<int>{1, 2});
}

TEST_CASE("what is no list of counts is refused, naming the item", "[comm]") {
  const std::string bad = GENERATE("", "x", "4(x2", "4(x)", "4(2)", "(x2)", "4(x2),", "-1", "4(x9999999)");
  CHECK_THROWS_AS(expand_counts(bad), ConfigError);
  CHECK_THROWS_WITH(expand_counts(bad), Catch::Contains("'" + bad + "' is no list of counts such as 4(x2),3"));
}

}  // namespace
}  // namespace mgtrain
