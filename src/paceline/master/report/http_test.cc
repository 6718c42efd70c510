#include "paceline/master/report/http.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "gtest/gtest.h"
#include "paceline/base/prng.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::master {
namespace {

class HttpTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server = HttpServer::Start(0, token_, [](const std::string& path, auto reply) {
      reply("answer to " + path);
      return true;
    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // All that the server sends as an answer to these bytes.
  std::string Exchange(const std::string& bytes) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string answer;
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
        send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0) {
      shutdown(fd, SHUT_WR);
      char buffer[4096];
      for (ssize_t count = 0; (count = read(fd, buffer, sizeof(buffer))) > 0;) {
        answer.append(buffer, static_cast<size_t>(count));
      }
    }
    close(fd);
    return answer;
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
  EXPECT_NE(answer.find("application/openmetrics-text"), std::string::npos);
  EXPECT_NE(answer.find("answer to /metrics"), std::string::npos);
  EXPECT_NE(Get("/healthz", "localhost", token_).find("answer to /healthz"), std::string::npos);
}

TEST_F(HttpTest, TellsNothingToAnybodyElse) {
  for (const char* path : {"/metrics", "/healthz", "/", "/x"}) {
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

TEST_F(HttpTest, ALateAnswerIsDropped) {
  std::promise<HttpServer::Reply> asked;
  auto server = HttpServer::Start(0, token_, [&](const std::string&, HttpServer::Reply reply) {
    asked.set_value(std::move(reply));
    return true;
  });
  ASSERT_TRUE(server.ok());
  server_ = *std::move(server);
  std::string answer = "none yet";
  std::thread client([&] { answer = Get("/healthz", "localhost", token_); });
  const HttpServer::Reply late = asked.get_future().get();
  server_.reset();
  late("too late");
  client.join();
  EXPECT_EQ(answer, "");
}

}  // namespace
}  // namespace paceline::master
