#include "paceline/wire/security/page_session.h"

#include <array>

#include "absl/strings/escaping.h"
#include "openssl/evp.h"
#include "openssl/hmac.h"
#include "paceline/base/check.h"
#include "paceline/base/text.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {
namespace {

// Keeps these hashes apart from any other use of the job's token as a key.
constexpr std::string_view kPurpose = "paceline page session 1 ";

std::string Proof(std::string_view job_token, std::string_view nonce) {
  const std::string text = Concat(kPurpose, nonce);
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash = {};
  unsigned int size = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), job_token.data(), static_cast<int>(job_token.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data(), &size);
  CHECK(made != nullptr);
  return absl::BytesToHexString({reinterpret_cast<const char*>(hash.data()), size});
}

}  // namespace

std::string MakePageSession(std::string_view job_token) {
  const std::string nonce = MakeToken();
  return Concat(nonce, ".", Proof(job_token, nonce));
}

bool IsPageSession(std::string_view job_token, std::string_view given) {
  const size_t dot = given.find('.');
  if (dot == std::string_view::npos || !IsToken(given.substr(0, dot))) return false;
  return TokensEqual(Proof(job_token, given.substr(0, dot)), given.substr(dot + 1));
}

}  // namespace paceline::wire
