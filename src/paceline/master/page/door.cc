#include "paceline/master/page/door.h"

#include <algorithm>

#include "paceline/wire/security/credentials.h"
#include "paceline/wire/security/page_session.h"

namespace paceline::master {

std::string PageDoor::MakeCode(Instant now) {
  std::string code = wire::MakeToken();
  const std::lock_guard lock(mutex_);
  if (codes_.size() >= kCodesMax) {
    codes_.erase(std::min_element(codes_.begin(), codes_.end(), [](const auto& a, const auto& b) {
      return a.second < b.second;
    }));
  }
  codes_[code] = now;
  return code;
}

std::optional<std::string> PageDoor::Trade(std::string_view code, Instant now) {
  const std::lock_guard lock(mutex_);
  std::erase_if(codes_, [now](const auto& entry) { return now - entry.second > kCodeLives; });
  // All are compared, so that the time tells nothing about them.
  auto found = codes_.end();
  for (auto it = codes_.begin(); it != codes_.end(); ++it) {
    if (wire::TokensEqual(it->first, code)) found = it;
  }
  if (found == codes_.end()) return std::nullopt;
  codes_.erase(found);
  return wire::MakePageSession(job_token_);
}

}  // namespace paceline::master
