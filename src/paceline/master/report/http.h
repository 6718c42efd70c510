#pragma once

// HTTP of the master, for scrapers and browsers on its host: a list of routes.
//
// Always on a loopback address, because it has no encryption. Every request needs a Host header
// with this host's name, so that a web page in a browser cannot reach it by DNS rebinding, and what
// its route asks for ("Authorization: Bearer …"). One thread of libevent.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline::master {

struct HttpRequest {
  std::string body;
  std::string last_event_id;  // of a stream that is opened again; "": a new one
};
struct HttpAnswer {
  int code = 200;
  std::string text;
  std::string type = "text/plain; charset=utf-8";
};
using HttpReply = std::function<void(HttpAnswer)>;  // call once, from any thread

enum class HttpAccess {
  kAnyone,  // tells nothing about the job
  kReader,  // the job's token, or a session of the page
  kJob,     // the job's token
};

// One of `ask` and `open` is set. Both run on the HTTP thread.
struct HttpRoute {
  std::string path;
  HttpAccess access = HttpAccess::kJob;
  bool is_post = false;
  // Returns false if the master is overloaded.
  std::function<bool(const HttpRequest&, HttpReply)> ask = {};
  // The answer is a stream of server-sent events. Returns the first of them.
  std::function<std::string(const HttpRequest&)> open = {};
};

class HttpServer {
 public:
  static constexpr size_t kViewersMax = 32;            // open streams
  static constexpr size_t kBacklogBytesMax = 1 << 20;  // of a stream that is not read
  static constexpr int kBeatSeconds = 2;               // of streams

  struct Options {
    int port = 0;  // 0: any free port
    std::string token;
    std::vector<HttpRoute> routes;
    // Called on the HTTP thread with the number of open streams: at each beat, and when one ended.
    std::function<void(size_t)> on_beat = {};
  };

  // Listens on base/host_text.h's LoopbackHost. Problem PL-E031 if the port is taken.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Options options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  std::string address() const;  // HOST:PORT

  // Any thread: calls `task` on the HTTP thread. A server that ends drops it.
  void Post(std::function<void()> task);

  // On the HTTP thread: sends events to all streams. One that is kBacklogBytesMax behind is closed;
  // its reader comes back and tells its last event.
  void Broadcast(const std::string& events);
  size_t viewers() const;  // open streams

 private:
  class Service;
  explicit HttpServer(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace paceline::master
