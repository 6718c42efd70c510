#include "paceline/core/node/order.h"

namespace paceline::core {

int Precedence(Assignment::Kind kind) {
  switch (kind) {
    case Assignment::Kind::kRun: return 0;
    case Assignment::Kind::kIdle: return 1;
    case Assignment::Kind::kStop: return 2;
    case Assignment::Kind::kLeave: return 3;
  }
  return 0;
}

Assignment OrderFor(const Assignment& assignment, const WantedRank& wanted) {
  Assignment order = assignment;
  order.generation = wanted.generation;
  for (const Task& task : order.tasks) {
    if (task.slot == wanted.slot) order.restart_count = task.restarts;
  }
  return order;
}

}  // namespace paceline::core
