#include "paceline/agent/checkpoint_station.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "paceline/agent/json_field.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

using nlohmann::json;

// News that others wait for is gathered this long: ranks of a node save at the same moment.
constexpr int64_t kGatherNs = 5'000'000;
constexpr int64_t kUrgentEveryNs = 20'000'000;
constexpr uint32_t kKeepMax = 1'000'000;
constexpr size_t kDamagedMax = 8;

// {"directory": "/d", "keep": 3, "every": "auto" | {"steps": n} | {"seconds": x}}
std::optional<CheckpointTerms> TermsIn(const json& message) {
  CheckpointTerms terms;
  terms.directory = JsonText(message, "directory");
  const int64_t keep = JsonInt<int64_t>(message, "keep", 3);
  if (!terms.directory.starts_with("/") || keep < 1 || keep > kKeepMax) return std::nullopt;
  terms.keep = static_cast<uint32_t>(keep);
  const auto every = message.find("every");
  if (every == message.end() || !every->is_object()) return terms;
  if (const int64_t steps = JsonInt<int64_t>(*every, "steps", 0); steps > 0) {
    terms.policy = {PersistPolicy::Kind::kSteps, steps, Duration()};
  } else if (const int64_t ms = JsonInt<int64_t>(*every, "milliseconds", 0); ms > 0) {
    terms.policy = {PersistPolicy::Kind::kTime, 0, Duration::Milliseconds(ms)};
  }
  return terms;
}

}  // namespace

CheckpointStation::CheckpointStation(Reactor& reactor, Setup setup, Listener listener)
    : reactor_(reactor),
      setup_(std::move(setup)),
      listener_(std::move(listener)),
      shelf_(setup_.arena_root, setup_.job_id, setup_.boot_id),
      worker_(std::make_unique<CheckpointWorker>([this](CheckpointDone done) {
        reactor_.Post([this, done = std::move(done)] { OnDone(done); });
      })) {}

absl::StatusOr<std::unique_ptr<CheckpointStation>> CheckpointStation::Open(Reactor& reactor,
                                                                           Setup setup,
                                                                           Listener listener) {
  auto station = std::unique_ptr<CheckpointStation>(
      new CheckpointStation(reactor, std::move(setup), std::move(listener)));
  CheckpointStation* const raw = station.get();
  ASSIGN_OR_RETURN(
      raw->server_,
      LineServer::Listen(reactor, raw->setup_.socket,
                         {.line = [raw](LineServer::PeerId peer,
                                        const std::string& line) { raw->OnLine(peer, line); },
                          .gone =
                              [raw](LineServer::PeerId peer) {
                                if (raw->ranks_.erase(peer) == 0) return;
                                raw->ReportSoon(true);
                                raw->listener_.ranks();
                              }}));
  raw->shelf_.Refresh();
  for (const MemoryImage& image : raw->shelf_.Images()) {
    // Claims of an agent before this one.
    if (image.place != raw->setup_.node) continue;
    raw->shelf_.Find({image.place, image.rank.value()})->ForgetReaders();
  }
  return station;
}

CheckpointStation::~CheckpointStation() {
  if (report_timer_ != 0) reactor_.Cancel(report_timer_);
}

void CheckpointStation::OnLine(LineServer::PeerId peer, const std::string& line) {
  const json message = json::parse(line, nullptr, /*allow_exceptions=*/false);
  const std::string op = message.is_object() ? JsonText(message, "op") : "";
  if (op == "open" && is_paused_) {
    paused_.emplace_back(peer, line);
    return;
  }
  if (op == "open") return OnOpen(peer, message);
  const auto rank = ranks_.find(peer);
  if (rank == ranks_.end()) {
    return Refuse(peer, "a rank speaks before it has opened its checkpoint", Concat("it says ", op),
                  "use paceline.torch.Checkpointer");
  }
  if (op == "sealed") {
    const bool may_matter = order_.hold.has_value() || rank->second.awaited.has_value();
    ReportSoon(may_matter);
  } else if (op == "ready") {
    shelf_.Refresh();
    SetHold();
  } else if (op == "restore") {
    rank->second.wants_restore = true;
    AnswerRestores();
  } else if (op == "wait") {
    OnWait(peer, message);
  } else if (op == "damaged") {
    OnDamaged(message);
  }
}

