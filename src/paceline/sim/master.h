#pragma once

// The host of the simulated master: gives events to core::Job, keeps a journal with a durable
// prefix, and runs effects only when their records are durable. It can crash with any part of the
// unwritten records surviving, freeze, find its disk full, and restart with a wall clock that was
// set.
//
// Its host can be lost with its journal. Then another Master of the next term takes its place, asks
// the nodes for copies of the journal, and begins with the newest. The lost one may only have been
// cut off, and come back as a former master: it works as ever, but no check counts it as the job's.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/action.h"
#include "paceline/core/event.h"
#include "paceline/core/job.h"
#include "paceline/core/record.h"
#include "paceline/core/scale/memory_desk.h"
#include "paceline/core/slow/pace_desk.h"
#include "paceline/core/slow/time_desk.h"
#include "paceline/core/succession/journal_copies.h"
#include "paceline/core/succession/succession.h"
#include "paceline/model/ids.h"
#include "paceline/sim/queue.h"

namespace paceline::sim {

class SimWorld;

class Master {
 public:
  Master(SimWorld& world, uint64_t term);

  bool is_on() const { return is_on_; }
  bool is_frozen() const { return is_frozen_; }
  bool has_finished() const { return has_finished_; }
  int exit_code() const { return exit_code_; }
  uint64_t incarnation() const { return incarnation_; }
  uint64_t term() const { return term_; }
  // It has not begun yet: it asks the nodes for copies of the journal.
  bool is_succeeding() const { return succession_.has_value(); }
  const core::Job& job() const { return *job_; }
  const std::vector<core::Record>& durable() const { return durable_; }
  size_t waiting_batch_count() const { return batches_.size(); }
  Instant clock() const;
  Instant started_at() const { return started_at_; }  // virtual time
  // A time in which it stood still, in virtual time; without the one that lasts.
  struct Pause {
    Instant from;
    Instant until;
  };
  const std::vector<Pause>& pauses() const { return pauses_; }

  void Start();
  // Of the records that are not durable yet, any prefix may still have reached the disk.
  void Crash();
  // Its host is lost, and the journal with it.
  void LoseHost();
  // Another one is the job's master from now on.
  void Demote() { is_former_ = true; }
  void Freeze();
  void Thaw();
  void FillDisk() { is_disk_full_ = true; }
  void FreeDisk() { is_disk_full_ = false; }
  bool is_disk_full() const { return is_disk_full_; }
  // Crashes when this many more records are durable, before their effects run.
  void CrashAfterRecords(uint64_t count) { crash_countdown_ = count; }
  // Takes effect at the next start.
  void StepClock(Duration by) { clock_offset_ += by; }

  // --- from the network and the launcher ---
  void Receive(uint64_t incarnation, ConnectionId connection, const core::Event& event);
  void ReceiveSamples(uint64_t incarnation, NodeId node, const std::vector<RankSample>& samples,
                      const std::vector<RankTimes>& times);
  void ReceiveMemory(uint64_t incarnation, NodeId node, const NodeMemory& memory);
  void OnEndOfStream(uint64_t incarnation, ConnectionId connection);
  void Feed(const core::Event& event);
  using Piece = JournalPiece<std::vector<core::Record>>;
  void OnRegister(uint64_t incarnation, const core::NodeRegistered& event, const CopyOffer& copy);
  void OnHeld(uint64_t incarnation, ConnectionId connection, uint64_t taken);
  void OnPiece(uint64_t incarnation, ConnectionId connection, const Piece& piece);

 private:
  struct Batch {
    std::vector<core::Record> records;
    std::vector<core::Effect> effects;
    RecordSeq decided;  // newest record at the decision
  };

  void Begin(core::History history);
  void PassSuccession();
  void Fetch(const core::FetchPiece& fetch);
  void SendCopies();
  bool IsMine(uint64_t incarnation) const { return is_on_ && incarnation == incarnation_; }
  void HoldBack(Instant now, core::Actions* actions) const;
  void Step(const core::Event& event);
  void Commit();
  void Committed(uint64_t incarnation, size_t batch_count);
  void Append(const Batch& batch);
  void RunReady();
  void Run(const Batch& batch);
  void Run(const core::Effect& effect, RecordSeq decided);
  void Do(const core::AdmitNode& effect);
  void Do(const core::RefuseNode& effect);
  void Do(const core::AssignNode& effect);
  void Do(const core::OrderCheckpoint& effect);
  void Do(const core::CollectEvidence& effect);
  void Do(const core::TestLink& effect);
  void Do(const core::TellWish& effect);
  void Do(const core::FinishJob& effect);
  void CloseConnection(ConnectionId connection);
  void Rearm();
  void OnDeadline(uint64_t incarnation, Instant at);

  SimWorld& world_;
  const uint64_t term_;
  std::optional<core::Job> job_;
  bool is_former_ = false;
  std::optional<core::Succession> succession_;
  std::vector<core::Event> held_;  // until it has begun
  std::vector<core::Record> fetched_;
  core::JournalCopies copies_;
  core::PaceDesk pace_desk_;
  core::TimeDesk time_desk_;
  core::MemoryDesk memory_desk_;
  bool is_on_ = false;
  bool is_frozen_ = false;
  bool is_disk_full_ = false;
  bool has_waited_ = false;  // it has waited for a write
  bool is_committing_ = false;
  bool has_finished_ = false;
  int exit_code_ = 0;
  uint64_t incarnation_ = 0;
  uint64_t crash_countdown_ = 0;  // 0: no crash is planned
  Duration clock_offset_;         // wall clock minus virtual time
  Instant started_at_;            // virtual
  Instant wall_at_start_;
  Instant armed_for_ = Instant::Max();
  std::deque<Batch> batches_;  // decided, not durable
  std::deque<Task> backlog_;   // while frozen
  Instant frozen_at_;          // meaningful while frozen
  std::vector<Pause> pauses_;
  std::vector<core::Record> durable_;
  std::map<NodeId, ConnectionId> connection_of_;
};

}  // namespace paceline::sim
