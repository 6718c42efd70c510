#pragma once

// One connection of HTTP/2, by hand: as much of it as gRPC's bidirectional streams need.
//
// A client library costs more for a connection than the server that it shall measure. This one is
// a socket, two buffers and a dozen lines for each kind of frame. It sends headers as literals,
// never looks into those that it gets, and announces windows so large that it never has to enlarge
// them. It is for the benchmarks: it trusts its server.

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

namespace paceline::bench {

class LightConnection {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void Opened(uint32_t stream) = 0;
    virtual void Heard(uint32_t stream, std::string_view message) = 0;
    virtual void Ended(uint32_t stream) = 0;
  };

  // Takes over a socket whose connect() may still be under way.
  LightConnection(int fd, Listener* listener);
  ~LightConnection();
  LightConnection(const LightConnection&) = delete;
  LightConnection& operator=(const LightConnection&) = delete;

  int fd() const { return fd_; }

  // What is sent is only queued until Flush.
  uint32_t OpenStream(std::string_view path, std::string_view token);
  void Send(uint32_t stream, const std::string& message);
  void Reset(uint32_t stream);

  // False: the connection is over.
  bool Read();
  bool Flush();
  bool is_blocked() const { return sent_ < out_.size(); }
  // The server has answered: it has accepted the connection.
  bool is_accepted() const { return is_accepted_; }

 private:
  struct Frame {
    uint8_t type = 0;
    uint8_t flags = 0;
    uint32_t stream = 0;
    std::string_view payload;
  };
  void AddFrame(const Frame& frame);
  size_t TakeFrames();
  void Take(const Frame& frame);
  void TakeData(const Frame& frame);
  void SendHeld();

  const int fd_;
  Listener* const listener_;
  uint32_t next_stream_ = 1;
  int64_t window_ = 65'535;  // bytes of messages that the server takes now
  std::deque<std::pair<uint32_t, std::string>> held_;  // until the window is wide enough
  std::string out_;
  size_t sent_ = 0;
  std::string in_;
  std::map<uint32_t, std::string> partial_;  // by stream, a message that is not whole yet
  std::map<uint32_t, bool> opened_;
  bool is_accepted_ = false;
};

}  // namespace paceline::bench
