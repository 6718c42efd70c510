// The simulator as a separate program: it links no hosts, so it builds in seconds.

#include <string>
#include <vector>

#include "paceline/sim/main.h"

int main(int argc, char** argv) {
  return paceline::sim::RunSimCommand(std::vector<std::string>(argv + 1, argv + argc));
}
