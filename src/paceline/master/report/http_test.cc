#include "paceline/master/report/http.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "gtest/gtest.h"
#include "paceline/base/fd.h"
#include "paceline/base/prng.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/security/page_session.h"

namespace paceline::master {
namespace {

class HttpTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto echo = [](const std::string& path) {
      return [path](const HttpRequest& request, const HttpReply& reply) {
        reply({.text = "answer to " + path + " " + request.body});
        return true;
      };
    };
    Serve({{.path = "/metrics", .ask = echo("/metrics")},
           {.path = "/healthz", .ask = echo("/healthz")},
           {.path = "/", .access = HttpAccess::kAnyone, .ask = echo("/")},
           {.path = "/post", .access = HttpAccess::kAnyone, .is_post = true, .ask = echo("/post")},
           {.path = "/page", .access = HttpAccess::kReader, .ask = echo("/page")},
           {.path = "/feed", .access = HttpAccess::kReader, .open = [](const HttpRequest& request) {
              return "data: after " + request.last_event_id + "\n\n";
            }}});
  }
  void Serve(std::vector<HttpRoute> routes) {
    auto server = HttpServer::Start({.token = token_, .routes = std::move(routes)});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // A connection that has sent these bytes.
  Fd Sent(const std::string& bytes, int receive_buffer = 0) const {
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (receive_buffer > 0) {
      setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool is_sent =
        connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
        send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0;
    return is_sent ? std::move(fd) : Fd();
  }
  // What comes until `end` has come, or until the server closes the connection.
  static std::string ReadTo(int fd, const std::string& end) {
    std::string answer;
    char buffer[4096];
    for (ssize_t count = 0; answer.find(end) == std::string::npos || end.empty();) {
      if ((count = read(fd, buffer, sizeof(buffer))) <= 0) break;
      answer.append(buffer, static_cast<size_t>(count));
    }
    return answer;
  }
  // All that the server sends as an answer to these bytes.
  std::string Exchange(const std::string& bytes) const {
    const Fd fd = Sent(bytes);
    if (!fd.is_open()) return "";
    shutdown(fd.get(), SHUT_WR);
    return ReadTo(fd.get(), "");
  }
  Fd OpenFeed(const std::string& last_event_id, int receive_buffer = 0) const {
    return Sent("GET /feed HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
                    wire::MakePageSession(token_) + "\r\nLast-Event-ID: " + last_event_id +
                    "\r\n\r\n",
                receive_buffer);
  }
  size_t Viewers() const {
    std::promise<size_t> count;
    server_->Post([&] { count.set_value(server_->viewers()); });
    return count.get_future().get();
  }
  std::string Get(const std::string& path, const std::string& host, const std::string& token,
                  const std::string& method = "GET") {
    return Exchange(method + " " + path + " HTTP/1.1\r\nHost: " + host +
                    "\r\nConnection: close\r\nAuthorization: Bearer " + token + "\r\n\r\n");
  }

  const std::string token_ = wire::MakeToken();
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTest, AnswersWhoMayAsk) {
  const std::string answer = Get("/metrics", "127.0.0.1:9", token_);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
  EXPECT_NE(answer.find("answer to /metrics"), std::string::npos);
  EXPECT_NE(Get("/healthz", "localhost", token_).find("answer to /healthz"), std::string::npos);
}

TEST_F(HttpTest, TellsNothingToAnybodyElse) {
  for (const char* path : {"/metrics", "/healthz", "/page", "/feed", "/x"}) {
    EXPECT_TRUE(Get(path, "localhost", wire::MakeToken()).starts_with("HTTP/1.1 401")) << path;
    EXPECT_TRUE(Get(path, "localhost", "").starts_with("HTTP/1.1 401")) << path;
    // A web page whose name was rebound to this address.
    EXPECT_TRUE(Get(path, "evil.test", token_).starts_with("HTTP/1.1 403")) << path;
    EXPECT_TRUE(Get(path, "127.0.0.1.evil.test", token_).starts_with("HTTP/1.1 403")) << path;
  }
  EXPECT_TRUE(Get("/x", "localhost", token_).starts_with("HTTP/1.1 404"));
  EXPECT_FALSE(Get("/metrics", "localhost", token_, "POST").starts_with("HTTP/1.1 200"));
  EXPECT_EQ(Exchange("GET /metrics HTTP/1.1\r\n\r\n").find("answer to"), std::string::npos);
}

TEST_F(HttpTest, ASessionReadsThePageAlone) {
  const std::string session = wire::MakePageSession(token_);
  EXPECT_TRUE(Get("/page", "localhost:1", session).starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(Get("/page", "localhost:1", token_).starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(Get("/metrics", "localhost", session).starts_with("HTTP/1.1 401"));
  EXPECT_TRUE(Get("/page", "evil.test", session).starts_with("HTTP/1.1 403"));
  const std::string other = wire::MakePageSession(wire::MakeToken());
  EXPECT_TRUE(Get("/page", "localhost", other).starts_with("HTTP/1.1 401"));
}

TEST_F(HttpTest, AnyoneMayGetWhatTellsNothing) {
  const std::string page = Get("/", "localhost", "");
  EXPECT_TRUE(page.starts_with("HTTP/1.1 200")) << page;
  EXPECT_NE(page.find("frame-ancestors 'none'"), std::string::npos);
  EXPECT_TRUE(Get("/", "evil.test", "").starts_with("HTTP/1.1 403"));
  const std::string head = "POST /post HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  const std::string posted = Exchange(head + "Content-Length: 4\r\n\r\ncode");
  EXPECT_NE(posted.find("answer to /post code"), std::string::npos) << posted;
  EXPECT_FALSE(Exchange(head + "Content-Length: 99999\r\n\r\n" + std::string(99'999, 'x'))
                   .starts_with("HTTP/1.1 200"));
}

TEST_F(HttpTest, AStreamGoesOnUntilItsReaderLeaves) {
  Fd feed = OpenFeed("17");
  EXPECT_NE(ReadTo(feed.get(), "after 17").find("text/event-stream"), std::string::npos);
  server_->Post([&] { server_->Broadcast("id: 18\ndata: new\n\n"); });
  EXPECT_NE(ReadTo(feed.get(), "data: new").find("id: 18"), std::string::npos);
  EXPECT_EQ(Viewers(), 1u);
  feed = Fd();
  while (Viewers() > 0) std::this_thread::yield();
}

TEST_F(HttpTest, AReaderThatReadsNothingIsClosed) {
  const Fd still = OpenFeed("1", /*receive_buffer=*/4096);
  const Fd reading = OpenFeed("1");
  EXPECT_NE(ReadTo(reading.get(), "after 1"), "");
  while (Viewers() < 2) std::this_thread::yield();
  for (int round = 0; Viewers() > 1; ++round) {
    const std::string end = "round " + std::to_string(round) + ".";
    const std::string events = "data: " + std::string(100'000, 'x') + end + "\n\n";
    server_->Post([&] { server_->Broadcast(events); });
    ASSERT_NE(ReadTo(reading.get(), end), "");
  }
  EXPECT_EQ(Viewers(), 1u);
}

TEST_F(HttpTest, OneViewerTooManyIsToldWhy) {
  std::vector<Fd> feeds;
  for (size_t i = 0; i < HttpServer::kViewersMax; ++i) {
    feeds.push_back(OpenFeed("1"));
    EXPECT_NE(ReadTo(feeds.back().get(), "after 1"), "");
  }
  const Fd extra = OpenFeed("1");
  const std::string answer = ReadTo(extra.get(), "Close one of them");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503")) << answer;
  EXPECT_NE(answer.find("32 viewers"), std::string::npos);
  feeds.pop_back();
  while (Viewers() == HttpServer::kViewersMax) std::this_thread::yield();
  EXPECT_NE(ReadTo(OpenFeed("2").get(), "after 2").find("200 OK"), std::string::npos);
}

TEST_F(HttpTest, FuzzRequests) {
  const std::string valid = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
                            wire::MakeToken() + "\r\nConnection: close\r\n\r\n";
  Prng prng(6);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = valid;
    for (uint64_t changes = 1 + prng.Below(5); changes > 0; --changes) {
      bytes[prng.Below(bytes.size())] = static_cast<char>(prng.Below(256));
    }
    EXPECT_EQ(Exchange(bytes).find("answer to"), std::string::npos);
  }
  Exchange("GET /metrics HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n");
  EXPECT_TRUE(Get("/metrics", "localhost", token_).starts_with("HTTP/1.1 200"));
}

TEST_F(HttpTest, WhoProvesNothingIsServedOnce) {
  const std::string twice = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  const std::string proof = "Authorization: Bearer " + token_ + "\r\n";
  const auto count = [&](const std::string& bytes) {
    const Fd fd = Sent(bytes);
    std::string answers = ReadTo(fd.get(), "answer to /");
    // The second one is sent when the first has come, as a client that keeps a connection does.
    send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    answers += ReadTo(fd.get(), "answer to /");
    size_t found = 0;
    for (size_t at = 0; (at = answers.find("answer to /", at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count(twice + "\r\n"), 1u);
  EXPECT_EQ(count(twice + proof + "\r\n"), 2u);
}

TEST_F(HttpTest, ManyConnectionsAtOnceAreServedOneAfterTheOther) {
  std::vector<Fd> connections;
  for (int i = 0; i < 100; ++i) {
    connections.push_back(Sent("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  }
  for (const Fd& one : connections) {
    EXPECT_NE(ReadTo(one.get(), "answer to /").find("HTTP/1.1 200"), std::string::npos);
  }
}

TEST_F(HttpTest, WithoutDescriptorsItWaitsAndGoesOn) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const Fd client = Sent("GET /");  // accepted, or about to be
  EXPECT_NE(Get("/", "localhost", token_), "");
  // None is left for the server to accept with; this connection has its own.
  const Fd waiting(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const rlimit none{.rlim_cur = 3, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server_->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(waiting.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the server meets the limit
  setrlimit(RLIMIT_NOFILE, &before);
  const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  send(waiting.get(), request.data(), request.size(), MSG_NOSIGNAL);
  EXPECT_NE(ReadTo(waiting.get(), "answer to /").find("HTTP/1.1 200"), std::string::npos);
}

TEST_F(HttpTest, ALateAnswerIsDropped) {
  std::promise<HttpReply> asked;
  Serve({{.path = "/healthz", .ask = [&](const HttpRequest&, HttpReply reply) {
            asked.set_value(std::move(reply));
            return true;
          }}});
  std::string answer = "none yet";
  std::thread client([&] { answer = Get("/healthz", "localhost", token_); });
  const HttpReply late = asked.get_future().get();
  server_.reset();
  late({.text = "too late"});
  client.join();
  EXPECT_EQ(answer, "");
}

}  // namespace
}  // namespace paceline::master
