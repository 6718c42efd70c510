#pragma once

// The open streams of server-sent events. On the HTTP thread.

#include <cstddef>
#include <string>
#include <vector>

struct evhttp_connection;
struct evhttp_request;

namespace paceline::master {

class HttpStreams {
 public:
  // Answers with a stream that begins with `first`. The caller reports the connection's end.
  void Open(evhttp_request* request, const std::string& first);

  // To all. Closes each stream of which `backlog_max` bytes are not sent yet.
  void Send(const std::string& text, size_t backlog_max);

  // The connection has ended. Returns true if it had a stream.
  bool Ended(evhttp_connection* connection);

  size_t size() const { return open_.size(); }

 private:
  struct Stream {
    evhttp_request* request = nullptr;
    evhttp_connection* connection = nullptr;
  };
  std::vector<Stream> open_;
};

}  // namespace paceline::master
