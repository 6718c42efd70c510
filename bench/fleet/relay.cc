// One relay of bench/fleet/agents.py, in a process of its own as on a host of its own:
//
//   bench_relay MASTER_HOST:PORT TOKEN_FILE
//
// Prints the port that it listens on, and ends with its stdin.

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "paceline/base/file_text.h"
#include "paceline/wire/server/relay.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "bench_relay HOST:PORT TOKEN_FILE\n");
    return 2;
  }
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  std::string token = paceline::ReadText(argv[2], 1024);
  while (!token.empty() && token.back() == '\n') token.pop_back();
  const auto relay = paceline::wire::Relay::Start(
      {.listen = "127.0.0.1:0", .master = argv[1], .credentials = {.token = token}});
  if (!relay.ok()) {
    fprintf(stderr, "bench_relay: %s\n", std::string(relay.status().message()).c_str());
    return 1;
  }
  printf("%u\n", (*relay)->port());
  fflush(stdout);
  char end = 0;
  while (read(STDIN_FILENO, &end, 1) > 0) continue;
  return 0;
}
