#include "paceline/data/agreements.h"

#include "paceline/base/mark.h"

namespace paceline {

void Agreements::Take(const LeasePeer& from, const LeaseFrame& frame,
                      std::vector<LeaseAnswer>* answers) {
  if (frame.number < generation_) return;  // from a world that has ended
  if (frame.number > generation_) loaders_.clear();
  generation_ = frame.number;
  if (loaders_.size() >= kLoadersMax && !loaders_.contains(frame.text)) return;
  Loader& loader = loaders_[frame.text];
  if (loader.peers.size() < kPeersMax) loader.peers.insert(from);
  const auto tell = [&](const LeasePeer& to) {
    answers->push_back({.to = to,
                        .frame = {.op = LeaseOp::kDiffers,
                                  .number = loader.difference->place,
                                  .begin = loader.difference->first,
                                  .end = loader.difference->second,
                                  .text = frame.text}});
  };
  if (loader.difference) return tell(from);
  const uint64_t place = frame.end;
  const Report report{.rank = frame.begin, .digest = frame.lease};
  const auto [first, is_new] = loader.places.try_emplace(place, report);
  if (!is_new && first->second.digest != report.digest) {
    MARK("ranks read their data in different orders");
    loader.difference = {.place = place, .first = first->second.rank, .second = report.rank};
    for (const LeasePeer& peer : loader.peers) tell(peer);
  }
  while (loader.places.size() > kPlacesMax) loader.places.erase(loader.places.begin());
}

void Agreements::Leave(const LeasePeer& peer) {
  for (auto& [name, loader] : loaders_) loader.peers.erase(peer);
}

void Agreements::LeaveAll(uint64_t link) {
  for (auto& [name, loader] : loaders_) {
    std::erase_if(loader.peers, [link](const LeasePeer& peer) { return peer.link == link; });
  }
}

}  // namespace paceline
