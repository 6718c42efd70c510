#include "paceline/cli/ckpt/rescue_talk.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/host_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

using Stage = RescueCall::Stage;

constexpr Duration kBeat = Duration::Seconds(1);
// If the beat of another command's call does not rise for so long, that command has died. Several
// beats, because a slow store delays them.
constexpr Duration kOtherBeats = Duration::Seconds(5);
constexpr int kPollMilliseconds = 200;

std::atomic<int> interrupting_signal = 0;

void ListenToSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int signal) { interrupting_signal = signal; };
  action.sa_flags = SA_RESETHAND;
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction former = {};
    ::sigaction(signal, nullptr, &former);
    if (former.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}

bool IsOpen(const RescueCall& call) {
  return call.stage != Stage::kOver && call.stage != Stage::kLeft;
}

}  // namespace

Instant RescueNow() { return agent::MonotonicNow(); }

RescueTalk::RescueTalk(ckpt::Store* store, const JobPlace& place, std::string where)
    : store_(store), job_id_(place.id), master_addr_(place.master_addr), where_(std::move(where)) {
  call_.job_id = place.id;
  call_.id = Concat(RescueNow().nanoseconds(), "-", ::getpid());
  call_.host = HostName();
  ListenToSignals();
}

Check RescueTalk::Begin() {
  std::optional<uint64_t> beat;
  const Instant deadline = RescueNow() + kOtherBeats;
  do {
    const auto call = ckpt::ReadRescueCall(store_);
    if (!call.ok()) return StorageUnreadable(where_, call.failure());
    if (!call->has_value() || (*call)->job_id != job_id_ || !IsOpen(**call)) return std::nullopt;
    former_ = (*call)->id;
    has_lost_ = beat.has_value() && *beat != (*call)->beat;
    if (has_lost_) return OtherSpeaks(**call);
    beat = (*call)->beat;
    ::poll(nullptr, 0, kPollMilliseconds);
  } while (RescueNow() < deadline && interrupted_by() == 0);
  return std::nullopt;
}

Check RescueTalk::Put(Stage stage) {
  const auto there = ckpt::ReadRescueCall(store_);
  if (!there.ok()) return StorageUnreadable(where_, there.failure());
  const bool is_other = there->has_value() && (*there)->job_id == job_id_ && IsOpen(**there) &&
                        (*there)->id != call_.id && (*there)->id != former_;
  if (is_other) {
    has_lost_ = true;
    return OtherSpeaks(**there);
  }
  call_.stage = stage;
  ++call_.beat;
  const auto put = ckpt::PutRescueCall(store_, call_);
  return put.ok() ? Check() : Check(StorageUnreadable(where_, put.failure()));
}

Check RescueTalk::Poll(Duration limit, const std::function<bool()>& is_done) {
  const Instant deadline = RescueNow() + limit;
  Instant beat_at = RescueNow() + kBeat;
  for (;;) {
    auto answers = ckpt::ReadRescueAnswers(store_, call_);
    if (!answers.ok()) return StorageUnreadable(where_, answers.failure());
    answers_ = *std::move(answers);
    for (const RescueAnswer& answer : answers_) {
      if (!answer.has_master) continue;
      return MasterLives(
          job_id_, master_addr_,
          Concat("the master lives: ", answer.host,
                 " is connected to it, and only this host is cut off"),
          Concat("repair this host's network, or run paceline stop on ", answer.host));
    }
    if (is_done() || RescueNow() >= deadline || interrupted_by() != 0) return std::nullopt;
    if (RescueNow() >= beat_at) {
      beat_at = RescueNow() + kBeat;
      if (const Check problem = Put(call_.stage)) return problem;
    }
    ::poll(nullptr, 0, kPollMilliseconds);
  }
}

bool RescueTalk::HasEnded(const std::string& node) const {
  return std::any_of(answers_.begin(), answers_.end(), [&](const RescueAnswer& answer) {
    return answer.node == node && answer.has_ended;
  });
}

void RescueTalk::LeaveOutTheUnended() {
  std::erase_if(answers_, [](const RescueAnswer& answer) { return !answer.has_ended; });
}

void RescueTalk::GiveUp() {
  const bool has_spoken = call_.beat > 0;
  if (has_lost_ || !has_spoken) return;
  (void)Put(Stage::kLeft);
  call_.stage = Stage::kLeft;
}

std::string RescueTalk::Hosts() const {
  std::set<std::string> nodes;
  for (const RescueAnswer& answer : answers_) nodes.insert(answer.node);
  return HostsOf(nodes);
}

std::string RescueTalk::HostsOf(const std::set<std::string>& nodes) const {
  std::set<std::string> hosts;
  for (const RescueAnswer& answer : answers_) {
    if (nodes.contains(answer.node)) hosts.insert(Visible(answer.host));
  }
  return JoinWith(hosts, ", ");
}

int RescueTalk::interrupted_by() const { return interrupting_signal; }

Problem RescueTalk::OtherSpeaks(const RescueCall& other) const {
  return {.code = "PL-E088",
          .what = Concat("another `paceline ckpt rescue` of ", job_id_, " runs"),
          .where = Concat(where_, "/.paceline-rescue"),
          .why = Concat("it was typed on ", other.host.empty() ? "a host" : Visible(other.host),
                        ", and only one command may speak to the agents at a time"),
          .fix = "wait until that command has ended; it says which step it has brought to storage"};
}

Problem MasterLives(const std::string& job_id, const std::string& where, const std::string& why,
                    const std::string& fix) {
  return {.code = "PL-E087",
          .what = Concat("the job ", job_id, " has a master, so nothing is to be rescued"),
          .where = where,
          .why = why,
          .fix = fix};
}

}  // namespace paceline::cli
