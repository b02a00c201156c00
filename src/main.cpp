#include "app/program.h"

int main(int argc, char** argv) { return mgtrain::run_program(argc, argv, mgtrain::probe_inventory); }
