#include "paceline/master/report/http.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "event2/buffer.h"
#include "event2/event.h"
#include "event2/http.h"
#include "event2/thread.h"
#include "paceline/base/fd.h"
#include "paceline/base/host_text.h"
#include "paceline/base/status_macros.h"
#include "paceline/model/problem.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::master {
namespace {

constexpr int kHeaderBytesMax = 8 * 1024;
constexpr int kSecondsMax = 10;  // to send a request, and to read an answer
constexpr size_t kPendingMax = 64;

// Answers from the loop's thread. Owners: the service, and each Reply not yet called.
struct Answers {
  std::mutex mutex;  // guards the members below
  std::vector<std::pair<uint64_t, std::string>> ready;
  event* wake = nullptr;  // null: the service has ended
};

bool IsThisHost(std::string_view host) {
  if (host.starts_with("[::1]")) {
    host.remove_prefix(5);
    return host.empty() || host.front() == ':';
  }
  host = host.substr(0, host.find(':'));
  return host == "localhost" || host == "127.0.0.1";
}

// A listening socket on the loopback address, or a closed one; errno says why. libevent would look
// the address up as a name, which fails on a host that has no IPv4 address but 127.0.0.1.
Fd ListenOnLoopback(int port) {
  const bool is_v6 = LoopbackHost() == "::1";
  Fd fd(::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_loopback;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  v4.sin_port = v6.sin6_port;
  const auto* address = is_v6 ? reinterpret_cast<const sockaddr*>(&v6)  //
                              : reinterpret_cast<const sockaddr*>(&v4);
  const socklen_t size = is_v6 ? sizeof(v6) : sizeof(v4);
  const int on = 1;
  const bool listens = fd.is_open() &&
                       ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                       ::bind(fd.get(), address, size) == 0 && ::listen(fd.get(), SOMAXCONN) == 0;
  return listens ? std::move(fd) : Fd();
}

// 0 if the socket has none.
int BoundPort(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

}  // namespace

class HttpServer::Service {
 public:
  Service(std::string token, Ask ask) : token_(std::move(token)), ask_(std::move(ask)) {}

  absl::Status Start(int port) {
    evthread_use_pthreads();
    base_ = event_base_new();
    http_ = evhttp_new(base_);
    stop_ = event_new(base_, -1, EV_PERSIST, &Service::OnStop, this);
    answers_->wake = event_new(base_, -1, EV_PERSIST, &Service::OnAnswers, this);
    event_add(stop_, nullptr);
    event_add(answers_->wake, nullptr);
    evhttp_set_max_headers_size(http_, kHeaderBytesMax);
    evhttp_set_max_body_size(http_, 0);
    evhttp_set_timeout(http_, kSecondsMax);
    evhttp_set_allowed_methods(http_, EVHTTP_REQ_GET);
    evhttp_set_gencb(http_, &Service::OnRequest, this);
    Fd listener = ListenOnLoopback(port);
    if (!listener.is_open()) return CannotListen(port, errno);
    port_ = BoundPort(listener.get());
    if (evhttp_accept_socket(http_, listener.get()) != 0) return CannotListen(port, EINVAL);
    listener.Release();  // libevent closes it
    thread_ = std::thread([this] { event_base_dispatch(base_); });
    return absl::OkStatus();
  }

  ~Service() {
    if (thread_.joinable()) {
      event_active(stop_, 0, 0);
      thread_.join();
    }
    {
      const std::lock_guard lock(answers_->mutex);
      event_free(std::exchange(answers_->wake, nullptr));
    }
    event_free(stop_);
    evhttp_free(http_);
    event_base_free(base_);
  }

  int port() const { return port_; }

 private:
  static absl::Status CannotListen(int port, int error) {
    const std::string address = Bracketed(LoopbackHost()) + ":" + std::to_string(port);
    return ToStatus(
        absl::StatusCode::kAlreadyExists,
        {.code = "PL-E031",
         .what = "the master cannot serve HTTP on " + address,
         .where = address,
         .why = error == EADDRINUSE ? "another process listens on that port" : std::strerror(error),
         .fix = "choose another network.http_port, or leave it out to get a free one"});
  }

  static void OnStop(int, short, void* self) {
    event_base_loopbreak(static_cast<Service*>(self)->base_);
  }

  static void OnRequest(evhttp_request* request, void* self) {
    static_cast<Service*>(self)->Answer(request);
  }

  static void OnAnswers(int, short, void* self) { static_cast<Service*>(self)->SendAnswers(); }

  // Both checks come before anything about the job is answered.
  void Answer(evhttp_request* request) {
    const char* host = evhttp_find_header(evhttp_request_get_input_headers(request), "Host");
    if (host == nullptr || !IsThisHost(host)) {
      Send(request, 403, "this host name is not served\n");
      return;
    }
    const char* given =
        evhttp_find_header(evhttp_request_get_input_headers(request), "Authorization");
    if (given == nullptr || !wire::TokensEqual("Bearer " + token_, given)) {
      Send(request, 401, "the token is missing or wrong\n");
      return;
    }
    const std::string path = evhttp_request_get_uri(request);
    if (path != "/metrics" && path != "/healthz") {
      Send(request, 404, "there are /metrics and /healthz\n");
      return;
    }
    Forward(request, path);
  }

  void Forward(evhttp_request* request, const std::string& path) {
    if (pending_.size() >= kPendingMax) {
      Send(request, 503, "overloaded\n");
      return;
    }
    const uint64_t id = ++last_id_;
    pending_[id] = {request, path == "/metrics"};
    evhttp_connection_set_closecb(evhttp_request_get_connection(request), &Service::OnClose, this);
    const bool taken = ask_(path, [answers = answers_, id](std::string text) {
      const std::lock_guard lock(answers->mutex);
      answers->ready.emplace_back(id, std::move(text));
      if (answers->wake != nullptr) event_active(answers->wake, 0, 0);
    });
    if (taken) return;
    pending_.erase(id);
    Send(request, 503, "overloaded\n");
  }

  // The client has gone; libevent frees its request.
  static void OnClose(evhttp_connection* connection, void* self) {
    std::erase_if(static_cast<Service*>(self)->pending_, [&](const auto& entry) {
      return evhttp_request_get_connection(entry.second.request) == connection;
    });
  }

  void SendAnswers() {
    std::vector<std::pair<uint64_t, std::string>> ready;
    {
      const std::lock_guard lock(answers_->mutex);
      ready.swap(answers_->ready);
    }
    for (const auto& [id, text] : ready) {
      const auto it = pending_.find(id);
      if (it == pending_.end()) continue;
      const Pending pending = it->second;
      pending_.erase(it);
      evhttp_connection_set_closecb(evhttp_request_get_connection(pending.request), nullptr,
                                    nullptr);
      if (pending.is_metrics) {
        evhttp_add_header(evhttp_request_get_output_headers(pending.request), "Content-Type",
                          "application/openmetrics-text; version=1.0.0; charset=utf-8");
      }
      Send(pending.request, 200, text);
    }
  }

  static void Send(evhttp_request* request, int code, const std::string& text) {
    evkeyvalq* headers = evhttp_request_get_output_headers(request);
    if (evhttp_find_header(headers, "Content-Type") == nullptr) {
      evhttp_add_header(headers, "Content-Type", "text/plain; charset=utf-8");
    }
    evhttp_add_header(headers, "Cache-Control", "no-store");
    evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
    evbuffer* body = evbuffer_new();
    evbuffer_add(body, text.data(), text.size());
    evhttp_send_reply(request, code, nullptr, body);
    evbuffer_free(body);
  }

  struct Pending {
    evhttp_request* request = nullptr;
    bool is_metrics = false;
  };

  const std::string token_;
  const Ask ask_;
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();  // see Answers
  event_base* base_ = nullptr;
  evhttp* http_ = nullptr;
  event* stop_ = nullptr;
  int port_ = 0;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Pending> pending_;
  std::thread thread_;
};

HttpServer::HttpServer(std::unique_ptr<Service> service) : service_(std::move(service)) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return service_->port(); }
std::string HttpServer::address() const {
  return Bracketed(LoopbackHost()) + ":" + std::to_string(port());
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(int port, std::string token,
                                                              Ask ask) {
  auto service = std::make_unique<Service>(std::move(token), std::move(ask));
  RETURN_IF_ERROR(service->Start(port));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(service)));
}

}  // namespace paceline::master
