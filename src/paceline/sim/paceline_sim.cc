// The simulator as a program of its own: links no host, so it builds in seconds.

#include <string>
#include <vector>

#include "paceline/sim/main.h"

int main(int argc, char** argv) {
  return paceline::sim::RunSimCommand(std::vector<std::string>(argv + 1, argv + argc));
}
