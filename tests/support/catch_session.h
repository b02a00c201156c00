// Catch2's runner for a program that has a main() of its own; include it in that file alone. Either Catch2, 2 or 3.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

namespace mgtrain::test {

inline int run_tests(int argc, char** argv) { return Catch::Session().run(argc, argv); }

}  // namespace mgtrain::test