void CheckpointStation::OnOpen(LineServer::PeerId peer, const json& message) {
  const int64_t rank = JsonInt<int64_t>(message, "rank", -1);
  // A process without a launcher does not know its world.
  const int64_t generation =
      JsonInt<int64_t>(message, "generation", static_cast<int64_t>(generation_.value()));
  const int64_t image_bytes = JsonInt<int64_t>(message, "image_bytes", 0);
  const std::optional<CheckpointTerms> terms = TermsIn(message);
  if (rank < 0 || rank >= (1 << 24) || generation < 0 || image_bytes < 0 || !terms.has_value()) {
    return Refuse(peer, "this is no way to open a checkpoint", "a number or the directory is wrong",
                  "use paceline.torch.Checkpointer");
  }
  if (generation_.value() > static_cast<uint64_t>(generation)) {
    return Refuse(peer, "this rank is of a world that has ended",
                  Concat("its generation is ", generation, ", the node's is ", generation_.value()),
                  "nothing to do: it is about to be stopped");
  }
  const std::optional<CheckpointTerms>& known = order_.terms.has_value() ? order_.terms : terms_;
  if (known.has_value() && *known != *terms && !setup_.is_private) {
    return Refuse(peer, "ranks disagree about their checkpoints",
                  Concat("the job saves to ", known->directory, " and keeps ", known->keep,
                         ", rank ", rank, " asks for another directory, number or interval"),
                  "give every rank's Checkpointer the same arguments, and use one in a job");
  }
  terms_ = terms;
  const ArenaShelf::Place place{setup_.node, static_cast<uint32_t>(rank)};
  json answer = {{"op", "opened"},
                 {"job_id", setup_.job_id},
                 {"boot_id", setup_.boot_id},
                 {"generation", generation}};
  if (image_bytes > 0) {
    if (const absl::Status made = shelf_.Prepare(place); !made.ok()) {
      return Refuse(peer, "there is no place for checkpoints in memory", std::string(Text(made)),
                    "look at the folder, remove it, and start again");
    }
    std::string why;
    const uint32_t slots = shelf_.SlotsFor(place, static_cast<uint64_t>(image_bytes), &why);
    if (slots == 0) {
      return Refuse(peer, "there is no room for checkpoints in memory", why,
                    "fewer ranks on this host, a larger /dev/shm (mount -o remount,size=…), or "
                    "less state in the checkpoint");
    }
    if (slots < 3) LogWarning("checkpoint_room", {{"rank", rank}, {"slots", slots}, {"why", why}});
    answer["arena"] = shelf_.PathOf(place);
    answer["slots"] = slots;
  }
  Peer& one = ranks_[peer];
  one.rank = static_cast<uint64_t>(rank);
  one.generation = static_cast<uint64_t>(generation);
  Answer(peer, answer);
  if (!has_looked_ && !is_looking_) Look();
  ReportSoon(true);
  listener_.ranks();
}

void CheckpointStation::OnWait(LineServer::PeerId peer, const json& message) {
  Peer& rank = ranks_[peer];
  rank.awaited = SavedStep{rank.generation, JsonInt<int64_t>(message, "step", -1)};
  AnswerWaits();
  ReportSoon(true);
}

void CheckpointStation::OnDamaged(const json& message) {
  if (const std::string name = JsonText(message, "name"); !name.empty()) {
    if (!ckpt::IsPlainName(name) || damaged_.size() >= kDamagedMax) return;
    damaged_.insert(name);
    Look();
  } else {
    const int64_t rank = JsonInt<int64_t>(message, "rank", -1);
    const int64_t generation = JsonInt<int64_t>(message, "generation", -1);
    if (rank < 0 || generation < 0) return;
    const ArenaShelf::Place place{JsonText(message, "place"), static_cast<uint32_t>(rank)};
    LogError("image_damaged", {{"place", place.node}, {"rank", place.rank}});
    bad_images_.insert(
        {place, {static_cast<uint64_t>(generation), JsonInt<int64_t>(message, "step", -1)}});
  }
  ReportSoon(true);
}

// The master knows them whenever it orders something.
const CheckpointTerms& CheckpointStation::Terms() const {
  static const CheckpointTerms kNone;
  if (order_.terms.has_value()) return *order_.terms;
  return terms_.has_value() ? *terms_ : kNone;
}

// Until that is done, no report of this node counts.
void CheckpointStation::Look() {
  is_looking_ = true;
  has_looked_ = false;
  std::set<std::string> except = damaged_;
  except.insert(order_.damaged.begin(), order_.damaged.end());
  worker_->Add(LookTask{Terms().directory, std::move(except)});
}

void CheckpointStation::SetGeneration(Generation generation) {
  if (generation == generation_) return;
  generation_ = generation;
  shelf_.Refresh();
  // Whoever wrote for an older world is gone.
  for (const MemoryImage& image : shelf_.Images()) {
    if (image.place != setup_.node) continue;
    shelf_.Find({image.place, image.rank.value()})->SetHold(std::nullopt);
  }
  is_paused_ = false;
  for (const auto& [peer, line] : std::exchange(paused_, {})) OnLine(peer, line);
  ReportSoon(true);
}

uint64_t CheckpointStation::NewestGeneration() {
  shelf_.Refresh();
  uint64_t newest = generation_.value();
  for (const MemoryImage& image : shelf_.Images()) {
    newest = std::max(newest, image.saved.generation);
  }
  return newest;
}

