#include "grpcpp/client_context.h"
#include "paceline/base/status_macros.h"
#include "paceline/v1/master.grpc.pb.h"
#include "paceline/wire/client/channel.h"
#include "paceline/wire/security/certificates.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

absl::StatusOr<Credentials> Enroll(const JoinString& join,
                                   const std::vector<std::string>& node_names, Duration timeout,
                                   bool is_relay) {
  Credentials credentials{.token = join.token};
  if (join.ca_sha256.empty()) return credentials;
  ASSIGN_OR_RETURN(credentials.ca_pem, FetchAuthority(join.address, join.ca_sha256, timeout));
  ASSIGN_OR_RETURN(const PrivateKey key, MakeKey());
  ASSIGN_OR_RETURN(const std::string request, MakeRequest(key, "a host"));

  ASSIGN_OR_RETURN(const auto channel, Dial(join.address, credentials));
  const auto stub = v1::Enrollment::NewStub(channel);
  grpc::ClientContext context;
  AddToken(&context, credentials);
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::nanoseconds(timeout.nanoseconds()));
  v1::EnrollRequest message;
  *message.mutable_node_names() = {node_names.begin(), node_names.end()};
  message.set_request_pem(request);
  message.set_is_relay(is_relay);
  v1::EnrollReply reply;
  RETURN_IF_ERROR(ToAbsl(stub->Enroll(&context, message, &reply)));
  credentials.cert_pem = reply.certificate_pem();
  credentials.key_pem = key.pem;
  return credentials;
}

}  // namespace paceline::wire
