#include "paceline/wire/bulk/bulk_client.h"

#include <chrono>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/wire/bulk/channel_proof.h"
#include "paceline/wire/tcp_dial.h"

namespace paceline::wire {
namespace {

constexpr size_t kReadAhead = size_t{256} << 10;

DialDeadline In(Duration duration) {
  return std::chrono::steady_clock::now() + std::chrono::nanoseconds(duration.nanoseconds());
}

}  // namespace

absl::StatusOr<std::unique_ptr<BulkClient>> BulkClient::Dial(const BulkTarget& target,
                                                             const Credentials& credentials,
                                                             const BulkTls& tls, Duration timeout) {
  const DialDeadline until = In(timeout);
  ASSIGN_OR_RETURN(Fd fd, DialTcp(target.address, until));
  ASSIGN_OR_RETURN(auto socket,
                   BulkSocket::Connect(std::move(fd), tls, target.node, until, kReadAhead));
  RETURN_IF_ERROR(
      ProveAsClient(socket.get(), {target.address, kBulkMagic}, credentials.token, until));
  return std::unique_ptr<BulkClient>(new BulkClient(std::move(socket)));
}

absl::StatusOr<BulkAnswer> BulkClient::Ask(const BulkRequest& request, Duration patience) {
  const DialDeadline until = In(patience);
  const std::string text = EncodeBulk(request);
  RETURN_IF_ERROR(socket_->Write(text.data(), text.size(), until));
  uint32_t size = 0;
  RETURN_IF_ERROR(socket_->Read(&size, sizeof(size), until));
  if (size > kBulkAnswerBytesMax) {
    return absl::InvalidArgumentError("the answer is longer than any is");
  }
  std::string answer(size, '\0');
  RETURN_IF_ERROR(socket_->Read(answer.data(), answer.size(), until));
  return ParseBulkAnswer(answer);
}

absl::Status BulkClient::Read(std::byte* to, size_t bytes, Duration patience) {
  return socket_->Read(to, bytes, In(patience));
}

}  // namespace paceline::wire