void CheckpointStation::TellNow() {
  has_told_ = false;
  ReportNow();
}

void CheckpointStation::Linked() {
  has_told_ = false;
  ReportSoon(true);
}

void CheckpointStation::Take(const CheckpointOrder& order) {
  const bool was_over = order_.is_over;
  const bool is_decided = order.restore.has_value() && order.restore != order_.restore;
  if (is_decided) {
    LogInfo("restore_ordered", {{"generation", order.restore->generation},
                                {"step", order.restore->saved.step},
                                {"why", order.restore->reason}});
  }
  const bool has_more_damaged = order.damaged != order_.damaged;
  std::optional<RestoreOrder> known = std::move(order_.restore);
  order_ = order;
  // A later master may not know the sources any more; they were good when it was decided.
  const bool is_poorer = known.has_value() && order_.restore.has_value() &&
                         known->generation == order_.restore->generation &&
                         order_.restore->sources.empty();
  if (is_poorer) order_.restore = std::move(known);
  if (has_more_damaged && terms_.has_value()) Look();
  if (order_.persist.has_value() && order_.persist != persisting_) StartPersist(*order_.persist);
  SetHold();
  if (order_.commit.has_value() &&
      (!commit_.has_value() || commit_->name != order_.commit->name || !commit_->problem.empty())) {
    commit_ = CommitState{order_.commit->name, false, "", 0};
    const CheckpointTerms& terms = Terms();
    worker_->Add(CommitTask{{terms.directory, *order_.commit, setup_.job_id}, terms.keep});
  }
  AnswerRestores();
  AnswerWaits();
  if (order_.is_over && !was_over) listener_.over();
}

void CheckpointStation::SetHold() {
  for (const auto& [peer, rank] : ranks_) {
    const auto arena = shelf_.Find({setup_.node, static_cast<uint32_t>(rank.rank)});
    if (arena != nullptr && arena->hold() != order_.hold) arena->SetHold(order_.hold);
  }
}

void CheckpointStation::StartPersist(const PersistOrder& order) {
  persisting_ = order;
  shards_.clear();
  shelf_.Refresh();
  const CheckpointTerms& terms = Terms();
  for (const PersistOrder::Shard& shard : order.shards) {
    const ArenaShelf::Place place{setup_.node, shard.rank.value()};
    ShardState& state = shards_[place.rank];
    state = {.rank = shard.rank, .saved = order.saved};
    const std::shared_ptr<ckpt::Arena> arena = shelf_.Find(place);
    std::optional<ArenaImage> claimed;
    if (arena != nullptr) {
      for (const ArenaImage& image : arena->Sealed()) {
        const bool is_it =
            image.generation == order.saved.generation && image.step == order.saved.step;
        if (is_it && arena->BeginRead(image)) claimed = image;
      }
    }
    if (!claimed.has_value()) {
      state.problem = Concat("its memory does not hold step ", order.saved.step, " any more");
      continue;
    }
    worker_->Add(ShardTask{{.directory = terms.directory,
                            .name = order.name,
                            .job_id = setup_.job_id,
                            .saved = order.saved,
                            .rank = place.rank,
                            .file_of = shard.file_of.value()},
                           arena,
                           *claimed});
  }
  ReportSoon(true);
}

void CheckpointStation::OnDone(CheckpointDone done) {
  std::visit([this](auto& one) { On(one); }, done);
  ReportSoon(true);
}

void CheckpointStation::On(ShardDone& done) {
  done.task.arena->EndRead(done.task.image);
  const auto state = shards_.find(done.task.place.rank);
  const bool is_current = state != shards_.end() && state->second.saved == done.task.place.saved;
  LogInfo("shard_written", {{"rank", done.task.place.rank},
                            {"checkpoint", done.task.place.name},
                            {"ms", done.took.milliseconds()},
                            {"problem", done.problem}});
  if (!is_current) return;
  state->second.is_durable = done.problem.empty();
  state->second.problem = done.problem;
  state->second.took = done.took;
}

void CheckpointStation::On(const CommitDone& done) {
  LogInfo("checkpoint_commit", {{"checkpoint", done.name}, {"problem", done.problem}});
  if (!commit_.has_value() || commit_->name != done.name) return;
  commit_->is_done = done.problem.empty();
  commit_->problem = done.problem;
  commit_->bytes = done.bytes;
}

void CheckpointStation::On(const LookDone& done) {
  // Another look may be on its way, for less.
  is_looking_ = false;
  const bool is_named = done.stored.has_value() && damaged_.contains(done.stored->name);
  has_looked_ = !is_named;
  stored_ = done.stored;
}

