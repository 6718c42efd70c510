// The simulator as a separate program: it links no hosts, so it builds in seconds.

#include <cstdio>
#include <string>
#include <vector>

#include "paceline/sim/main.h"

int main(int argc, char** argv) {
  std::string wrong;
  const int code =
      paceline::sim::RunSimCommand(std::vector<std::string>(argv + 1, argv + argc), &wrong);
  if (!wrong.empty()) std::fprintf(stderr, "paceline sim: %s\n", wrong.c_str());
  return code;
}
