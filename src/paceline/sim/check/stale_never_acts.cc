// An agent that has acted on one generation never starts ranks of a lower one, whatever arrives
// late. This holds over restarts of the agent: the master sends the newest assignment at once.

#include <map>

#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class StaleNeverActs final : public Check {
 public:
  void SpawnOrdered(SimWorld& world, uint32_t node, const Assignment& assignment) override {
    Generation& newest = newest_[node];
    if (assignment.generation < newest) {
      world.Fail("stale_never_acts", world.node(node).name() + " starts ranks of generation " +
                                         ToString(assignment.generation) + " after those of " +
                                         ToString(newest));
    }
    newest = assignment.generation;
  }

 private:
  std::map<uint32_t, Generation> newest_;
};

}  // namespace

std::unique_ptr<Check> MakeStaleNeverActs() { return std::make_unique<StaleNeverActs>(); }

}  // namespace paceline::sim
