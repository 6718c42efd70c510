#pragma once

// For tests of streams: a real server, with what its clients and its host received.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "gtest/gtest.h"
#include "paceline/base/fd.h"
#include "paceline/model/test_report.h"
#include "paceline/wire/client/agent_stream.h"
#include "paceline/wire/client/control_client.h"
#include "paceline/wire/server/master_server.h"
#include "paceline/wire/tcp_dial.h"

namespace paceline::wire {

inline constexpr auto kDeadline = std::chrono::seconds(60);
// For one request that is answered at once, on a machine that may stand still for a while.
inline constexpr Duration kAnswerPatience = Duration::Seconds(60);

// Received values of a sink, for which the test's thread can wait.
template <class Event>
class Heard {
 public:
  bool Post(Event event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
    return true;
  }
  // The next event of type T; earlier ones of other types are dropped.
  template <class T>
  std::optional<T> Next(std::chrono::milliseconds patience = kDeadline) {
    std::unique_lock lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
      while (!events_.empty()) {
        Event event = std::move(events_.front());
        events_.pop_front();
        if (T* found = std::get_if<T>(&event)) return std::move(*found);
      }
      if (changed_.wait_until(lock, until) == std::cv_status::timeout) return std::nullopt;
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
};

// A connection that sends nothing, as an unknown client may.
class MuteConnection {
 public:
  explicit MuteConnection(const std::string& address)
      : fd_(*DialTcp(address, began_ + kDeadline)) {}
  bool IsClosedWithin(std::chrono::milliseconds patience) const {
    pollfd wait = {.fd = fd_.get(), .events = POLLRDHUP, .revents = 0};
    return poll(&wait, 1, static_cast<int>(patience.count())) == 1;
  }
  // A server also closes a connection on which no handshake has come for ten seconds.
  bool IsClosedBeforeItsTime() const {
    return IsClosedWithin(std::chrono::milliseconds(0)) &&
           std::chrono::steady_clock::now() - began_ < std::chrono::seconds(10);
  }

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const Fd fd_;
};

// Reserves a loopback port for the servers of a test, which listen on it one after the other. The
// socket here is bound to the port and does not listen. So the kernel gives the port to no other
// process, and a server that sets SO_REUSEADDR can still listen on it.
class HeldPort {
 public:
  HeldPort() {
    sockaddr_in bound{};
    bound.sin_family = AF_INET;
    bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&bound);
    socklen_t size = sizeof(bound);
    const int on = 1;
    EXPECT_TRUE(bind(fd_.get(), any, size) == 0 && getsockname(fd_.get(), any, &size) == 0 &&
                setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(bound.sin_port));
  }
  const std::string& address() const { return address_; }

 private:
  const Fd fd_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string address_;
};

class StreamTest : public testing::Test {
 protected:
  // Every process of paceline ignores SIGPIPE, and every master accepts TLS 1.3 only.
  StreamTest() {
    std::signal(SIGPIPE, SIG_IGN);
    UseOnlyTls13();
  }

  // Each time at the same address.
  void Serve() {
    address_ = port_.address();
    auto server =
        MasterServer::Start({.listen = address_,
                             .credentials = server_credentials_,
                             .has_relays = has_relays_,
                             .streams_per_peer_max = streams_per_peer_max_,
                             .unproven_per_peer_max = unproven_per_peer_max_},
                            [this](ServerEvent event) { return heard_.Post(std::move(event)); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::unique_ptr<AgentStream> Agent(Heard<AgentStreamEvent>* heard,
                                     std::optional<Credentials> credentials = {}) {
    return std::make_unique<AgentStream>(
        AgentStreamOptions{.address = address_,
                           .credentials = credentials.value_or(client_credentials_)},
        [heard](AgentStreamEvent event) { heard->Post(std::move(event)); });
  }

  // Waits until the client is connected. WatchEvents does not wait: it fails if the first attempt
  // to connect takes too long.
  void AwaitMaster(ControlClient* client) {
    std::thread host([this] {
      if (const auto asked = heard_.Next<StatusAsked>()) asked->reply(JobStatus{});
    });
    EXPECT_TRUE(client->GetStatus().ok());
    host.join();
  }

  // Registers at each opening of the stream until the server hears it. gRPC reports a call that is
  // refused as open for a moment.
  std::optional<AgentSaid> RegisterUntilHeard(AgentStream* agent,
                                              Heard<AgentStreamEvent>* agent_heard) {
    std::atomic<bool> is_heard = false;
    std::thread registrar([&] {
      while (agent_heard->Next<StreamOpened>() && !is_heard) {
        agent->Send(Register{TestReport("node0")});
      }
    });
    const auto said = heard_.Next<AgentSaid>();
    is_heard = true;
    agent_heard->Post(StreamOpened{});  // ends the thread's wait
    registrar.join();
    return said;
  }

  // Registers at the next opening of the stream. nullopt: there is none, or the server hears
  // nothing.
  std::optional<AgentSaid> RegisterOnce(AgentStream* agent, Heard<AgentStreamEvent>* agent_heard) {
    if (!agent_heard->Next<StreamOpened>()) return std::nullopt;
    if (!agent->Send(Register{TestReport("node0")})) return std::nullopt;
    return heard_.Next<AgentSaid>();
  }

  // Registers the agent with three masters, which serve one after the other at one address.
  void RegisterWithEachMaster(AgentStream* agent, Heard<AgentStreamEvent>* agent_heard) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(RegisterOnce(agent, agent_heard));
      server_.reset();
      ASSERT_TRUE(agent_heard->Next<StreamBroken>());
      Serve();
    }
  }

  const HeldPort port_;
  const std::string token_ = MakeToken();
  ServerCredentials server_credentials_{.token = token_};
  Credentials client_credentials_{.token = token_};
  bool has_relays_ = false;
  uint32_t streams_per_peer_max_ = 0;
  uint32_t unproven_per_peer_max_ = 0;
  Heard<ServerEvent> heard_;
  std::unique_ptr<MasterServer> server_;
  std::string address_;
};

}  // namespace paceline::wire
