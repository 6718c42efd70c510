#include "paceline/agent/hang/failed_call.h"

#include <signal.h>

#include <optional>
#include <vector>

#include "paceline/agent/hang/evidence_desk.h"
#include "paceline/base/text.h"
#include "paceline/diagnose/judge.h"

namespace paceline::agent {

void ExplainByCalls(const FlightRings& rings, uint32_t slots, Generation generation, Rank failed,
                    ExitCause* cause) {
  const bool is_own_end =
      (cause->kind == ExitCause::Kind::kExited && cause->code != 0 && !cause->port_taken) ||
      (cause->kind == ExitCause::Kind::kSignaled && cause->code == SIGABRT);
  if (!is_own_end) return;
  std::vector<RankEvidence> ranks;
  for (uint32_t local = 0; local < slots; ++local) {
    const std::optional<FlightReading> reading = rings.Read(local, generation);
    if (!reading.has_value() || reading->pulse.rank < 0) continue;
    RankEvidence& rank = ranks.emplace_back();
    rank.rank = Rank(static_cast<uint32_t>(reading->pulse.rank));
    TakeRing(*reading, reading->pulse.last_event_ns, &rank);
  }
  const auto other = diagnose::FindOtherCall(ranks, failed);
  if (!other.has_value()) return;
  Append(&cause->headline, cause->headline.empty() ? "" : "; ", other->sentence);
  cause->fingerprint = other->fingerprint;
  cause->cause_class = "collective_mismatch";
  cause->role = ExitCause::Role::kCause;
}

}  // namespace paceline::agent
