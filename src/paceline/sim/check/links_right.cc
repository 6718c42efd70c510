// A host is taken out for its links only if no other host can connect to it. A host of which that
// is true gets a seat beside others only if the job has told it: with one other host, nobody can
// say which of the two is broken. Cuts of the network and frozen hosts look the same for a while.

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "paceline/base/mark.h"
#include "paceline/core/record.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// Longer than all tests of a host's links.
constexpr Duration kUnrest = Duration::Seconds(45);

class LinksRight final : public Check {
 public:
  void Decided(SimWorld& world, const Turn& turn) override {
    if (!world.options().checks.has_links) return;
    if (IsUneasy(world)) uneasy_at_ = world.queue().now();
    if (const auto* event = std::get_if<core::NodeRegistered>(&turn.event)) {
      const std::string& name = event->report.name;
      if (HasDeadPort(world, name, event->report.boot_id)) came_.insert(name);
    }
    for (const core::Record& record : turn.actions.records) {
      if (const auto* judged = std::get_if<core::PairsJudged>(&record.fact)) Judge(world, *judged);
      if (const auto* formed = std::get_if<core::WorldFormed>(&record.fact)) See(world, *formed);
    }
  }

 private:
  static bool IsUneasy(SimWorld& world) {
    if (world.network().HasCuts()) return true;
    for (uint32_t i = 0; i < world.node_count(); ++i) {
      const Node& node = world.node(i);
      if (node.is_frozen() || node.is_silent()) return true;
      if (node.agent() != nullptr && node.agent()->is_frozen()) return true;
    }
    return false;
  }
  bool WasCalm(SimWorld& world) const {
    return uneasy_at_ == Instant() || world.queue().now() - uneasy_at_ > kUnrest;
  }
  static bool HasDeadPort(SimWorld& world, std::string_view name, std::string_view boot_id = "") {
    for (uint32_t i = 0; i < world.node_count(); ++i) {
      const Node& node = world.node(i);
      const bool is_it = node.name() == name && (boot_id.empty() || node.boot_id() == boot_id);
      if (is_it) return node.has_dead_port();
    }
    return false;
  }

  void Judge(SimWorld& world, const core::PairsJudged& judged) {
    MARK("links were judged");
    for (const auto* links : {&judged.bad_links, &judged.doubtful}) {
      for (const auto& link : *links) told_.insert({link.a, link.b});
    }
    told_.insert(judged.missed.begin(), judged.missed.end());
    for (const std::string& name : judged.bad) {
      if (HasDeadPort(world, name)) {
        MARK("a dead port was found");
      } else if (WasCalm(world)) {
        world.Fail("links_right", name + " is taken out for its links, which are good");
      }
    }
    if (!WasCalm(world)) return;
    for (const auto* links : {&judged.bad_links, &judged.doubtful}) {
      for (const auto& link : *links) {
        const bool is_dead = HasDeadPort(world, link.a) || HasDeadPort(world, link.b);
        if (is_dead) continue;
        world.Fail("links_right", "the good link between " + link.a + " and " + link.b +
                                      " is called bad: " + link.problem);
      }
    }
  }

  void See(SimWorld& world, const core::WorldFormed& formed) {
    if (formed.world.seats.size() < 2) return;
    for (const Seat& seat : formed.world.seats) {
      const std::string name = world.master().job().state().NameOf(seat.node);
      if (!came_.contains(name) || told_.contains(name) || !WasCalm(world)) continue;
      world.Fail("links_right", name +
                                    " has a seat, no other host can connect to it, and the job "
                                    "has not told that");
    }
  }

  Instant uneasy_at_;
  std::set<std::string> came_;  // nodes with a dead port that have registered
  std::set<std::string> told_;  // nodes whose links were called bad or not checked
};

}  // namespace

std::unique_ptr<Check> MakeLinksRight() { return std::make_unique<LinksRight>(); }

}  // namespace paceline::sim
