#include "paceline/master/report/http.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "event2/buffer.h"
#include "event2/event.h"
#include "event2/http.h"
#include "event2/listener.h"
#include "event2/thread.h"
#include "paceline/base/fd.h"
#include "paceline/base/host_text.h"
#include "paceline/base/status_macros.h"
#include "paceline/master/report/http_listen.h"
#include "paceline/master/report/http_streams.h"
#include "paceline/model/problem.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/security/page_session.h"

namespace paceline::master {
namespace {

constexpr int kHeaderBytesMax = 8 * 1024;
constexpr int kBodyBytesMax = 1024;
constexpr int kSecondsMax = 10;  // to send a request, and to read an answer
constexpr size_t kPendingMax = 64;
// More connections in one turn wait in the kernel. Whoever has proved nothing keeps a connection
// for one request, and a silent one for kSecondsMax at most, so this also bounds how many there
// are.
constexpr int kConnectionsATurn = 25;
constexpr timeval kTurn{0, 100'000};  // seconds, microseconds

// Tasks from other threads. Owners: the service, and each reply not yet called.
struct Tasks {
  std::mutex mutex;  // guards the members below
  std::vector<std::function<void()>> ready;
  event* wake = nullptr;  // null: the service has ended

  void Post(std::function<void()> task) {
    const std::lock_guard lock(mutex);
    if (wake == nullptr) return;
    ready.push_back(std::move(task));
    event_active(wake, 0, 0);
  }
};

bool IsThisHost(std::string_view host) {
  if (host.starts_with("[::1]")) {
    host.remove_prefix(5);
    return host.empty() || host.front() == ':';
  }
  host = host.substr(0, host.find(':'));
  return host == "localhost" || host == "127.0.0.1";
}

std::string HeaderOf(evhttp_request* request, const char* name) {
  const char* value = evhttp_find_header(evhttp_request_get_input_headers(request), name);
  return value == nullptr ? "" : value;
}

HttpRequest RequestOf(evhttp_request* request) {
  evbuffer* body = evhttp_request_get_input_buffer(request);
  const size_t size = evbuffer_get_length(body);
  const auto* bytes = reinterpret_cast<const char*>(evbuffer_pullup(body, -1));
  return {.body = size == 0 ? std::string() : std::string(bytes, size),
          .last_event_id = HeaderOf(request, "Last-Event-ID")};
}

void SendAnswer(evhttp_request* request, const HttpAnswer& answer) {
  evkeyvalq* headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Content-Type", answer.type.c_str());
  evhttp_add_header(headers, "Cache-Control", "no-store");
  evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
  // No other page may show this one inside itself, and no link from it tells where it was.
  evhttp_add_header(headers, "Content-Security-Policy", "frame-ancestors 'none'");
  evhttp_add_header(headers, "Referrer-Policy", "no-referrer");
  evbuffer* body = evbuffer_new();
  evbuffer_add(body, answer.text.data(), answer.text.size());
  evhttp_send_reply(request, answer.code, nullptr, body);
  evbuffer_free(body);
}

// The connection serves no other request.
void EndAfterAnswer(evhttp_request* request) {
  evhttp_add_header(evhttp_request_get_output_headers(request), "Connection", "close");
}

absl::Status CannotListen(int port, int error) {
  const std::string address = Bracketed(LoopbackHost()) + ":" + std::to_string(port);
  return ToStatus(
      absl::StatusCode::kAlreadyExists,
      {.code = "PL-E031",
       .what = "the master cannot serve HTTP on " + address,
       .where = address,
       .why = error == EADDRINUSE ? "another process listens on that port" : std::strerror(error),
       .fix = "choose another network.http_port, or leave it out to get a free one"});
}

}  // namespace

class HttpServer::Service {
 public:
  explicit Service(Options options) : options_(std::move(options)) {}

