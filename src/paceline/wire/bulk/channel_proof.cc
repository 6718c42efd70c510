#include "paceline/wire/bulk/channel_proof.h"

#include <openssl/rand.h>

#include <array>
#include <cstring>
#include <span>
#include <string>

#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/wire/bulk/bulk_format.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {
namespace {

absl::Status NotProven(const ProofTarget& target, std::string_view why) {
  return MakeStatus(absl::StatusCode::kPermissionDenied, Concat(target.address, " ", why));
}

std::string_view TextOf(std::span<const unsigned char> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::Status Fill(BulkNonce* nonce) {
  if (RAND_bytes(nonce->data(), static_cast<int>(nonce->size())) == 1) return absl::OkStatus();
  return absl::InternalError("the kernel has no random bytes");
}

}  // namespace

absl::Status ProveAsServer(BulkSocket* socket, std::string_view token, std::string_view magic) {
  const DialDeadline until = std::chrono::steady_clock::now() + kProofPatience;
  BulkNonce ours{};
  RETURN_IF_ERROR(Fill(&ours));
  std::string greeting(magic);
  greeting += TextOf(ours);
  RETURN_IF_ERROR(socket->Write(greeting.data(), greeting.size(), until));
  std::array<unsigned char, kBulkHelloBytes> hello{};
  RETURN_IF_ERROR(socket->Read(hello.data(), hello.size(), until));
  BulkNonce theirs{};
  std::memcpy(theirs.data(), hello.data(), theirs.size());
  const BulkProof expected = ProveBulk(token, BulkSide::kClient, ours, theirs);
  if (!TokensEqual(TextOf(expected), TextOf(std::span(hello).subspan(theirs.size())))) {
    return absl::UnauthenticatedError("a wrong token");
  }
  const BulkProof proof = ProveBulk(token, BulkSide::kServer, ours, theirs);
  return socket->Write(proof.data(), proof.size(), until);
}

absl::Status ProveAsClient(BulkSocket* socket, const ProofTarget& target, std::string_view token,
                           DialDeadline until) {
  std::array<char, kBulkGreetingBytes> greeting{};
  RETURN_IF_ERROR(socket->Read(greeting.data(), greeting.size(), until));
  if (std::string_view(greeting.data(), target.magic.size()) != target.magic) {
    return NotProven(target, "does not speak this channel");
  }
  BulkNonce theirs{};
  std::memcpy(theirs.data(), greeting.data() + target.magic.size(), theirs.size());
  BulkNonce ours{};
  RETURN_IF_ERROR(Fill(&ours));
  const BulkProof proof = ProveBulk(token, BulkSide::kClient, theirs, ours);
  RETURN_IF_ERROR(socket->Write(ours.data(), ours.size(), until));
  RETURN_IF_ERROR(socket->Write(proof.data(), proof.size(), until));
  BulkProof answer{};
  if (!socket->Read(answer.data(), answer.size(), until).ok()) {
    return NotProven(target, "does not accept this job's token");
  }
  if (!TokensEqual(TextOf(ProveBulk(token, BulkSide::kServer, theirs, ours)), TextOf(answer))) {
    return NotProven(target, "does not know this job's token");
  }
  return absl::OkStatus();
}

}  // namespace paceline::wire
