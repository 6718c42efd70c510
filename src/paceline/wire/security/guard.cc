#include "paceline/wire/security/guard.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>

#include "grpc/grpc_security_constants.h"
#include "paceline/base/text.h"
#include "paceline/wire/security/certificates.h"

namespace paceline::wire {

grpc::Status Guard::CheckToken(const grpc::CallbackServerContext& context) const {
  const auto& metadata = context.client_metadata();
  const auto [begin, end] = metadata.equal_range("authorization");
  if (begin != end && std::next(begin) == end) {
    const std::string expected = "Bearer " + credentials_.token;
    if (TokensEqual(expected, {begin->second.data(), begin->second.size()})) {
      unproven_.Prove(context.peer());
      return grpc::Status::OK;
    }
  }
  return Failed(context, "the token is missing or wrong");
}

grpc::Status Guard::Check(const grpc::CallbackServerContext& context) const {
  grpc::Status status = CheckToken(context);
  if (!status.ok() || !credentials_.is_tls()) return status;
  if (context.auth_context()->IsPeerAuthenticated()) return status;
  return Failed(context, "a certificate of this job is missing");
}

grpc::Status Guard::Failed(const grpc::CallbackServerContext& context, const char* why) const {
  const Instant now = Instant::FromNanoseconds(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  if (failures_.Take(PeerHost(context.peer()), now)) {
    return {grpc::StatusCode::UNAUTHENTICATED, why};
  }
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many failed attempts from this address"};
}

namespace {

std::vector<std::string_view> UrisOfPeer(const grpc::CallbackServerContext& context) {
  std::vector<std::string_view> uris;
  for (const grpc::string_ref& uri :
       context.auth_context()->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  return uris;
}

}  // namespace

std::vector<std::string> NodesOfPeer(const grpc::CallbackServerContext& context) {
  std::vector<std::string> nodes;
  for (const std::string_view uri : UrisOfPeer(context)) {
    if (uri.starts_with(kNodeUri)) nodes.emplace_back(uri.substr(kNodeUri.size()));
  }
  return nodes;
}

bool IsOperator(const grpc::CallbackServerContext& context) {
  const std::vector<std::string_view> uris = UrisOfPeer(context);
  return std::find(uris.begin(), uris.end(), kOperatorUri) != uris.end();
}

std::vector<std::string> NodesActedFor(const grpc::CallbackServerContext& context) {
  const auto [begin, end] = context.client_metadata().equal_range(kNodesHeader);
  const std::vector<std::string_view> uris = UrisOfPeer(context);
  const bool is_relay = std::find(uris.begin(), uris.end(), kRelayUri) != uris.end();
  if (!is_relay || begin == end) return NodesOfPeer(context);
  const std::vector<std::string_view> names =
      SplitParts({begin->second.data(), begin->second.size()}, ",");
  return {names.begin(), names.end()};
}

}  // namespace paceline::wire
