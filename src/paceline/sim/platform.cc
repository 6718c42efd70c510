// The platform of the simulated nodes: it starts the nodes that the master requests, sees nodes
// die, and gives notice before it takes one away.

#include <algorithm>
#include <memory>
#include <utility>

#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// If nothing disturbed the node and the master for so long before the node's end, the node must
// have left.
constexpr Duration kCalm = Duration::Seconds(8);
constexpr Duration kNoticeLook = Duration::Milliseconds(100);
// Like the launcher: a notice that a stopped master reads late would give the node too much time.
constexpr Duration kNoticePause = Duration::Seconds(1);

}  // namespace

void SimWorld::Witness(const std::string& name, int32_t agent_pid) {
  core::NodeGone gone;
  gone.name = name;
  gone.evidence = "lost its agent and all ranks";
  gone.agent_pid = agent_pid;
  witnessed_.push_back(gone);
  if (master_->is_on()) master_->Feed(gone);
}

void SimWorld::Obey(const Wish& wish) {
  for (const auto& [index, incarnation] : wish.incarnations) {
    uint32_t& launched = launched_[index];
    if (launched >= incarnation || wish.absent.contains(index)) continue;
    launched = incarnation;
    const std::string name = NameOfNode(index);
    trace_.Add(queue_.now(), "launcher", "launch", incarnation, name);
    queue_.After(Duration::Milliseconds(prng_.Between(50, 500)), [this, name] {
      for (const auto& node : nodes_) {
        if (node->name() == name && !node->is_twin()) node->PowerOn();
      }
    });
  }
}

void SimWorld::GiveNotice(Node& node, Duration left) {
  trace_.Add(queue_.now(), node.name(), "notice", static_cast<uint64_t>(left.milliseconds()));
  // Its ranks may get less than the job's grace.
  StopAsked(node.index(), left, /*force=*/true);
  notices_.push_back({node.index(), node.name(), queue_.now() + left});
  for (Duration told; told < left; told = told + kNoticePause) {
    queue_.After(told, [this] { TellNotices(); });
  }
  auto is_calm = std::make_shared<bool>(left >= kCalm);
  for (Duration before = std::min(left, kCalm); before > Duration();
       before = before - kNoticeLook) {
    queue_.After(left - before, [this, &node, is_calm] { *is_calm = *is_calm && IsCalm(node); });
  }
  const uint64_t agent = node.agent() == nullptr ? 0 : node.agent()->incarnation();
  queue_.After(left, [this, &node, is_calm, agent, boots = node.boot_count()] {
    if (node.boot_count() != boots) return;
    // The node may have a new agent meanwhile, which got no notice.
    const bool is_that = node.agent() != nullptr && node.agent()->incarnation() == agent;
    if (is_that) ForEachCheck([&](Check& check) { check.TakenAway(*this, node, *is_calm); });
    node.PowerOff(!options_.local_platform);
  });
}

void SimWorld::EndNotices(const Node& node) {
  std::erase_if(notices_, [&](const Notice& notice) { return notice.index == node.index(); });
}

// True if nothing keeps the master and this node from doing their work.
bool SimWorld::IsCalm(const Node& node) const {
  const bool is_cut =
      network_.IsCut(node.host(), kMasterHost) || network_.IsCut(kMasterHost, node.host());
  return !is_cut && master_->is_on() && !master_->is_frozen() && !master_->is_disk_full() &&
         !master_->is_succeeding() && IsLinked(node);
}

void SimWorld::TellNotices() {
  if (options_.canary == Canary::kForgetNotice) return;
  std::erase_if(notices_, [this](const Notice& notice) { return notice.until <= queue_.now(); });
  for (const Notice& notice : std::vector<Notice>(notices_)) {
    if (!master_->is_on()) return;
    // A platform gives no name to two hosts, so its notice never means another one.
    const bool has_lost_name = std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
      return node->index() != notice.index && node->name() == notice.node && IsLinked(*node);
    });
    if (has_lost_name) continue;
    master_->Feed(core::NoticeCame{
        .name = notice.node, .left = notice.until - queue_.now(), .why = "SIGTERM"});
  }
}

}  // namespace paceline::sim
