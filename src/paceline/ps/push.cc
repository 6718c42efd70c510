#include "paceline/ps/push.h"

#include <algorithm>

namespace paceline::ps {

std::vector<OrdinalRange> CutAt(const std::vector<OrdinalRange>& batch,
                                const std::vector<OrdinalRange>& borders) {
  std::vector<uint64_t> places;
  for (const OrdinalRange& one : borders) {
    places.push_back(one.begin);
    places.push_back(one.end);
  }
  std::sort(places.begin(), places.end());
  std::vector<OrdinalRange> parts;
  for (OrdinalRange rest : batch) {
    for (auto at = std::upper_bound(places.begin(), places.end(), rest.begin);
         at != places.end() && *at < rest.end; ++at) {
      if (*at == rest.begin) continue;
      parts.push_back({rest.begin, *at});
      rest.begin = *at;
    }
    parts.push_back(rest);
  }
  std::sort(parts.begin(), parts.end(),
            [](const OrdinalRange& a, const OrdinalRange& b) { return a.begin < b.begin; });
  return parts;
}

}  // namespace paceline::ps
