#pragma once

// A client of some service in a process of its own, on the other end of a socket: what it links,
// how it waits and where it crashes is no business of this process. It is started by the first
// call, ends when the socket closes, and is started anew after it was lost.
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
  // Its standard input and output are the socket; its standard error is this process's.
  // argv[0] is looked up in PATH when it has no slash.
  explicit ClientProcess(std::vector<std::string> argv) : argv_(std::move(argv)) {}
  ~ClientProcess() { Stop(); }
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  bool is_running() const { return pid_ > 0; }
  Result<void> Start();
  void Stop();

  // kBusy: it has gone, or said nothing for ten minutes; it is stopped then.
  Result<void> Send(const void* data, uint64_t bytes);
  Result<void> Receive(void* data, uint64_t bytes);
  // Without its line feed; at most 64 MiB.
  Result<std::string> ReceiveLine();

 private:
  Result<void> Lost(std::string_view why);

  const std::vector<std::string> argv_;
  pid_t pid_ = 0;
  Fd socket_;
  std::string unread_;
};

}  // namespace paceline::ckpt
