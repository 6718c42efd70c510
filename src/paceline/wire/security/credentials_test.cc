#include "paceline/wire/security/credentials.h"

#include "gtest/gtest.h"
#include "paceline/base/prng.h"
#include "paceline/base/test_dir.h"
#include "paceline/wire/security/certificates.h"
#include "paceline/wire/security/page_session.h"

namespace paceline::wire {
namespace {

TEST(Token, IsLongAndDifferentEachTime) {
  const std::string token = MakeToken();
  EXPECT_TRUE(IsToken(token));
  EXPECT_NE(token, MakeToken());
  EXPECT_TRUE(TokensEqual(token, token));
  EXPECT_FALSE(TokensEqual(token, MakeToken()));
  EXPECT_FALSE(TokensEqual(token, token.substr(1)));
  EXPECT_FALSE(TokensEqual("", ""));
}

TEST(JoinString, Survives) {
  for (const std::string address : {"10.0.0.1:29400", "[::1]:29400", "host-1.lab:1"}) {
    for (const std::string& ca : {std::string(), std::string(64, 'a')}) {
      const JoinString join{.address = address, .ca_sha256 = ca, .token = MakeToken()};
      const auto parsed = ParseJoinString(FormatJoinString(join));
      ASSERT_TRUE(parsed.ok()) << parsed.status();
      EXPECT_EQ(*parsed, join);
    }
  }
}

TEST(JoinString, ErrorsNameThePartAndNotTheToken) {
  const std::string token = MakeToken();
  const std::string whole = FormatJoinString({.address = "a:1", .token = token});
  Prng prng(1);
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    const auto parsed = ParseJoinString(whole.substr(0, cut));
    ASSERT_FALSE(parsed.ok()) << cut;
    EXPECT_EQ(std::string(parsed.status().message()).find(token.substr(0, 8)), std::string::npos);
  }
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole;
    text[prng.Below(text.size())] = static_cast<char>(prng.Below(256));
    const auto parsed = ParseJoinString(text);
    EXPECT_TRUE(!parsed.ok() || IsToken(parsed->token));
  }
  EXPECT_FALSE(ParseJoinString("paceline-join:v2:a:1:-:" + token).ok());
  EXPECT_FALSE(ParseJoinString("paceline-join:v1:a b:1:-:" + token).ok());
}

TEST(PageSession, IsKnownByEachMasterOfItsJobAlone) {
  const std::string job = MakeToken();
  const std::string session = MakePageSession(job);
  EXPECT_TRUE(IsPageSession(job, session));
  EXPECT_NE(MakePageSession(job), session);
  EXPECT_FALSE(IsPageSession(MakeToken(), session));
  EXPECT_FALSE(IsToken(session));
  for (const std::string& bad : {std::string(), std::string("."), job, job + ".", job + "." + job,
                                 session + "0", session.substr(1), "." + session}) {
    EXPECT_FALSE(IsPageSession(job, bad)) << bad;
  }
}

TEST(Certificates, AreSavedPrivatelyAndLoaded) {
  const TestDir own;
  const std::string& dir = own.path();
  const auto server = MakeServerCredentials("job", MakeToken());
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_TRUE(SaveServerCredentials(*server, dir).ok());
  const auto loaded = LoadServerCredentials(dir, server->token);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->cert_pem, server->cert_pem);
  const auto client = MakeClientCredentials(*loaded, {"node0"});
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(SaveCredentials(*client, dir).ok());
  EXPECT_TRUE(LoadCredentials(dir, server->token).ok());
  EXPECT_EQ(CaFingerprint(server->ca_pem)->size(), 64u);
  EXPECT_NE(*CaFingerprint(server->ca_pem), *CaFingerprint(client->cert_pem));
}

TEST(Certificates, OnlyRealRequestsAreSigned) {
  const auto ca = MakeAuthority("job");
  ASSERT_TRUE(ca.ok()) << ca.status();
  const auto key = MakeKey();
  const std::string request = *MakeRequest(*key, "node0");
  EXPECT_TRUE(SignRequest(*ca, request, {.names = {"node0"}}).ok());
  EXPECT_FALSE(SignRequest(*ca, "", {.names = {"node0"}}).ok());
  EXPECT_FALSE(SignRequest(*ca, ca->certificate_pem, {.names = {"node0"}}).ok());
  Prng prng(2);
  for (int i = 0; i < 500; ++i) {
    std::string text = request;
    const size_t at = prng.Below(text.size());
    if (text[at] == '\n') continue;
    text[at] = static_cast<char>('A' + prng.Below(26));
    const auto signed_ = SignRequest(*ca, text, {.names = {"node0"}});
    EXPECT_TRUE(!signed_.ok() || !signed_->empty());
  }
}

}  // namespace
}  // namespace paceline::wire
