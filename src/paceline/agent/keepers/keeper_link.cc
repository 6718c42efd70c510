#include "paceline/agent/keepers/keeper_link.h"

#include <chrono>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "paceline/agent/keepers/keeper_crew.h"
#include "paceline/base/instant.h"
#include "paceline/base/log.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

// Timeout of one try to enroll. The destructor may have to wait this long.
constexpr Duration kTryMax = Duration::Seconds(2);
constexpr std::chrono::milliseconds kPause{200};

}  // namespace

KeeperLink::KeeperLink(Reactor& reactor, Setup setup, Listener listener)
    : reactor_(reactor),
      setup_(std::move(setup)),
      listener_(std::move(listener)),
      self_(std::make_shared<KeeperLink*>(this)) {
  const absl::StatusOr<wire::JoinString> join = wire::ParseJoinString(setup_.join);
  if (!join.ok()) {
    LogError("no_way_to_rank_0", {{"why", join.status()}});
    return;
  }
  enrolling_ = std::thread([this, join = *join, self = self_] { Enroll(join, self); });
}

KeeperLink::~KeeperLink() {
  is_ending_ = true;
  if (enrolling_.joinable()) enrolling_.join();
  stream_.reset();
  *self_ = nullptr;
}

void KeeperLink::Enroll(const wire::JoinString& join, const std::shared_ptr<KeeperLink*>& self) {
  while (!is_ending_) {
    absl::StatusOr<wire::Credentials> credentials =
        wire::Enroll(join, {NameOfHost(setup_.host)}, kTryMax);
    if (credentials.ok()) {
      reactor_.Post([self, address = join.address, credentials = *std::move(credentials)] {
        if (*self != nullptr) (*self)->Connect(address, credentials);
      });
      return;
    }
    LogWarning("rank_0_away", {{"why", credentials.status()}});
    std::this_thread::sleep_for(kPause);
  }
}

void KeeperLink::Connect(const std::string& address, const wire::Credentials& credentials) {
  listener_.enrolled(credentials);
  const auto sink = [this, self = self_](wire::AgentStreamEvent event) {
    reactor_.Post([self, event = std::move(event)] {
      if (*self != nullptr) (*self)->On(event);
    });
  };
  stream_ =
      std::make_unique<wire::AgentStream>(wire::AgentStreamOptions{.address = address,
                                                                   .relays = {},
                                                                   .who = NameOfHost(setup_.host),
                                                                   .credentials = credentials,
                                                                   .jitter_seed = setup_.host},
                                          sink);
}

void KeeperLink::On(const wire::AgentStreamEvent& event) {
  if (std::holds_alternative<wire::StreamOpened>(event)) {
    NodeReport report = setup_.identity;
    report.name = NameOfHost(setup_.host);
    is_connected_ = stream_->Send(wire::Register{report});
    if (!has_ranks_) SayRanks(false);
    listener_.opened();
  } else if (const auto* broken = std::get_if<wire::StreamBroken>(&event)) {
    if (!std::exchange(is_connected_, false)) return;  // another failed try: already reported
    LogWarning("rank_0_away", {{"why", broken->why}});
    listener_.broken();
  } else if (const auto* assignment = std::get_if<Assignment>(&event)) {
    listener_.began(assignment->generation);
  } else if (const auto* order = std::get_if<CheckpointOrder>(&event)) {
    listener_.order(*order);
  }
}

bool KeeperLink::Send(const CheckpointReport& report) {
  return is_connected_ && stream_->Send(report);
}

void KeeperLink::SayRanks(bool has_ranks) {
  has_ranks_ = has_ranks;
  if (!is_connected_) return;
  if (has_ranks) {
    stream_->Send(wire::Heartbeat{});
  } else {
    stream_->Send(wire::Leaving{"its ranks have ended"});
  }
}

}  // namespace paceline::agent
