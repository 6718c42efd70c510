#include "paceline/cli/run/port_turn.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <thread>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"

namespace paceline::cli {
namespace {

constexpr auto kTurnPause = std::chrono::milliseconds(20);

}  // namespace

Fd TakePortTurn(const std::string& runtime_dir, uint16_t port, std::chrono::milliseconds patience) {
  const std::string folder = runtime_dir + "/ports";
  MakeDirs(folder, 0700).IgnoreError();
  Fd turn(::open(Concat(folder, "/", port, ".lock").c_str(),
                 O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const auto until = std::chrono::steady_clock::now() + patience;
  while (turn.is_open() && ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() >= until) return Fd();
    std::this_thread::sleep_for(kTurnPause);
  }
  return turn;
}

}  // namespace paceline::cli
