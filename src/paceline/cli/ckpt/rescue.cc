// `paceline ckpt rescue`: the newest step in the memory of a job's hosts goes to storage after the
// master's host is lost. rescue_talk.h speaks with the agents. core/checkpoint/rescue.h decides.

#include "paceline/cli/ckpt/rescue.h"

#include <signal.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/agent/agent_json.h"
#include "paceline/agent/memory/claim_desk.h"
#include "paceline/base/bytes_text.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/storage/directory_claim.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/cli/ckpt/find.h"
#include "paceline/cli/ckpt/rescue_talk.h"
#include "paceline/cli/ckpt/stand_in_agents.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/core/checkpoint/rank_text.h"
#include "paceline/core/checkpoint/rescue.h"

namespace paceline::cli {
namespace {

using Stage = RescueCall::Stage;

// Longer than the slowest look of an agent, so that one with a master is heard.
constexpr Duration kHear = Duration::Seconds(25);     // longer than a linked agent pauses
constexpr Duration kHearMax = Duration::Seconds(40);  // until a step is whole
constexpr Duration kEndSlack = Duration::Seconds(15);
constexpr Duration kSilenceMax = Duration::Seconds(30);  // of a node that writes
constexpr Duration kAskMaster = Duration::Seconds(2);
constexpr char kWithinPatience[] =
    " within 10 minutes; so long the agents keep the images in memory";
constexpr int kMasterTries = 2;  // it may be restarting
constexpr int kClaimTries = 5;   // an agent may renew the claim at the same time

class Rescue {
 public:
  Rescue(Invocation& invocation, JobPlace place, KnownCheckpoints known)
      : invocation_(invocation), place_(std::move(place)), known_(std::move(known)) {}

  int Run();

 private:
  Check Do();
  Check CheckNoMaster();
  Check Hear();
  Check TakeClaim();
  Check EndRanks();
  Check Store();
  Check Commit();

  std::optional<ckpt::Manifest> FormerResult();
  void Tell(const ckpt::Manifest& manifest, bool was_there);
  std::string HostsThatWrite() const;
  Problem NotWhole(const core::Rescuable& found) const;
  Problem NotEnded() const;
  Problem NotStored(const std::string& why) const;
  Check Interrupted() const;
  Problem Unreadable(const Failure& failure) const {
    return StorageUnreadable(known_.directory, failure);
  }

