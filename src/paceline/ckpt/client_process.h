#pragma once

// A client of some service, in a process of its own at the other end of a socket. So its libraries,
// its waits and its crashes cannot harm this process. The first call starts the client, and the
// next call after a crash starts it anew. It ends when the socket closes.
//
// For one thread at a time.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/result.h"

namespace paceline::ckpt {

class ClientProcess {
 public:
  // The socket becomes the client's standard input and output; it shares this process's standard
  // error. argv[0] is looked up in PATH if it has no slash.
  explicit ClientProcess(std::vector<std::string> argv) : argv_(std::move(argv)) {}
  ~ClientProcess() { Stop(); }
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  bool is_running() const { return pid_ > 0; }
  Result<void> Start();
  void Stop();

  // kBusy: the client has gone, or was silent for ten minutes and is stopped.
  Result<void> Send(const void* data, uint64_t bytes);
  Result<void> Receive(void* data, uint64_t bytes);
  // One line without its line feed, of at most 64 MiB.
  Result<std::string> ReceiveLine();

 private:
  Result<void> Lost(std::string_view why);

  const std::vector<std::string> argv_;
  pid_t pid_ = 0;
  Fd socket_;
  std::string unread_;
};

}  // namespace paceline::ckpt
