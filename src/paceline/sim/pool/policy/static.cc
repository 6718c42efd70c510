// What a user asks for, from the first step to the last: jobs of a plain operator.

#include "paceline/sim/pool/policy/policy.h"

namespace paceline::sim {
namespace {

class StaticPolicy : public PoolPolicy {
 public:
  PoolConduct Conduct() const override {
    return {.ends_by_fault = true, .repeats_steps = true, .kills_most = 0};
  }
  PoolGrant First(const PoolAsk& ask, uint32_t* least) override {
    *least = ask.nodes;
    return {.nodes = ask.nodes, .memory = ask.memory};
  }
  PoolGrant Look(const PoolSight& sight) override { return sight.has; }
  std::optional<PoolGrant> AfterKill(const PoolSight&) override { return std::nullopt; }
  void Ended(const PoolAsk&, double) override {}
};

}  // namespace

std::unique_ptr<PoolPolicy> MakeStaticPolicy() { return std::make_unique<StaticPolicy>(); }

}  // namespace paceline::sim