  Invocation& invocation_;
  const JobPlace place_;
  const KnownCheckpoints known_;
  std::unique_ptr<ckpt::Store> store_;
  std::optional<RescueTalk> talk_;
  core::Rescuable found_;
  std::set<std::string> awaited_;  // nodes whose ranks end
  bool is_stored_ = false;         // storage has the newest step already
  std::optional<StandInAgents> stand_ins_;
};

int Rescue::Run() {
  auto store = OpenPlace(invocation_, known_.directory);
  if (!store.ok()) return invocation_.out.Fail(store.problem());
  store_ = std::move(*store);
  talk_.emplace(store_.get(), place_, known_.directory);
  if (const auto manifest = FormerResult()) {
    Tell(*manifest, /*was_there=*/true);
    return kExitDone;
  }
  if (const Check problem = Do()) {
    // Nodes that have ended their ranks wait for another try.
    const bool is_unchanged = talk_->call().stage == Stage::kAsk;
    if (is_unchanged) talk_->GiveUp();
    if (is_unchanged && stand_ins_.has_value()) stand_ins_->Stop();
    const int code = invocation_.out.Fail(*problem);
    const int signal = talk_->interrupted_by();
    return signal != 0 ? 128 + signal : code;
  }
  const auto manifest = ckpt::ReadManifest(store_.get(), CheckpointNameOf(talk_->call().saved));
  if (!manifest.ok()) return invocation_.out.Fail(Unreadable(manifest.failure()));
  Tell(*manifest, is_stored_);
  return kExitDone;
}

Check Rescue::Do() {
  Output& out = invocation_.out;
  if (const Check problem = CheckNoMaster()) return problem;
  if (const Check problem = talk_->Begin()) return problem;
  stand_ins_.emplace(invocation_, place_);
  out.Say(Concat("asking the hosts of ", place_.id, " for the steps in their memory; this takes ",
                 kHear.seconds(), " s, and up to ", kHearMax.seconds(), " s if no step is whole"));
  if (const Check problem = Hear()) return problem;
  if (is_stored_) {
    stand_ins_->Stop();
    talk_->GiveUp();
    return std::nullopt;
  }
  out.Say(Concat(Say(*found_.whole), " is whole in the memory of ", HostsThatWrite(),
                 "; the job's ranks on ", talk_->Hosts(), " end now"));
  if (const Check problem = TakeClaim()) return problem;
  if (const Check problem = EndRanks()) return problem;
  if (const Check problem = Store()) return problem;
  if (const Check problem = Commit()) return problem;
  if (const Check problem = talk_->Put(Stage::kOver)) return problem;
  ckpt::RemoveRescueAnswers(store_.get());
  return std::nullopt;
}

// The checkpoint of an earlier call of this command that has ended well.
std::optional<ckpt::Manifest> Rescue::FormerResult() {
  const auto call = ckpt::ReadRescueCall(store_.get());
  const bool is_over = call.ok() && call->has_value() && (*call)->job_id == place_.id &&
                       (*call)->stage == Stage::kOver;
  if (!is_over) return std::nullopt;
  auto manifest = ckpt::ReadManifest(store_.get(), CheckpointNameOf((*call)->saved));
  return manifest.ok() ? std::optional(*std::move(manifest)) : std::nullopt;
}

Check Rescue::CheckNoMaster() {
  auto options = ControlOptions(place_, kAskMaster);
  if (!options.ok()) return options.problem();
  wire::ControlClient client(*options);
  for (int i = 0; i < kMasterTries; ++i) {
    // Another job's master at that address refuses the token.
    if (client.GetStatus().ok()) {
      return MasterLives(place_.id, place_.master_addr,
                         Concat("the master at ", place_.master_addr,
                                " answers, and brings the newest step to storage by itself"),
                         Concat("paceline stop --job ", ShellWord(place_.id),
                                " ends the job with its newest step in storage"));
    }
  }
  return std::nullopt;
}

Check Rescue::Hear() {
  if (const Check problem = talk_->Put(Stage::kAsk)) return problem;
  const Instant began = RescueNow();
  const auto is_done = [&] {
    found_ = core::FindRescuable(talk_->answers());
    return found_.whole.has_value() && RescueNow() >= began + kHear;
  };
  if (const Check problem = talk_->Poll(kHearMax, is_done)) return problem;
  if (const Check problem = Interrupted()) return problem;
  const auto newest = ckpt::Newest(store_.get());
  if (!newest.ok()) return Unreadable(newest.failure());
  if (!found_.whole.has_value()) return NotWhole(found_);
  if (newest->has_value() && (*newest)->job_id == place_.id && (*newest)->saved >= *found_.whole) {
    is_stored_ = true;
    talk_->call().saved = (*newest)->saved;
    return std::nullopt;
  }
  for (const RescueAnswer& answer : talk_->answers()) {
    talk_->call().term = std::max(talk_->call().term, answer.term + 1);
    awaited_.insert(answer.node);
  }
  return std::nullopt;
}

// From here on, no other master of this job commits to the directory.
Check Rescue::TakeClaim() {
  DirectoryClaim mine = agent::ClaimOfThisProcess(place_.id, agent::BootId());
  uint64_t& term = talk_->call().term;
  std::string why;
  for (int i = 0; i < kClaimTries; ++i) {
    const auto seen = ckpt::ReadClaim(store_.get());
    if (!seen.ok()) return Unreadable(seen.failure());
    if (seen->has_value() && (*seen)->job_id != place_.id) {
      return NotStored(Concat("job ", (*seen)->job_id, " (process ", (*seen)->pid, " on ",
                              (*seen)->host, ") saves to that directory now"));
    }
    if (seen->has_value()) term = std::max(term, (*seen)->term + 1);
    term = std::max(term, known_.term + 1);
    mine.term = term;
    mine.beat = 1;
    const auto written = ckpt::WriteClaim(store_.get(), *seen, mine);
    if (written.ok()) return std::nullopt;
    why = written.failure().message;
    if (written.failure().kind != FailureKind::kFenced) break;
  }
  return NotStored(Concat("the claim of the directory cannot be taken: ", why));
}

Check Rescue::EndRanks() {
  if (const Check problem = talk_->Put(Stage::kEnd)) return problem;
  const Duration limit = invocation_.settings.Time("timers.stop_grace") + kEndSlack;
  const auto are_all_ended = [&] {
    return std::all_of(awaited_.begin(), awaited_.end(),
                       [this](const std::string& node) { return talk_->HasEnded(node); });
  };
  if (const Check problem = talk_->Poll(limit, are_all_ended)) return problem;
  if (const Check problem = Interrupted()) return problem;
  talk_->LeaveOutTheUnended();
  found_ = core::FindRescuable(talk_->answers());
  return found_.whole.has_value() ? Check() : Check(NotEnded());
}

Check Rescue::Store() {
  RescueCall& call = talk_->call();
  call.saved = *found_.whole;
  call.world_size = found_.world_size;
  call.shards = found_.shards;
  if (const Check problem = talk_->Put(Stage::kStore)) return problem;
  std::string why;
  Instant heard_at = RescueNow();
  uint64_t heard = 0;
  const auto is_done = [&] {
    size_t durable = 0;
    uint64_t slowest = call.beat;  // the writer that has answered last the longest ago
    for (const RescueAnswer& answer : talk_->answers()) {
      if (!awaited_.contains(answer.node)) continue;
      bool is_writing = false;
      for (const ShardState& shard : answer.shards) {
        if (shard.saved != call.saved || answer.stage != Stage::kStore) continue;
        if (!shard.problem.empty()) {
          why = Concat(answer.node, ": rank ", shard.rank.value(), ": ", shard.problem);
        }
        durable += shard.is_durable ? 1 : 0;
        is_writing = is_writing || !shard.is_durable;
      }
      if (is_writing) slowest = std::min(slowest, answer.beat);
    }
    if (std::exchange(heard, slowest) != slowest) heard_at = RescueNow();
    if (why.empty() && RescueNow() >= heard_at + kSilenceMax) {
      why = Concat("a host has not answered for ", kSilenceMax.seconds(), " s");
    }
    return !why.empty() || durable >= call.shards.size();
  };
  if (const Check problem = talk_->Poll(Duration::Infinite(), is_done)) return problem;
  if (!why.empty()) return NotStored(why);
  return talk_->interrupted_by() != 0 && !is_done() ? Interrupted() : Check();
}

Check Rescue::Commit() {
  const RescueCall& call = talk_->call();
  ckpt::CommitPlace place{.order = {.saved = call.saved,
                                    .world_size = call.world_size,
                                    .name = CheckpointNameOf(call.saved),
                                    .shards = {}},
                          .job_id = place_.id};
  for (const RescueShard& shard : call.shards) {
    place.order.shards.push_back({shard.rank, shard.file_of});
  }
  const auto leave = ckpt::CheckClaim(store_.get(), place_.id, call.term, std::nullopt);
  if (!leave.ok()) return NotStored(leave.failure().message);
  const auto manifest = ckpt::Commit(store_.get(), place);
  if (!manifest.ok()) return NotStored(manifest.failure().message);
  ckpt::RemoveParts(store_.get(), place.order);
  return std::nullopt;
}

void Rescue::Tell(const ckpt::Manifest& manifest, bool was_there) {
  Output& out = invocation_.out;
  const std::string name = CheckpointNameOf(manifest.saved());
  if (out.is_json()) {
    return out.DataLine(PrintJson(nlohmann::ordered_json{{"schema", "paceline.ckpt_rescue/1"},
                                                         {"directory", known_.directory},
                                                         {"name", name},
                                                         {"step", manifest.step},
                                                         {"world_size", manifest.world_size},
                                                         {"bytes", manifest.bytes()},
                                                         {"was_there", was_there}}));
  }
  const std::string at = Concat(known_.directory, "/", name, " (", BytesText(manifest.bytes()),
                                ", ", manifest.world_size, " ranks)");
  out.DataLine(was_there ? Concat("storage has ", Say(manifest.saved()), " already: ", at)
                         : Concat("brought ", Say(manifest.saved()), " to storage: ", at));
  out.Say(
      "next: the same `paceline run …` on the hosts that are left, with one of them as "
      "--rdzv-endpoint and another --run-dir; its Checkpointer goes on from this step");
}

std::string Rescue::HostsThatWrite() const {
  std::set<std::string> nodes;
  for (const RescueShard& shard : found_.shards) nodes.insert(shard.node);
  return talk_->HostsOf(nodes);
}

Check Rescue::Interrupted() const {
  const int signal = talk_->interrupted_by();
  if (signal == 0) return std::nullopt;
  const bool is_unchanged = talk_->call().stage == Stage::kAsk;
  return Problem{.code = "PL-E088",
                 .what = Concat("interrupted by ", signal == SIGINT ? "SIGINT" : "SIGTERM"),
                 .where = known_.directory,
                 .why = is_unchanged ? "nothing was changed"
                                     : "the job's ranks end, and the step is not in storage",
                 .fix = Concat("type the same command again", is_unchanged ? "" : kWithinPatience)};
}

Problem Rescue::NotWhole(const core::Rescuable& found) const {
  const std::string hosts = talk_->Hosts();
  std::string why = hosts.empty()
                        ? "no agent of the job answered in the directory of the checkpoints"
                        : Concat("the hosts that answered (", hosts, ") have no image");
  if (found.newest.has_value()) {
    why = Concat("the hosts that answered (", hosts, ") have no image of ",
                 core::RankText(found.missing), " of ", Say(*found.newest),
                 ", and no older step as a whole");
  }
  return {.code = "PL-E088",
          .what = "no step in memory is whole",
          .where = known_.directory,
          .why = why,
          .fix = Concat("`paceline run --resume --run-dir DIR` on each other host whose agent has "
                        "ended, with the job's run directory there, and the same command again; "
                        "else go on from storage: paceline ckpt ls ",
                        ShellWord(known_.directory))};
}

Problem Rescue::NotEnded() const {
  std::vector<std::string> late;
  for (const std::string& node : awaited_) {
    if (!talk_->HasEnded(node)) late.push_back(Visible(node));
  }
  return NotStored(Concat("no answer that the ranks have ended came from ", JoinWith(late, ", ")));
}

Problem Rescue::NotStored(const std::string& why) const {
  return {.code = "PL-E088",
          .what = "the step in memory cannot be brought to storage",
          .where = known_.directory,
          .why = why,
          .fix = Concat("repair that and type the same command again", kWithinPatience)};
}

}  // namespace

KnownCheckpoints CheckpointsKnownIn(const std::string& run_dir) {
  KnownCheckpoints known;
  for (const std::string& node : EntriesOf(run_dir + "/nodes")) {
    const agent::AgentFiles files{.run_dir = run_dir, .node = node};
    const nlohmann::json text = agent::ReadJson(files.AgentJson());
    if (!text.is_object()) continue;
    if (known.directory.empty()) known.directory = JsonText(text, "checkpoints");
    if (known.rescued.empty()) known.rescued = JsonText(text, "rescued");
    known.term = std::max(known.term, JsonInt<uint64_t>(text, "term"));
  }
  return known;
}

std::string RescueCommand(const std::string& run_dir) {
  return CheckpointsKnownIn(run_dir).directory.empty()
             ? ""
             : "paceline ckpt rescue " + ShellWord(run_dir);
}

int CkptRescue(Invocation& invocation, const std::string& job) {
  Output& out = invocation.out;
  auto found = FindJob(invocation.environment, job, JobUse::kChange, CurrentDirectory());
  if (!found.ok()) return out.Fail(found.problem());
  if (!found->note.empty()) out.Say(found->note);
  JobPlace* const place = &found->place;
  if (!place->is_joined) {
    return out.Fail({.code = "PL-E087",
                     .what = Concat("this is the host of the master of ", place->id,
                                    ", so nothing is to be rescued"),
                     .where = place->run_dir,
                     .why = "the job's journal is here, and its master can be started again",
                     .fix = place->is_running() ? "nothing to do: the job runs"
                                                : ResumeCommand(place->run_dir)});
  }
  KnownCheckpoints known = CheckpointsKnownIn(place->run_dir);
  if (known.directory.empty()) {
    return out.Fail(NoCheckpoint(place->run_dir,
                                 "no rank of this host has opened a Checkpointer, so the job has "
                                 "no steps in memory"));
  }
  return Rescue(invocation, std::move(*place), std::move(known)).Run();
}

}  // namespace paceline::cli
