// The station's messages with its ranks: docs/formats/checkpoint_socket.md.

#include <algorithm>
#include <utility>

#include "paceline/agent/memory/checkpoint_station.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/model/storage_place.h"

namespace paceline::agent {
namespace {

using nlohmann::json;

constexpr int64_t kNoticeAfterNs = 10'000'000'000;
// How long a close waits until no file of an earlier commit is left to remove.
constexpr Duration kTidyMax = Duration::Seconds(5);

// {"directory": "/d", "keep": 3, "every": "auto" | {"steps": n} | {"seconds": x}}
std::optional<CheckpointTerms> TermsIn(const json& message) {
  CheckpointTerms terms;
  terms.directory = JsonText(message, "directory");
  const int64_t keep = JsonInt<int64_t>(message, "keep", 3);
  if (!IsWholePlace(terms.directory) || keep < 1 || keep > kKeepAll) return std::nullopt;
  terms.keep = static_cast<uint32_t>(keep);
  if (const auto replicas = message.find("replicas"); replicas != message.end()) {
    const int64_t count = JsonInt<int64_t>(message, "replicas", -1);
    if (count < 0 || count > kReplicasMax) return std::nullopt;
    terms.replicas = static_cast<uint32_t>(count);
  }
  const auto every = message.find("every");
  if (every == message.end() || !every->is_object()) return terms;
  if (const int64_t steps = JsonInt<int64_t>(*every, "steps", 0); steps > 0) {
    terms.policy = {PersistPolicy::Kind::kSteps, steps, Duration()};
  } else if (const int64_t ms = JsonInt<int64_t>(*every, "milliseconds", 0); ms > 0) {
    terms.policy = {PersistPolicy::Kind::kTime, 0, Duration::Milliseconds(ms)};
  }
  return terms;
}

// The process that sent the message, with its start time.
ProcessId ProcessIn(const json& message) {
  const auto pid = static_cast<pid_t>(JsonInt<int32_t>(message, "pid", 0));
  return {pid, StartTimeOf(pid)};
}

// The save that a message names; generation 0 means the rank's own.
SavedStep SavedIn(const json& message) {
  return {.generation = JsonInt<uint64_t>(message, "generation", 0),
          .step = JsonInt<int64_t>(message, "step", -1),
          .branch = JsonInt<uint64_t>(message, "branch", 0)};
}

// The reverse of SavedIn.
json JsonOf(std::string_view op, SavedStep saved) {
  return {
      {"op", op}, {"generation", saved.generation}, {"branch", saved.branch}, {"step", saved.step}};
}

}  // namespace

void CheckpointStation::OnLine(LineServer::PeerId peer, const std::string& line) {
  const json message = ParseJson(line);
  const std::string op = message.is_object() ? JsonText(message, "op") : "";
  if (op == "open") {
    Admission admission;
    if (listener_.admits) admission = listener_.admits(server_->PidOf(peer), message);
    if (admission.problem.has_value()) {
      admission.problem->peer = peer;
      return Refuse(*admission.problem);
    }
    if (admission.waits_for.empty()) return OnOpen(peer, line, message);
    return Wait({peer, line, std::move(admission.waits_for)});
  }
  if (op == "lead" && listener_.leads) return Answer(peer, listener_.leads(message));
  if (op == "plan" && listener_.plans) return Answer(peer, listener_.plans(message));
  if (!machine_.Knows(peer)) {
    return Refuse({peer, "a rank sent a request before it opened its Checkpointer",
                   Concat("it says ", op), "use paceline.torch.Checkpointer"});
  }
  const SavedStep saved = SavedIn(message);
  if (op == "sealed") {
    Feed(core::ImageSealed{peer});
  } else if (op == "ready") {
    shelf_.Refresh();
    Feed(core::ArenaReady{});
  } else if (op == "restore") {
    core::RestoreAsked asked{peer, JsonInt<uint32_t>(message, "world_size", 0)};
    const auto after = message.find("after");
    if (after != message.end() && after->is_object()) asked.after = SavedIn(*after);
    Feed(asked);
  } else if (op == "wait" && JsonText(message, "level") == "replicated") {
    Feed(core::ReplicaAsked{peer, saved.step, saved.branch});
  } else if (op == "wait") {
    Feed(
        core::DurabilityAsked{peer, saved.step, saved.branch, JsonBool(message, "closing", false)});
    SetRate();
  } else if (op == "withdraw") {
    Feed(core::WaitWithdrawn{peer});
    SetRate();
  } else if (op == "damaged") {
    OnDamaged(message);
  } else if (op == "close") {
    if (setup_.is_private && openers_.size() == 1) LetGo();
    Feed(core::RankFinished{peer});
    Answer(peer, {{"op", "closed"}});
  }
}

// After the close, the user may remove or copy the directory, or another job may save there. So the
// worker first ends the clean-up that it does after a commit. If storage hangs, nobody waits for
// it.
void CheckpointStation::LetGo() {
  (void)worker_->AwaitIdle(kTidyMax);
  claims_->Release();
}

// Keeps the message until `Readmit`. After 10 s the rank is told what it waits for.
void CheckpointStation::Wait(Waiting waiting) {
  std::erase_if(waiting_, [&waiting](const Waiting& one) { return one.peer == waiting.peer; });
  waiting_.push_back(std::move(waiting));
  if (waiting_timer_ != 0) return;
  waiting_timer_ = reactor_.CallAt(MonotonicNs() + kNoticeAfterNs, [this] {
    waiting_timer_ = 0;
    for (const Waiting& one : waiting_) {
      Do(core::AnswerNotice{one.peer, Concat("the checkpoint waits for ", one.what)});
    }
  });
}

void CheckpointStation::OnOpen(LineServer::PeerId peer, const std::string& line,
                               const json& message) {
  const int64_t rank = JsonInt<int64_t>(message, "rank", -1);
  // A process without a launcher does not know its world.
  const int64_t generation =
      JsonInt<int64_t>(message, "generation", static_cast<int64_t>(machine_.generation().value()));
  const int64_t image_bytes = JsonInt<int64_t>(message, "image_bytes", 0);
  const std::optional<CheckpointTerms> terms = TermsIn(message);
  if (rank < 0 || rank >= (1 << 24) || generation < 0 || image_bytes < 0 || !terms.has_value()) {
    return Refuse({peer, "the request to open a Checkpointer is not valid",
                   "a number or the directory in it is out of range",
                   "use paceline.torch.Checkpointer"});
  }
  const Opener opener{rank, generation, ProcessIn(message)};
  if (const auto why = TakenBy(peer, opener)) return Refuse(*why);
  if (auto why = machine_.Refuses(static_cast<uint64_t>(rank), static_cast<uint64_t>(generation),
                                  *terms)) {
    why->peer = peer;
    return Refuse(*why);
  }
  if (!HasClaim(peer, line, terms->directory)) return;
  const ArenaShelf::Place place{setup_.node, static_cast<uint32_t>(rank), false};
  json answer = {{"op", "opened"}, {"job_id", setup_.job_id}, {"generation", generation}};
  answer["boot_id"] = setup_.boot_id;
  if (image_bytes > 0) {
    // Replicas of data-parallel ranks are on every host already.
    const uint32_t replicas =
        JsonBool(message, "is_replica", false) ? 0 : machine_.order().replicas;
    const auto budget = shelf_.BudgetFor(place, static_cast<uint64_t>(image_bytes), replicas);
    if (!budget.ok()) {
      const std::string home = ArenaHomesOfUser().memory;
      return Refuse({peer, "there is no folder for checkpoints in memory",
                     std::string(Text(budget.status())),
                     Concat("have ", home,
                            " removed by its owner or by root, and start again; checkpoints in "
                            "storage are not affected"),
                     home});
    }
    if (budget->slots == 0) {
      return Refuse({peer, "there is no room for checkpoints in memory", budget->why,
                     "run fewer ranks on this host, enlarge /dev/shm (mount -o remount,size=…), or "
                     "save less state"});
    }
    if (budget->slots < budget->wanted_slots || budget->replicas < replicas) {
      LogWarning("checkpoint_room", {{"rank", rank},
                                     {"slots", budget->slots},
                                     {"replicas", budget->replicas},
                                     {"is_on_disk", budget->is_on_disk},
                                     {"why", budget->why}});
    }
    if (budget->is_on_disk) answer["spilled"] = budget->why;
    answer["arena"] = budget->path;
    answer["slots"] = budget->slots;
  }
  Answer(peer, answer);
  // The rank may have made its arena while no agent ran.
  shelf_.Refresh();
  openers_[peer] = opener;
  Feed(core::RankOpened{peer, static_cast<uint64_t>(rank), static_cast<uint64_t>(generation)});
  listener_.ranks();
}

// The error for a second living process of one rank, because each would overwrite the other's
// saves. Connections of dead processes do not count: a child may hold the socket open.
std::optional<core::AnswerProblem> CheckpointStation::TakenBy(LineServer::PeerId peer,
                                                              const Opener& opener) const {
  for (const auto& [other, before] : openers_) {
    const bool is_same_rank = before.rank == opener.rank && before.generation == opener.generation;
    const bool is_other = other != peer && is_same_rank && before.process != opener.process;
    if (!is_other || !IsAlive(before.process) || IsDying(before.process)) continue;
    return core::AnswerProblem{
        peer, "another process saves to that directory",
        Concat("process ", before.process.pid, " has a Checkpointer open there"),
        "use another directory, or close() the other one first; to only read, pl.load(directory, "
        "state)"};
  }
  return std::nullopt;
}

// False: the rank waits until it is known whether another job saves to the directory.
bool CheckpointStation::HasClaim(LineServer::PeerId peer, const std::string& line,
                                 const std::string& directory) {
  claims_->Want(directory);
  if (claims_->may() == core::ClaimMachine::Answer::kYes) return true;
  std::erase_if(unclaimed_, [peer](const auto& one) { return one.first == peer; });
  unclaimed_.emplace_back(peer, line);
  if (const std::string why = claims_->waits_for(); !why.empty()) {
    Do(core::AnswerNotice{peer, why});
  }
  return false;
}

void CheckpointStation::OnClaim() {
  const core::ClaimMachine::Answer answer = claims_->may();
  if (answer == core::ClaimMachine::Answer::kWait) {
    const std::string why = claims_->waits_for();
    for (const auto& [peer, line] : unclaimed_) {
      if (!why.empty()) Do(core::AnswerNotice{peer, why});
    }
    return;
  }
  for (const auto& [peer, line] : std::exchange(unclaimed_, {})) {
    if (answer == core::ClaimMachine::Answer::kYes) {
      OnLine(peer, line);
      continue;
    }
    Refuse(
        {peer, "another job saves to that directory", claims_->Other(),
         "use another directory, or end that job first; to only read, pl.load(directory, state)"});
  }
}

void CheckpointStation::TellAll(const std::string& text) {
  for (const auto& [peer, opener] : openers_) Do(core::AnswerNotice{peer, text});
  for (const auto& [peer, line] : unclaimed_) Do(core::AnswerNotice{peer, text});
}

void CheckpointStation::OnDamaged(const json& message) {
  if (const std::string name = JsonText(message, "name"); !name.empty()) {
    if (ckpt::IsPlainName(name)) Feed(core::CheckpointFoundDamaged{name});
    return;
  }
  const int64_t rank = JsonInt<int64_t>(message, "rank", -1);
  if (rank < 0 || JsonInt<int64_t>(message, "generation", -1) < 0) return;
  const ArenaShelf::Place place{JsonText(message, "place"), static_cast<uint32_t>(rank),
                                JsonBool(message, "is_copy", false)};
  LogError("image_damaged",
           {{"place", place.node}, {"rank", place.rank}, {"is_copy", place.is_copy}});
  Feed(core::ImageFoundDamaged{place.node, place.rank, place.is_copy, SavedIn(message)});
}

void CheckpointStation::Answer(LineServer::PeerId peer, const json& answer) {
  server_->Send(peer, PrintJson(answer));
}

void CheckpointStation::Refuse(const core::AnswerProblem& problem) {
  LogWarning("checkpoint_refused", {{"what", problem.what}, {"why", problem.why}});
  Do(problem);
}

// ---- answers to ranks ----

void CheckpointStation::Do(const core::AnswerRestore& action) {
  const RestoreOrder& restore = action.order;
  json answer = JsonOf("restore", restore.saved);
  answer["world_size"] = restore.world_size;
  answer["reason"] = restore.reason;
  switch (restore.from) {
    case RestoreOrder::From::kNothing:
      answer["from"] = "nothing";
      if (!restore.name.empty()) answer["damaged"] = restore.name;
      break;
    case RestoreOrder::From::kStorage:
      answer["from"] = "storage";
      answer["name"] = restore.name;
      answer["path"] = action.is_fetched ? tier_.FolderOf(restore.name)
                                         : Concat(machine_.terms().directory, "/", restore.name);
      if (restore.name == passed_over_.by) {
        for (const ckpt::PassedOver& one : passed_over_.folders) {
          answer["passed_over"].push_back(Say(one));
        }
      }
      if (action.is_shared && chunks_ != nullptr) answer["chunks"] = chunks_->path();
      break;
    case RestoreOrder::From::kMemory: answer["from"] = "memory"; break;
  }
  for (const RestoreOrder::Image& image : action.images) {
    const ArenaShelf::Place place{image.place, image.rank.value(), image.is_copy};
    json one = {{"rank", place.rank}, {"place", place.node}, {"is_copy", place.is_copy}};
    if (place.node == tier_.place()) {
      one["folder"] = tier_.FolderOf(restore.saved);
      answer["reason"] = restore.reason + "; this rank's from its host's disk";
    } else {
      one["path"] = shelf_.PathOf(place);
    }
    answer["images"].push_back(std::move(one));
  }
  Answer(action.peer, answer);
}

void CheckpointStation::Do(const core::AnswerDurable& action) {
  Answer(action.peer, JsonOf("durable", action.durable));
}

void CheckpointStation::Do(const core::AnswerNotice& action) {
  Answer(action.peer, {{"op", "notice"}, {"text", action.text}});
}

void CheckpointStation::Do(const core::AnswerReplicated& action) {
  Answer(action.peer, JsonOf("replicated", action.replicated));
}

void CheckpointStation::Do(const core::AnswerWithdrawn& action) {
  Answer(action.peer, {{"op", "withdrawn"}});
}

void CheckpointStation::Do(const core::AnswerProblem& action) {
  json answer = {{"op", "error"}, {"what", action.what}, {"why", action.why}, {"fix", action.fix}};
  if (!action.where.empty()) answer["where"] = action.where;
  if (action.is_final) answer["final"] = true;
  Answer(action.peer, answer);
}

}  // namespace paceline::agent
