#pragma once

// An invariant, checked during a run. A check sees the master's decisions, durable records, effects
// and processes. It may compare them with the truth, which only the simulator knows. The first
// violation ends the run.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "paceline/base/instant.h"
#include "paceline/core/action.h"
#include "paceline/core/event.h"
#include "paceline/core/record.h"
#include "paceline/model/node.h"
#include "paceline/model/world.h"

namespace paceline::sim {

class Node;
class SimWorld;
struct RankProcess;

// One step of the master: time, event and actions.
struct Turn {
  Instant now;  // the master's clock
  const core::Event& event;
  const core::Actions& actions;
};

class Check {
 public:
  virtual ~Check() = default;

  virtual void Decided(SimWorld&, const Turn&) {}
  virtual void Persisted(SimWorld&, const core::Record&) {}
  // The same by a master that was replaced and does not know it.
  virtual void PersistedByFormer(SimWorld&, const core::Record&) {}
  virtual void Restored(SimWorld&) {}
  // A master of the next term begins: Master::durable() is all that it knows of the past.
  virtual void Succeeded(SimWorld&) {}
  // The master's host is lost, or seems to be; the master is still as it was.
  virtual void MasterLost(SimWorld&) {}
  // The node listens to a master of that term from now on; it carries out what one of that term
  // says; it made a checkpoint visible for one.
  virtual void MasterMet(SimWorld&, const Node&, uint64_t /*term*/) {}
  virtual void Ordered(SimWorld&, const Node&, uint64_t /*term*/) {}
  virtual void Committed(SimWorld&, const Node&, uint64_t /*term*/) {}
  // `decided`: the newest record when the master decided this effect.
  virtual void Ran(SimWorld&, const core::Effect&, RecordSeq /*decided*/) {}
  virtual void SpawnOrdered(SimWorld&, uint32_t /*node*/, const Assignment&) {}
  virtual void Started(SimWorld&, const RankProcess&) {}
  virtual void Ended(SimWorld&, const RankProcess&, const ExitCause&) {}
  // The job was asked to stop, or this node's agent was asked to leave.
  virtual void StopAsked(SimWorld&, std::optional<uint32_t> /*node*/, Duration, bool /*force*/) {}
  // A user asks for so many nodes.
  virtual void SizeAsked(SimWorld&, uint32_t /*nodes*/) {}
  // The node's agent sends a signal to its rank.
  virtual void Signalled(SimWorld&, const RankProcess&, int /*signal*/) {}
  // A platform ends a node for which it has sent a notice. `is_calm`: in the seconds before,
  // nothing kept the master and the node from working or from reaching each other.
  virtual void TakenAway(SimWorld&, const Node&, bool /*is_calm*/) {}
  // About twice a second, once all faults are healed.
  virtual void Look(SimWorld&) {}
  // At the end: the faults are healed, and the job trains, waits with a reason, or is over.
  virtual void AtQuiet(SimWorld&) {}
};

struct CheckEntry {
  std::string_view name;
  std::string_view promise;
  std::unique_ptr<Check> (*make)();
};

// The list; see checks.cc.
std::span<const CheckEntry> AllChecks();

}  // namespace paceline::sim
