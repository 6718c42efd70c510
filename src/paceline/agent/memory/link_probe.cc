#include "paceline/agent/memory/link_probe.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/status_macros.h"
#include "paceline/wire/bulk/bulk_client.h"

namespace paceline::agent {
namespace {

constexpr int64_t kLeastWaitNs = 1'000'000;

// Fetches one chunk. Returns 10^9 bytes a second.
absl::StatusOr<double> FetchTestChunk(wire::BulkClient* client, std::byte* to, int64_t until_ns) {
  const auto left = [until_ns] {
    return Duration::Nanoseconds(std::max(kLeastWaitNs, until_ns - MonotonicNs()));
  };
  wire::BulkRequest request;
  request.is_test = true;
  const int64_t began_ns = MonotonicNs();
  ASSIGN_OR_RETURN(const wire::BulkAnswer answer, client->Ask(request, left()));
  const bool is_chunk = answer.kind == wire::BulkAnswer::Kind::kImage &&
                        answer.facts.file_bytes == wire::kBulkChunkBytes &&
                        answer.facts.notes_bytes == 0;
  if (!is_chunk) return absl::InvalidArgumentError("it sends something else than was asked for");
  RETURN_IF_ERROR(client->Read(to, wire::kBulkChunkBytes, left()));
  return static_cast<double>(wire::kBulkChunkBytes) /
         static_cast<double>(std::max<int64_t>(1, MonotonicNs() - began_ns));
}

absl::Status Probe(const LinkTry& order, const wire::Credentials& credentials,
                   const wire::BulkTls& tls, double* best) {
  const int64_t began_ns = MonotonicNs();
  ASSIGN_OR_RETURN(const auto client, wire::BulkClient::Dial({order.address, order.peer},
                                                             credentials, tls, kLinkDialTime));
  const std::unique_ptr<std::byte[]> bytes(new std::byte[wire::kBulkChunkBytes]);
  for (uint32_t i = 0; i < order.chunks; ++i) {
    if (i > 0 && MonotonicNs() - began_ns > kLinkEnough.nanoseconds()) break;
    ASSIGN_OR_RETURN(const double speed,
                     FetchTestChunk(client.get(), bytes.get(), began_ns + kLinkTime.nanoseconds()));
    *best = std::max(*best, speed);
  }
  return absl::OkStatus();
}

}  // namespace

LinkTested ProbeLink(const LinkTry& order, const wire::Credentials& credentials,
                     const wire::BulkTls& tls) {
  LinkTested tested{.round = order.round, .peer = order.peer, .gb_s = 0, .problem = ""};
  const absl::Status done = Probe(order, credentials, tls, &tested.gb_s);
  if (done.ok()) return tested;
  tested.problem = std::string(Text(done)).substr(0, kLinkProblemMax);
  if (tested.problem.empty()) tested.problem = "no answer";
  return tested;
}

}  // namespace paceline::agent
