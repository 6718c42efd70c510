// Ranks save in the grace of a stop. So after its first signal a rank is killed only when the
// shortest requested grace has passed, or when a person asked for force. A repeated request, or one
// that reaches the job and its nodes at once, does not shorten the grace.
//
// A node's grace begins with the request to stop. A rank process that the starter forks at that
// moment is signalled later and gets less than the whole grace. Such a rank does not count: it is
// still importing its modules and has nothing to save.

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "paceline/base/mark.h"
#include "paceline/core/signal_number.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class GraceKept final : public Check {
 public:
  void StopAsked(SimWorld&, std::optional<uint32_t> node, Duration grace, bool force) override {
    shortest_ = std::min(shortest_, grace);
    if (force && node.has_value()) forced_nodes_.insert(*node);
    if (force && !node.has_value()) is_job_forced_ = true;
  }

  void Signalled(SimWorld& world, const RankProcess& process, int signal) override {
    const Instant now = world.queue().now();
    if (signal != core::kSigkill) {
      if (process.is_running) signalled_at_.emplace(process.pid, now);
      return;
    }
    const auto asked = signalled_at_.find(process.pid);
    if (asked == signalled_at_.end()) return;
    if (is_job_forced_ || forced_nodes_.count(process.node) > 0) return;
    MARK("a rank used up its grace");
    const Duration given = std::min(shortest_, world.options().spec.timers.stop_grace);
    if (now - asked->second >= given) return;
    world.Fail("grace_kept",
               "rank " + ToString(process.rank) + " is killed " + ToString(now - asked->second) +
                   " after it was asked to end; the shortest grace is " + ToString(given));
  }

 private:
  std::map<int32_t, Instant> signalled_at_;  // by pid
  std::set<uint32_t> forced_nodes_;
  bool is_job_forced_ = false;
  Duration shortest_ = Duration::Seconds(1'000'000);
};

}  // namespace

std::unique_ptr<Check> MakeGraceKept() { return std::make_unique<GraceKept>(); }

}  // namespace paceline::sim
