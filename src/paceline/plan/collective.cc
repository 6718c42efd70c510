#include "paceline/plan/collective.h"

namespace paceline::plan {

double AllGatherSeconds(double bytes, uint32_t ranks, const Link& link) {
  if (ranks < 2) return 0;
  return (ranks - 1) * (link.seconds + bytes / (ranks * link.bandwidth));
}

double ReduceScatterSeconds(double bytes, uint32_t ranks, const Link& link) {
  return AllGatherSeconds(bytes, ranks, link);
}

double AllReduceSeconds(double bytes, uint32_t ranks, const Link& link) {
  return ReduceScatterSeconds(bytes, ranks, link) + AllGatherSeconds(bytes, ranks, link);
}

double SendSeconds(double bytes, const Link& link) { return link.seconds + bytes / link.bandwidth; }

}  // namespace paceline::plan
