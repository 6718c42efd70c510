// The `paceline` binary.

#include <string>
#include <vector>

#include "paceline/cli/command.h"

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  return paceline::cli::Main(args, paceline::cli::ReadEnvironment());
}
