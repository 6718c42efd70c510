// The memory of a simulated node: its ranks use some, a few use more and more, and its kernel kills
// the largest one when the limit is reached.

#include <algorithm>
#include <csignal>

#include "paceline/base/mark.h"
#include "paceline/sim/node.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

constexpr Duration kMemoryLook = Duration::Seconds(1);

}  // namespace

// A host that reboots has no cgroups. Nodes of one machine share its kernel, which keeps them.
void Node::BeginMemory() {
  const uint64_t limit = world_.options().spec.memory_node;
  if (!world_.options().memory.is_used) return;
  memory_limit_ = world_.options().local_platform ? std::max(memory_limit_, limit) : limit;
  LookAtMemory();
}

void Node::LookAtMemory() {
  world_.queue().After(kMemoryLook, [this, boots = boots_] {
    if (!is_on_ || boots != boots_) return;
    UseMemory();
    LookAtMemory();
  });
}

void Node::RaiseMemory(uint64_t limit) {
  if (world_.options().canary == Canary::kForgetRaise) return;
  memory_limit_ = std::max(memory_limit_, limit);
}

void Node::LeakMemory(int32_t pid, uint64_t at_once, uint64_t each_second, Duration time) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  it->second.memory += at_once;
  it->second.has_jumped = it->second.has_jumped || at_once > 0;
  it->second.leaks = each_second;
  it->second.leaks_until = world_.queue().now() + time;
}

void Node::UseMemory() {
  const Instant now = world_.queue().now();
  uint64_t used = 0;
  const RankProcess* largest = nullptr;
  for (auto& [pid, process] : processes_) {
    if (IsAwake(pid) && now < process.leaks_until) process.memory += process.leaks;
    used += process.memory;
    if (largest == nullptr || process.memory > largest->memory) largest = &process;
  }
  if (largest != nullptr && used > memory_limit_) {
    MARK("the kernel kills a rank for memory");
    used -= largest->memory;
    ExitCause cause = Killed(SIGKILL);
    cause.cgroup_oom = true;
    cause.memory_limit = memory_limit_;
    cause.fingerprint = "out of memory";
    EndRank(largest->pid, cause);
  }
  if (agent_ != nullptr) agent_->TellMemory({used, memory_limit_, MemoryBound::kNode});
}

void AgentHost::TellMemory(const NodeMemory& memory) {
  if (is_frozen_ || has_ended_ || !is_linked_ || connection_ == ConnectionId()) return;
  world_.CallMaster(connection_, [node = node_id_, memory](Master& master, uint64_t life) {
    master.ReceiveMemory(life, node, memory);
  });
}

}  // namespace paceline::sim
