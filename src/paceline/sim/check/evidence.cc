// Verdicts need a reason in the world. A node is lost only after silence, a witness, a reboot, the
// end of its stream, or a start that it did not begin in time. (It may receive nothing and still
// send.) It is evicted only after its own failure, or if its checks fail (links_right has those of
// its links). A rank failed only if its
// process is dead or never started. A world is formed anew only after one of these, or to grow.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "paceline/core/node_map.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class Evidence final : public Check {
 public:
  void Restored(SimWorld& world) override {
    heard_ = {};  // a new master counts every node as heard at its start
    started_ = world.master().clock();
    formed_ = started_;  // and the time for a start begins anew
  }

  void Started(SimWorld& world, const RankProcess& process) override {
    Generation& newest = newest_start_[world.node(process.node).name()];
    newest = std::max(newest, process.generation);
  }

  void Ended(SimWorld& world, const RankProcess& process, const ExitCause&) override {
    dead_.insert({world.node(process.node).name(), process.generation, process.rank});
  }

  void Decided(SimWorld& world, const Turn& turn) override {
    Hear(world, turn);
    for (const core::Record& record : turn.actions.records) {
      if (const auto* lost = std::get_if<core::NodeLost>(&record.fact)) Judge(world, turn, *lost);
      if (const auto* out = std::get_if<core::NodeEvicted>(&record.fact)) Judge(world, *out);
      if (const auto* failed = std::get_if<core::RankFailed>(&record.fact)) {
        failed_nodes_.insert(failed->node);
        Judge(world, *failed);
      }
      if (const auto* formed = std::get_if<core::WorldFormed>(&record.fact)) {
        formed_ = turn.now;
        generation_ = formed->world.generation;
        if (formed->world.restart_count > 0 && record.causes.empty()) {
          world.Fail("evidence", "generation " + ToString(formed->world.generation) +
                                     " was formed without a cause");
        }
      }
    }
  }

 private:
  void Hear(SimWorld& world, const Turn& turn) {
    speaker_ = NodeId();
    witness_.clear();
    returned_.clear();
    // Messages over a replaced connection are not signs of life of the node's present agent.
    const auto is_current = [&world](NodeId node, ConnectionId connection) {
      const auto& links = world.master().job().links();
      const auto it = links.find(node);
      return it != links.end() && it->second.connection == connection;
    };
    if (const auto* event = std::get_if<core::NodeReported>(&turn.event)) {
      if (is_current(event->node, event->connection)) Heard(event->node, turn.now);
    } else if (const auto* event = std::get_if<core::NodesHeard>(&turn.event)) {
      for (const NodeId node : event->nodes) heard_[node] = turn.now;
    } else if (const auto* event = std::get_if<core::RankExited>(&turn.event)) {
      if (is_current(event->node, event->connection)) Heard(event->node, turn.now);
    } else if (const auto* event = std::get_if<core::NodeRegistered>(&turn.event)) {
      for (const core::Effect& effect : turn.actions.effects) {
        const auto* admit = std::get_if<core::AdmitNode>(&effect);
        if (admit == nullptr) continue;
        returned_ = event->report.name;
        Heard(admit->node, turn.now);
      }
    } else if (const auto* event = std::get_if<core::NodeGone>(&turn.event)) {
      witness_ = event->name;
    }
  }

  void Heard(NodeId node, Instant now) {
    speaker_ = node;
    speaker_before_ = std::exchange(heard_[node], now);
  }

  void Judge(SimWorld& world, const Turn& turn, const core::NodeLost& lost) {
    if (witness_ == lost.name || returned_ == lost.name) return;
    const auto it = heard_.find(lost.node);
    Instant heard = it == heard_.end() ? started_ : std::max(started_, it->second);
    if (lost.node == speaker_) heard = std::max(started_, speaker_before_);
    const Timers& timers = world.options().spec.timers;
    if (turn.now - heard >= timers.lost_after) return;
    const bool had_time = turn.now - formed_ >= timers.start_timeout;
    if (had_time && newest_start_[lost.name] < generation_) return;
    world.Fail("evidence", lost.name + " was called lost although it was heard " +
                               ToString(turn.now - heard) + " ago: " + lost.reason);
  }

  void Judge(SimWorld& world, const core::NodeEvicted& evicted) {
    if (failed_nodes_.contains(evicted.node)) return;
    if (evicted.reason.find("links: ") != std::string::npos) return;
    for (uint32_t i = 0; i < world.node_count(); ++i) {
      if (world.node(i).name() == evicted.name && world.node(i).is_bad()) return;
    }
    world.Fail("evidence", evicted.name + " was evicted without a failure: " + evicted.reason);
  }

  void Judge(SimWorld& world, const core::RankFailed& failed) {
    const ExitCause::Kind kind = failed.cause.kind;
    if (kind == ExitCause::Kind::kUnknown || kind == ExitCause::Kind::kNotStarted) return;
    if (kind == ExitCause::Kind::kHung) return;  // culprit_right checks these
    if (dead_.contains({failed.node_name, failed.generation, failed.rank})) return;
    world.Fail("evidence", "rank " + ToString(failed.rank) + " on " + failed.node_name +
                               " was called failed and is not: " + failed.cause.headline);
  }

  core::NodeMap<Instant> heard_;
  NodeId speaker_;  // heard by the current event, with its former last_heard
  Instant speaker_before_;
  Instant started_;
  Instant formed_;                                  // the newest world
  Generation generation_;                           // of that world
  std::map<std::string, Generation> newest_start_;  // of a rank, by the node's name
  std::string witness_;
  std::string returned_;
  std::set<NodeId> failed_nodes_;
  std::set<std::tuple<std::string, Generation, Rank>> dead_;
};

}  // namespace

std::unique_ptr<Check> MakeEvidence() { return std::make_unique<Evidence>(); }

}  // namespace paceline::sim
