#include "paceline/wire/client/route.h"

#include <algorithm>
#include <utility>

namespace paceline::wire {
namespace {

// FNV-1a, then a finalizer that spreads the last characters over all bits.
uint64_t Weight(std::string_view who, std::string_view relay) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](std::string_view text) {
    for (const char character : text) {
      hash ^= static_cast<unsigned char>(character);
      hash *= 0x100000001b3u;
    }
    hash ^= 0xff;  // a separator: "ab" + "c" differs from "a" + "bc"
    hash *= 0x100000001b3u;
  };
  add(who);
  add(relay);
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccdu;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53u;
  return hash ^ (hash >> 33);
}

}  // namespace

Route::Route(std::string master, const std::vector<std::string>& relays, std::string_view who)
    : master_(std::move(master)), relays_(relays) {
  std::sort(relays_.begin(), relays_.end(), [who](const std::string& a, const std::string& b) {
    return std::pair(Weight(who, a), a) > std::pair(Weight(who, b), b);
  });
  relays_.erase(std::unique(relays_.begin(), relays_.end()), relays_.end());
  if (relays_.size() > kRelaysTried) relays_.resize(kRelaysTried);
}

bool Route::is_relay() const { return attempt_ < relays_.size() * kRounds; }

const std::string& Route::address() const {
  return is_relay() ? relays_[attempt_ % relays_.size()] : master_;
}

void Route::Failed() { attempt_ = (attempt_ + 1) % (relays_.size() * kRounds + 1); }

}  // namespace paceline::wire
