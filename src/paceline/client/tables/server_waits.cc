#include "paceline/client/tables/server_waits.h"

#include <unistd.h>

#include <cerrno>

#include "paceline/base/instant.h"
#include "paceline/base/text.h"

namespace paceline::client {
namespace {

constexpr int64_t kTellAfterNs = 2'000'000'000;

void SayToUser(const std::string& text) {
  const std::string line = Concat("paceline: ", text, "\n");
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nobody hears it
}

std::string Spent(int64_t ns) { return ToString(Duration::Nanoseconds(ns)); }

}  // namespace

std::string ServerWaits::NameOf(size_t server) { return Concat("table server ps-", server); }

void ServerWaits::Answered(size_t server, int64_t now_ns) {
  Wait& wait = waits_[server];
  if (wait.is_told) {
    SayToUser(Concat(NameOf(server), " answers again after ", Spent(now_ns - wait.since_ns)));
  }
  wait = {};
}

Result<void> ServerWaits::Owes(size_t server, const std::string& why, int64_t now_ns) {
  Wait& wait = waits_[server];
  if (wait.since_ns == 0) wait.since_ns = now_ns;
  const int64_t waited = now_ns - wait.since_ns;
  if (waited > patience_ns_) {
    return Failure{FailureKind::kSystem,
                   Concat(NameOf(server), " was away for ", Spent(patience_ns_), ": ", why),
                   ETIMEDOUT};
  }
  if (wait.is_told || waited < kTellAfterNs) return {};
  wait.is_told = true;
  SayToUser(Concat("this worker waits for ", NameOf(server), " (", why, "), at most ",
                   Spent(patience_ns_)));
  return {};
}

}  // namespace paceline::client
