#pragma once

// One worker's connection: takes frames from a socket that does not block, and sends answers.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/ps/frame/table_frame.h"

namespace paceline::server {

class Connection {
 public:
  explicit Connection(Fd fd) : fd_(std::move(fd)) {}

  enum class Arrived {
    kNothing,    // more must come first
    kFrame,      // head() and body() are whole until Drop
    kClosed,     // the worker has closed, or died
    kMalformed,  // what came is no frame
  };
  // Takes what has come, up to the end of one frame.
  Arrived Take();
  const ps::TableHead& head() const { return head_; }
  std::span<const std::byte> body() const {
    return std::as_bytes(std::span(body_)).first(head_.bytes);
  }
  void Drop();

  void Send(std::string frame) { unsent_ = std::move(frame), sent_ = 0; }
  // False: the connection is broken.
  bool Flush();
  // While an answer is unsent, no other request is taken. So a worker that does not read costs one
  // answer.
  bool has_unsent() const { return sent_ < unsent_.size(); }

  int fd() const { return fd_.get(); }
  bool is_greeted = false;
  bool is_last = false;  // it ends when all is sent

 private:
  Fd fd_;
  std::vector<std::byte> head_bytes_;
  ps::TableHead head_;
  bool has_head_ = false;
  std::vector<uint64_t> body_;  // aligned for keys; grows as bytes come
  uint64_t body_bytes_ = 0;     // that have come
  std::string unsent_;
  size_t sent_ = 0;
};

}  // namespace paceline::server