void CheckpointStation::Answer(LineServer::PeerId peer, const json& answer) {
  server_->Send(peer, answer.dump(-1, ' ', false, json::error_handler_t::replace));
}

void CheckpointStation::Refuse(LineServer::PeerId peer, const std::string& what,
                               const std::string& why, const std::string& fix) {
  LogWarning("checkpoint_refused", {{"what", what}, {"why", why}});
  Answer(peer, {{"op", "error"}, {"what", what}, {"why", why}, {"fix", fix}});
}

void CheckpointStation::AnswerRestores() {
  if (!order_.restore.has_value()) return;
  const RestoreOrder& restore = *order_.restore;
  for (auto& [peer, rank] : ranks_) {
    if (!rank.wants_restore || rank.generation != restore.generation.value()) continue;
    json answer = {{"op", "restore"},
                   {"generation", restore.saved.generation},
                   {"step", restore.saved.step},
                   {"world_size", restore.world_size},
                   {"reason", restore.reason}};
    if (restore.from == RestoreOrder::From::kNothing) {
      answer["from"] = "nothing";
      if (!restore.name.empty()) answer["damaged"] = restore.name;
    }
    if (restore.from == RestoreOrder::From::kStorage) {
      answer["from"] = "storage";
      answer["name"] = restore.name;
      answer["path"] = Concat(Terms().directory, "/", restore.name);
    }
    if (restore.from == RestoreOrder::From::kMemory) {
      const auto mine = std::find_if(
          restore.sources.begin(), restore.sources.end(),
          [&](const RestoreOrder::Source& one) { return one.rank.value() == rank.rank; });
      if (mine == restore.sources.end()) continue;  // a master that has not heard all yet
      answer["from"] = "memory";
      for (const RestoreOrder::Image& image : mine->images) {
        const ArenaShelf::Place place{image.place, image.rank.value()};
        answer["images"].push_back(
            {{"rank", place.rank}, {"place", place.node}, {"path", shelf_.PathOf(place)}});
      }
    }
    rank.wants_restore = false;
    Answer(peer, answer);
  }
}

void CheckpointStation::AnswerWaits() {
  for (auto& [peer, rank] : ranks_) {
    if (!rank.awaited.has_value()) continue;
    if (order_.durable.has_value() && *order_.durable >= *rank.awaited) {
      Answer(peer, {{"op", "durable"}, {"step", order_.durable->step}});
    } else if (!order_.problem.empty()) {
      Answer(peer, {{"op", "error"},
                    {"what", Concat("step ", rank.awaited->step, " is not in storage")},
                    {"why", order_.problem},
                    {"fix", "mend the storage: it is tried again with a later step"}});
    } else {
      continue;
    }
    rank.awaited.reset();
  }
}

CheckpointReport CheckpointStation::MakeReport() {
  CheckpointReport report;
  // Until storage was looked at, what this node says is not the whole truth.
  report.generation = terms_.has_value() && !has_looked_ ? Generation() : generation_;
  report.terms = terms_;
  report.images = shelf_.Images();
  std::erase_if(report.images, [&](const MemoryImage& image) {
    return bad_images_.contains({{image.place, image.rank.value()}, image.saved});
  });
  for (const auto& [rank, state] : shards_) report.shards.push_back(state);
  report.commit = commit_;
  report.stored = stored_;
  for (const auto& [peer, rank] : ranks_) {
    if (!rank.awaited.has_value()) continue;
    report.flush = std::max(report.flush.value_or(-1), rank.awaited->step);
  }
  report.damaged.assign(damaged_.begin(), damaged_.end());
  return report;
}

void CheckpointStation::ReportSoon(bool is_urgent) {
  if (report_timer_ != 0 && (is_report_urgent_ || !is_urgent)) return;
  if (report_timer_ != 0) reactor_.Cancel(report_timer_);
  is_report_urgent_ = is_urgent;
  const int64_t every = is_urgent ? kUrgentEveryNs : setup_.report_every.nanoseconds();
  const int64_t at = std::max(MonotonicNs() + kGatherNs, told_at_ns_ + every);
  report_timer_ = reactor_.CallAt(at, [this] {
    report_timer_ = 0;
    ReportNow();
  });
}

void CheckpointStation::ReportNow() {
  // A node whose ranks never made a Checkpointer says nothing.
  CheckpointReport report = MakeReport();
  const bool is_silent = !has_told_ && !report.terms.has_value() && report.images.empty();
  if (is_silent || (has_told_ && report == told_)) return;
  told_ = std::move(report);
  has_told_ = true;
  told_at_ns_ = MonotonicNs();
  listener_.report(told_);
}

void CheckpointStation::CleanUp() {
  if (!order_.problem.empty()) {
    LogWarning("arenas_stay", {{"why", order_.problem}});
    return;
  }
  shelf_.RemoveAll();
}

}  // namespace paceline::agent
