// The station's answers to waiting ranks: for a restore, for storage, for a second host.

#include <algorithm>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/core/checkpoint/last_steps.h"
#include "paceline/core/checkpoint/station_machine.h"
#include "paceline/core/checkpoint/storage_wait.h"

namespace paceline::core {
namespace {

constexpr Duration kFetchAgain = Duration::Seconds(1);  // from a store that does not answer

}  // namespace

void StationMachine::AnswerRestores() {
  if (!order_.restore.has_value() || !are_copies_known_) return;
  for (auto& [peer, rank] : peers_) {
    const bool is_his = rank.generation == order_.restore->generation.value();
    if (rank.wants_restore && is_his && AnswerFrom(peer, &rank)) rank.wants_restore = false;
  }
}

// False: answer later.
bool StationMachine::AnswerFrom(StationPeer peer, Peer* rank) {
  const RestoreOrder& restore = *order_.restore;
  AnswerRestore answer{
      .peer = peer, .order = restore, .images = {}, .is_shared = IsReadingShared()};
  answer.order.sources.clear();
  const bool is_memory = restore.from == RestoreOrder::From::kMemory;
  const auto mine =
      std::find_if(restore.sources.begin(), restore.sources.end(),
                   [&](const RestoreOrder::Source& one) { return one.rank.value() == rank->rank; });
  // Ranks read paths, so files of an object store are first fetched to this host.
  const bool is_far =
      restore.from == RestoreOrder::From::kStorage && !terms().directory.starts_with('/');
  const bool wants_all = is_far && rank->world_size != restore.world_size;
  if (is_memory && mine == restore.sources.end()) return false;  // the master waits for reports
  if (mine != restore.sources.end() && !wants_all) {
    switch (PresenceOf(*mine)) {
      case Presence::kHere: answer.images = mine->images; break;
      case Presence::kLater: return false;
      case Presence::kFailed:
        if (!is_memory) break;  // the rank reads it by itself
        MARK("a copy could not be had");
        actions_.push_back(Unfetched(peer));
        return true;
    }
  }
  if (is_far) {
    Fetch(peer, rank, std::move(answer.images));
    return false;
  }
  actions_.push_back(std::move(answer));
  return true;
}

// The world restored once, at its start. A rank that has saved since gets its own last save, once
// that is in storage. Then all ranks have saved that step and none has saved a later one, so all
// ranks that ask get the same step.
void StationMachine::AnswerAgain(const RestoreAsked& event, const Peer& rank) {
  SavedStep saved = *event.after;
  saved.generation = rank.generation;
  if (order_.durable != saved) {
    actions_.push_back(AnswerProblem{
        event.peer, Say(saved) + " is not on every rank",
        "in storage is " + (order_.durable.has_value() ? Say(*order_.durable) : "nothing"),
        "save the same last step on every rank before restore()"});
    return;
  }
  MARK("a rank restores what it has saved");
  RestoreOrder order{.generation = Generation(rank.generation),
                     .from = RestoreOrder::From::kMemory,
                     .saved = saved,
                     .world_size = event.world_size,
                     .name = "",
                     .sources = {},
                     .reason = "goes on after " + Say(saved) + ", which this world saved"};
  const auto number = static_cast<uint32_t>(rank.rank);
  actions_.push_back(AnswerRestore{
      .peer = event.peer, .order = std::move(order), .images = {{Rank(number), setup_.node}}});
}

bool StationMachine::IsReadingShared() const {
  return order_.restore.has_value() && order_.restore->from == RestoreOrder::From::kStorage &&
         !order_.readers.empty();
}

// Whether the copies that this rank restores from are on this host.
StationMachine::Presence StationMachine::PresenceOf(const RestoreOrder::Source& source) const {
  const SavedStep saved = order_.restore->saved;
  Presence presence = Presence::kHere;
  for (const RestoreOrder::Image& image : source.images) {
    const bool is_fetched = image.is_copy && image.place == setup_.node && peer_memory_.has_value();
    if (!is_fetched || copies_.here.contains({image.rank, saved})) continue;
    presence = Presence::kLater;
    for (const FetchFailure& failure : copies_.failed) {
      if (failure.rank == image.rank && failure.saved == saved) return Presence::kFailed;
    }
  }
  return presence;
}

// The rank ends, and the next world chooses from what can be fetched.
AnswerProblem StationMachine::Unfetched(StationPeer peer) const {
  std::string why;
  for (const FetchFailure& failure : copies_.failed) {
    if (!why.empty()) why += "; ";
    const bool is_named = failure.rank.value() < order_.restore->world_size;
    why += (is_named ? "rank " + ToString(failure.rank) + ": " : "") + failure.problem;
  }
  return AnswerProblem{
      peer, Say(order_.restore->saved) + " cannot be fetched from another host", std::move(why),
      "nothing to do under paceline run: the next world goes on from the newest complete step"};
}

// `images`: its tensors, if they are already here.
void StationMachine::Fetch(StationPeer peer, Peer* rank, std::vector<RestoreOrder::Image> images) {
  if (rank->is_fetching || !fetch_at_.is_max()) return;
  const RestoreOrder& restore = *order_.restore;
  rank->images = std::move(images);
  FetchStored fetch{peer, terms().directory, restore.name, {}, StoredPart::kAll};
  if (!rank->images.empty()) fetch.part = StoredPart::kNotes;
  // In a world of another size every rank reads parts of all files.
  const bool is_same_size = rank->world_size == restore.world_size;
  if (is_same_size) {
    fetch.ranks.insert(static_cast<uint32_t>(rank->rank));
  } else if (IsReadingShared()) {
    MARK("chunks of an object store are shared");
    fetch.part = StoredPart::kManifest;
  }
  rank->is_fetching = true;
  actions_.push_back(std::move(fetch));
}

void StationMachine::On(const StoredFetched& event) {
  const auto found = peers_.find(event.peer);
  if (found == peers_.end()) return;
  Peer& rank = found->second;
  rank.is_fetching = false;
  const bool is_wanted =
      rank.wants_restore && order_.restore.has_value() && order_.restore->name == event.name;
  if (!is_wanted) return AnswerRestores();
  if (event.end == StoredFetched::End::kAway) {
    // The step is decided, so the rank waits for the store.
    TellTrouble(event.peer, &rank, event.name + " cannot be fetched now", event.problem);
    fetch_at_ = std::min(fetch_at_, now_ + kFetchAgain);
    return;
  }
  rank.wants_restore = false;
  if (event.end == StoredFetched::End::kRefused) {
    actions_.push_back(AnswerProblem{event.peer, event.name + " cannot be fetched", event.problem,
                                     "correct that, or make room on this host's disk"});
    return;
  }
  // A failed fetch leaves the file missing, and the rank reports that.
  AnswerRestore answer{.peer = event.peer,
                       .order = *order_.restore,
                       .images = std::exchange(rank.images, {}),
                       .is_fetched = true,
                       .is_shared = IsReadingShared()};
  answer.order.sources.clear();
  if (event.was_here && answer.images.empty())
    answer.order.reason += "; its files were on this host";
  actions_.push_back(std::move(answer));
}

// Tells a waiting rank once what it waits for.
void StationMachine::TellTrouble(StationPeer peer, Peer* rank, std::string_view what,
                                 const std::string& why) {
  if (!rank->wants_restore || std::exchange(rank->trouble, why) == why) return;
  actions_.push_back(AnswerNotice{peer, std::string(what) + " (" + why + "); trying again"});
}

// On a network file system whose server is gone, reads hang without an error.
void StationMachine::TellSilence() {
  if (!is_blind_ || !is_looking_) return;
  for (auto& [peer, rank] : peers_) {
    if (!rank.wants_restore || std::exchange(rank.trouble, "silence") == "silence") continue;
    MARK("storage does not answer");
    actions_.push_back(AnswerNotice{peer, terms().directory +
                                              " does not answer; this rank waits for it, unless "
                                              "memory is known to hold the newest step"});
  }
}

// Refused: no process of this job may read there, and none has before. This does not pass: the name
// or the credentials are wrong. Neither does a newer version's checkpoint. A directory's rights are
// corrected more easily, and memory may have the newest step. So a rank is told only after the time
// in which it would have got that.
void StationMachine::AnswerUnseen(const StorageLooked& event) {
  const std::string& why = event.problem;
  const std::string directory = terms().directory;
  const bool is_path = directory.starts_with('/');
  const bool is_refused = event.is_refused && !has_seen_storage_ && (is_blind_ || !is_path);
  for (auto& [peer, rank] : peers_) {
    if (!rank.wants_restore) continue;
    if (event.is_newer) {
      rank.wants_restore = false;
      actions_.push_back(AnswerProblem{
          peer, "the newest checkpoint in " + directory + " was written by a newer paceline", why,
          "restore with that version or a later one, or save to another directory; nothing was "
          "changed there"});
      continue;
    }
    if (!is_refused) {
      TellTrouble(peer, &rank, directory + " cannot be read now", why);
      continue;
    }
    MARK("storage lets nobody in");
    rank.wants_restore = false;
    actions_.push_back(AnswerProblem{
        peer, "no process of this job may read the checkpoints in " + directory, why,
        std::string("correct ") +
            (is_path ? "the access rights" : "its name, its endpoint or the credentials") +
            "; to start at step 0 could hide checkpoints that are there"});
  }
}

// Answers ranks that wait for storage; a closing rank only if `patience` says so.
void StationMachine::TellUnstored(Patience patience, const std::string& fix) {
  for (auto& [peer, rank] : peers_) {
    if (!rank.awaited.has_value()) continue;
    if (rank.is_closing && patience == Patience::kNone) continue;
    actions_.push_back(
        AnswerProblem{peer, Say(*rank.awaited) + " is not in storage", order_.problem, fix});
    rank.awaited.reset();
  }
}

// Without a launcher only the rank has a console. It is told when it asks next.
void StationMachine::TellRefusal() {
  if (!setup_.is_private) return;
  for (auto& [peer, rank] : peers_) {
    if (IsSameReason(std::exchange(rank.trouble, order_.problem), order_.problem)) continue;
    actions_.push_back(AnswerNotice{
        peer, "storage refuses to take checkpoints: " + terms().directory + ": " + order_.problem +
                  "; " + MendingOf(terms().directory, order_.problem) +
                  "; paceline tries again by itself"});
  }
}

void StationMachine::AnswerWaits() {
  for (auto& [peer, rank] : peers_) {
    const bool is_done =
        rank.awaited.has_value() && order_.durable.has_value() && *order_.durable >= *rank.awaited;
    if (!is_done) continue;
    actions_.push_back(AnswerDurable{peer, *order_.durable});
    rank.awaited.reset();
  }
  if (SaysNever(order_.problem)) {
    TellUnstored(Patience::kAll, "save the same last step on every rank");
  }
  for (auto& [peer, rank] : peers_) {
    const bool is_over = rank.awaited.has_value() && order_.given_up.has_value() &&
                         *rank.awaited <= *order_.given_up;
    if (!is_over) continue;
    MARK("a rank that closes hears that storage refuses");
    actions_.push_back(AnswerProblem{peer, Say(*rank.awaited) + " is not in storage",
                                     order_.problem,
                                     "repair the storage; the step stays in memory"});
    rank.awaited.reset();
  }
}

void StationMachine::AnswerReplicaWaits() {
  for (auto& [peer, rank] : peers_) {
    if (!rank.awaits_replica.has_value()) continue;
    if (order_.replicated.has_value() && *order_.replicated >= *rank.awaits_replica) {
      actions_.push_back(AnswerReplicated{peer, *order_.replicated});
    } else if (!order_.replica_problem.empty()) {
      actions_.push_back(AnswerProblem{
          peer, Say(*rank.awaits_replica) + " has no copy on a second host", order_.replica_problem,
          "use more hosts or more memory (/dev/shm), or do not wait for copies"});
    } else {
      continue;
    }
    rank.awaits_replica.reset();
  }
}

}  // namespace paceline::core
