#pragma once

// GET /metrics and GET /healthz, for scrapers on this host.
//
// Always on a loopback address, because it has no encryption. Every request needs the job's token
// ("Authorization: Bearer …") and a Host header with this host's name, so that a web page in a
// browser cannot reach it by DNS rebinding. One thread of libevent; the loop gives the answers.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline::master {

class HttpServer {
 public:
  using Reply = std::function<void(std::string)>;  // call once, from any thread
  // `path` is "/metrics" or "/healthz". Runs on the HTTP thread. Returns false if the master is
  // overloaded.
  using Ask = std::function<bool(const std::string& path, Reply reply)>;

  // Listens on base/host_text.h's LoopbackHost. Port 0: any free port. Problem PL-E031 if the port
  // is taken.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(int port, std::string token, Ask ask);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  std::string address() const;  // HOST:PORT

 private:
  class Service;
  explicit HttpServer(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace paceline::master
