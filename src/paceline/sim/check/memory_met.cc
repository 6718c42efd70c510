// The memory of nodes: a node is told to run out of it only if its ranks use more and more; no
// limit is above `most`; no world follows a kill at `most`. If nothing else disturbs the job, a
// leak is met before the kernel kills a rank below `most`.

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/core/record.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/fault/fault.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class MemoryMet final : public Check {
 public:
  void Decided(SimWorld& world, const Turn& turn) override {
    for (const core::Record& record : turn.actions.records) {
      const auto* told = std::get_if<core::MemoryShort>(&record.fact);
      if (told != nullptr) Judge(world, record, *told);
    }
  }

  void Ended(SimWorld& world, const RankProcess& process, const ExitCause& cause) override {
    if (cause.memory_limit == 0) return;
    const std::string& name = world.node(process.node).name();
    kills_.insert({name, cause.memory_limit});
    const bool is_at_most = cause.memory_limit >= world.options().spec.memory_most;
    if (is_at_most || process.has_jumped || !IsCalm(world)) return;
    world.Fail("memory_met", "rank " + ToString(process.rank) + " on " + name +
                                 " leaked, and was killed before its limit was raised");
  }

  void Persisted(SimWorld& world, const core::Record& record) override {
    if (const auto* failed = std::get_if<core::RankFailed>(&record.fact)) {
      const bool is_at_most = failed->cause.cgroup_oom && failed->cause.memory_limit > 0 &&
                              failed->cause.memory_limit >= world.options().spec.memory_most;
      if (is_at_most && failed->charged) must_stop_ = true;
    }
    // The loss of its node explains the rank's failure, so the job may go on.
    const auto* lost = std::get_if<core::NodeLost>(&record.fact);
    if (lost != nullptr && lost->explains) must_stop_ = false;
    if (!must_stop_ || !std::holds_alternative<core::WorldFormed>(record.fact)) return;
    world.Fail("memory_met", "after a kill at most: " + core::Sentence(record));
  }

  void Succeeded(SimWorld&) override { must_stop_ = false; }

 private:
  // Only leaks strike this run.
  static bool IsCalm(SimWorld& world) {
    const auto& strikes = world.options().strikes;
    if (world.options().crash_at_record.has_value()) return false;
    return std::all_of(strikes.begin(), strikes.end(), [](const Strike& strike) {
      return AllFaults()[strike.fault].name == "leak";
    });
  }

  // Ranks that use more than at their start.
  static bool Grows(SimWorld& world, const std::string& name) {
    for (uint32_t i = 0; i < world.node_count(); ++i) {
      if (world.node(i).name() != name) continue;
      for (const auto& [pid, process] : world.node(i).processes()) {
        if (process.memory > world.options().memory.rank_bytes) return true;
      }
    }
    return false;
  }

  void Judge(SimWorld& world, const core::Record& record, const core::MemoryShort& told) {
    const JobSpec& spec = world.options().spec;
    const std::string sentence = core::Sentence(record);
    if (told.next_limit > spec.memory_most) world.Fail("memory_met", "too much: " + sentence);
    if (told.next_limit > 0 && told.next_limit <= told.memory.limit) {
      world.Fail("memory_met", "not more: " + sentence);
    }
    if (told.is_kill) {
      MARK("a kill for memory is answered");
      if (!kills_.contains({told.name, told.memory.limit})) {
        world.Fail("memory_met", "nothing was killed: " + sentence);
      }
      return;
    }
    MARK("a leak is met");
    // In another run its rank may have ended since the node told.
    if (!Grows(world, told.name) && IsCalm(world))
      world.Fail("memory_met", "no rank leaks: " + sentence);
  }

  std::set<std::pair<std::string, uint64_t>> kills_;  // by the kernel: node, limit
  bool must_stop_ = false;
};

}  // namespace

std::unique_ptr<Check> MakeMemoryMet() { return std::make_unique<MemoryMet>(); }

}  // namespace paceline::sim
