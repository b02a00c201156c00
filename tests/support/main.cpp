// The main() of the test programs.
#include "support/catch_session.h"

int main(int argc, char** argv) { return mgtrain::test::run_tests(argc, argv); }