  absl::Status Start() {
    evthread_use_pthreads();
    base_ = event_base_new();
    http_ = evhttp_new(base_);
    stop_ = event_new(base_, -1, EV_PERSIST, &Service::OnStop, this);
    beat_ = event_new(base_, -1, EV_PERSIST, &Service::OnBeat, this);
    tasks_->wake = event_new(base_, -1, EV_PERSIST, &Service::OnTasks, this);
    event_add(stop_, nullptr);
    event_add(tasks_->wake, nullptr);
    const timeval interval{kBeatSeconds, 0};
    event_add(beat_, &interval);
    evhttp_set_max_headers_size(http_, kHeaderBytesMax);
    evhttp_set_max_body_size(http_, kBodyBytesMax);
    evhttp_set_timeout(http_, kSecondsMax);
    evhttp_set_allowed_methods(http_, EVHTTP_REQ_GET | EVHTTP_REQ_POST);
    evhttp_set_gencb(http_, &Service::OnRequest, this);
    Fd listener = ListenOnLoopback(options_.port);
    if (!listener.is_open()) return CannotListen(options_.port, errno);
    port_ = BoundPort(listener.get());
    evhttp_bound_socket* bound = evhttp_accept_socket_with_handle(http_, listener.get());
    if (bound == nullptr) return CannotListen(options_.port, EINVAL);
    listener.Release();  // libevent closes it
    listener_ = evhttp_bound_socket_get_listener(bound);
    turn_ = evtimer_new(base_, &Service::OnTurn, this);
    evconnlistener_set_error_cb(listener_, &Service::OnAcceptFailed);
    evhttp_set_bevcb(http_, &Service::OnConnection, this);
    thread_ = std::thread([this] { event_base_dispatch(base_); });
    return absl::OkStatus();
  }

  ~Service() {
    if (thread_.joinable()) {
      event_active(stop_, 0, 0);
      thread_.join();
    }
    {
      const std::lock_guard lock(tasks_->mutex);
      event_free(std::exchange(tasks_->wake, nullptr));
      tasks_->ready.clear();
    }
    is_ending_ = true;
    event_free(stop_);
    event_free(beat_);
    if (turn_ != nullptr) event_free(turn_);
    evhttp_free(http_);
    event_base_free(base_);
  }

  int port() const { return port_; }
  void Post(std::function<void()> task) { tasks_->Post(std::move(task)); }
  void Broadcast(const std::string& events) { streams_.Send(events, kBacklogBytesMax); }
  size_t viewers() const { return streams_.size(); }

 private:
  static void OnStop(int, short, void* self) {
    event_base_loopbreak(static_cast<Service*>(self)->base_);
  }
  static void OnRequest(evhttp_request* request, void* self) {
    static_cast<Service*>(self)->Answer(request);
  }
  static void OnTasks(int, short, void* self) { static_cast<Service*>(self)->RunTasks(); }
  static void OnTurn(int, short, void* self) {
    auto* service = static_cast<Service*>(self);
    service->accepted_ = 0;
    evconnlistener_enable(service->listener_);
  }
  // Called for each new connection; libevent makes the buffer itself.
  static bufferevent* OnConnection(event_base*, void* self) {
    auto* service = static_cast<Service*>(self);
    if (service->accepted_++ == 0) event_add(service->turn_, &kTurn);
    if (service->accepted_ >= kConnectionsATurn) evconnlistener_disable(service->listener_);
    return nullptr;
  }
  // There are no descriptors left, so that to accept again at once would be a busy loop: the next
  // beat does.
  static void OnAcceptFailed(evconnlistener* listener, void*) { evconnlistener_disable(listener); }
  static void OnBeat(int, short, void* self) { static_cast<Service*>(self)->Beat(); }
  static void OnClose(evhttp_connection* connection, void* self) {
    static_cast<Service*>(self)->Closed(connection);
  }

  // The checks come before anything about the job is answered.
  void Answer(evhttp_request* request) {
    if (!IsThisHost(HeaderOf(request, "Host"))) {
      EndAfterAnswer(request);
      SendAnswer(request, {.code = 403, .text = "this host name is not served\n"});
      return;
    }
    const bool is_post = evhttp_request_get_command(request) == EVHTTP_REQ_POST;
    const bool is_proven = IsAllowed(HttpAccess::kReader, HeaderOf(request, "Authorization"));
    if (!is_proven) EndAfterAnswer(request);
    const std::string path = evhttp_request_get_uri(request);
    const HttpRoute* route = nullptr;
    for (const HttpRoute& one : options_.routes) {
      if (one.path == path && one.is_post == is_post) route = &one;
    }
    const HttpAccess access = route == nullptr ? HttpAccess::kJob : route->access;
    if (!IsAllowed(access, HeaderOf(request, "Authorization"))) {
      SendAnswer(request, {.code = 401, .text = "the token is missing or wrong\n"});
    } else if (route == nullptr) {
      SendAnswer(request, {.code = 404, .text = KnownPaths()});
    } else if (route->open != nullptr) {
      OpenStream(request, *route);
    } else {
      Forward(request, *route);
    }
  }

  bool IsAllowed(HttpAccess access, std::string_view given) const {
    constexpr std::string_view kScheme = "Bearer ";
    if (access == HttpAccess::kAnyone) return true;
    if (!given.starts_with(kScheme)) return false;
    given.remove_prefix(kScheme.size());
    const bool is_job = wire::TokensEqual(options_.token, given);
    return is_job || (access == HttpAccess::kReader && wire::IsPageSession(options_.token, given));
  }

  std::string KnownPaths() const {
    std::string text = "there are";
    for (const HttpRoute& route : options_.routes) text += " " + route.path;
    return text + "\n";
  }

  void OpenStream(evhttp_request* request, const HttpRoute& route) {
    if (streams_.size() >= kViewersMax) {
      SendAnswer(request, {.code = 503,
                           .text = "32 viewers have this job's page open, which is the most that "
                                   "its master serves. Close one of them.\n"});
      return;
    }
    evhttp_connection_set_closecb(evhttp_request_get_connection(request), &Service::OnClose, this);
    streams_.Open(request, route.open(RequestOf(request)));
  }

  void Forward(evhttp_request* request, const HttpRoute& route) {
    constexpr const char* kOverloaded = "overloaded\n";
    if (pending_.size() >= kPendingMax) {
      SendAnswer(request, {.code = 503, .text = kOverloaded});
      return;
    }
    const uint64_t id = ++last_id_;
    pending_[id] = request;
    evhttp_connection_set_closecb(evhttp_request_get_connection(request), &Service::OnClose, this);
    const bool taken = route.ask(RequestOf(request), [tasks = tasks_, this, id](HttpAnswer answer) {
      // A task runs only while the service lives.
      tasks->Post([this, id, answer = std::move(answer)] { Finish(id, answer); });
    });
    if (taken) return;
    pending_.erase(id);
    SendAnswer(request, {.code = 503, .text = kOverloaded});
  }

  void Finish(uint64_t id, const HttpAnswer& answer) {
    const auto it = pending_.find(id);
    if (it == pending_.end()) return;
    evhttp_request* request = it->second;
    pending_.erase(it);
    evhttp_connection_set_closecb(evhttp_request_get_connection(request), nullptr, nullptr);
    SendAnswer(request, answer);
  }

  // The client has gone; libevent frees its request.
  void Closed(evhttp_connection* connection) {
    std::erase_if(pending_, [connection](const auto& entry) {
      return evhttp_request_get_connection(entry.second) == connection;
    });
    if (streams_.Ended(connection) && !is_ending_) TellBeat();
  }

  void RunTasks() {
    std::vector<std::function<void()>> ready;
    {
      const std::lock_guard lock(tasks_->mutex);
      ready.swap(tasks_->ready);
    }
    for (const auto& task : ready) task();
  }

  // A comment: libevent closes a connection that is still, and a reader learns that all is well.
  void Beat() {
    Broadcast(":\n\n");
    TellBeat();
    evconnlistener_enable(listener_);
  }

  void TellBeat() const {
    if (options_.on_beat != nullptr) options_.on_beat(streams_.size());
  }

  const Options options_;
  const std::shared_ptr<Tasks> tasks_ = std::make_shared<Tasks>();  // see Tasks
  event_base* base_ = nullptr;
  evhttp* http_ = nullptr;
  event* stop_ = nullptr;
  event* beat_ = nullptr;
  event* turn_ = nullptr;
  evconnlistener* listener_ = nullptr;  // of http_
  int accepted_ = 0;                    // in this turn
  int port_ = 0;
  bool is_ending_ = false;
  uint64_t last_id_ = 0;
  std::map<uint64_t, evhttp_request*> pending_;
  HttpStreams streams_;
  std::thread thread_;
};

HttpServer::HttpServer(std::unique_ptr<Service> service) : service_(std::move(service)) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return service_->port(); }
std::string HttpServer::address() const {
  return Bracketed(LoopbackHost()) + ":" + std::to_string(port());
}
void HttpServer::Post(std::function<void()> task) { service_->Post(std::move(task)); }
void HttpServer::Broadcast(const std::string& events) { service_->Broadcast(events); }
size_t HttpServer::viewers() const { return service_->viewers(); }

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(Options options) {
  auto service = std::make_unique<Service>(std::move(options));
  RETURN_IF_ERROR(service->Start());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(service)));
}

}  // namespace paceline::master
