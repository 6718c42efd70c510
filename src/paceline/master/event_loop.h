#pragma once

// The master's only loop: takes an event, asks the core, appends the records, and queues their
// effects. The host's whole state is on this thread. handlers/ has the handling of each kind of
// event.

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/goodput/ledger.h"
#include "paceline/core/job.h"
#include "paceline/core/scale/memory_desk.h"
#include "paceline/core/scale/scale_desk.h"
#include "paceline/core/slow/pace_desk.h"
#include "paceline/core/slow/time_desk.h"
#include "paceline/master/clock.h"
#include "paceline/master/event_queue.h"
#include "paceline/master/executor.h"
#include "paceline/master/history/history_desk.h"
#include "paceline/master/journal/journal.h"
#include "paceline/master/leases/lease_host.h"
#include "paceline/master/notify/notice_desk.h"
#include "paceline/master/page/heat_desk.h"
#include "paceline/master/report/event_row.h"
#include "paceline/master/report/job_counts.h"
#include "paceline/master/report/last_events.h"
#include "paceline/master/report/metrics.h"
#include "paceline/master/report/status.h"
#include "paceline/master/report/step_pace.h"
#include "paceline/master/report/summary.h"
#include "paceline/master/ring_desk.h"
#include "paceline/master/stack_desk.h"
#include "paceline/master/succession/copy_desk.h"
#include "paceline/master/succession/successor.h"

namespace paceline::master {

// The parts of the server that the loop uses.
class Outside : public Outbox {
 public:
  virtual void SendEvents(wire::WatchId watch, std::vector<wire::JobEvent> events,
                          bool is_last) = 0;
  // A new link to the job's page; empty if the master serves none.
  virtual wire::PageLink MakePageLink() = 0;
};

class EventLoop {
 public:
  EventLoop(EventQueue* queue, Journal* journal, Outside* outside);

  // Sets the lease host. The loop gives its address to the agents, and reports committed
  // checkpoints to it. Call before Begin. The lease host must outlive the loop.
  void SetLeases(LeaseHost* leases);

  // Sets who tells the job's users of failures. Call before Begin. It must outlive the loop.
  void SetNotifier(Notifier* notifier, std::string run_dir);

  // Sets who keeps what this job measures. `own`: see HistoryDesk. Call before Begin. It must
  // outlive the loop.
  void SetHistory(HistoryKeeper* keeper, JobHistory own);

  // Sets which of the job's masters this is. Call before Begin.
  struct Term {
    uint64_t term = 0;       // 0: no platform gives terms, and the journal is not copied
    uint32_t survivors = 0;  // living nodes of the job, by the platform's count
    std::string own_host;    // boot id of the master's host
    std::string memo;        // kept by the platform, of the masters before; succession/memo.h
  };
  void SetTerm(Term term);

  // Folds the journal, submits the job if the journal is new, and takes over. A master of a new
  // term first asks the living nodes for copies of the journal.
  void Begin(const JobSpec& spec, const std::vector<core::Record>& records, bool resumes = false);

  // Runs until the job has ended and all clients were told, or finish_linger has passed since.
  void Run();

  const core::JobState& state() const { return job_.state(); }

 private:
  friend struct Handlers;
  struct Watcher {
    uint64_t from_seq = 1;
    uint32_t count_max = 0;
    bool follow = false;
    bool is_reading = false;
    bool is_waiting = false;  // at the journal's end, for new events
  };

  void Fold(const JobSpec& spec, const std::vector<core::Record>& records, core::History history);
  void PassSuccession();
  void Handle(const MasterEvent& event);
  void Step(const core::Event& event);
  void Fold(const core::Record& record);
  void ServeWatcher(wire::WatchId id, Watcher* watcher);
  void ServeWatchers();
  void HearOfLeases();
  void TellRouting(RecordSeq after);
  // The samples of a node have ended a window of steps.
  void NoteSizes(Instant now);
  // How long the job still trains, by its speed; none: not known.
  std::optional<Duration> Outlook() const;
  bool IsOver(Instant now);
  Instant EndOfGoodbye() const;  // after the job's end
  // Everything, for GetStatus alone: the work grows with the number of ranks.
  wire::JobStatus Status() const;
  // MakeJobBrief, for what is asked again and again.
  wire::JobStatus Brief() const;
  wire::JobStatus BeforeTheJob(wire::JobStatus status) const;
  HostView View(Instant now) const;
  MetricSource Metrics();
  void TellSummary(Instant now);
  std::string EndHistory();  // tells operators the last summary, too

  EventQueue* const queue_;
  Journal* const journal_;
  Outside* const outside_;
  LeaseHost* leases_ = nullptr;
  core::Job job_;
  Clock clock_;
  Executor executor_;
  CopyDesk copies_;
  Term term_;
  bool resumes_ = false;
  JobSpec submitted_;
  std::optional<Successor> successor_;  // until the job has begun
  std::vector<core::Record> own_;       // on the disk, until then
  StackDesk stack_desk_;
  RingDesk ring_desk_;
  core::PaceDesk pace_desk_;
  core::TimeDesk time_desk_;
  core::ScaleDesk scale_desk_;
  core::MemoryDesk memory_desk_;
  HistoryDesk history_;
  HeatDesk heat_;
  NodeNames names_;
  core::GoodputLedger goodput_;
  StepPace pace_;
  Instant last_step_at_;  // or, if none was heard of, when this master began
  Instant stored_at_;     // the newest checkpoint in storage; 0: none
  Counters counters_;
  std::string journal_state_ = "ok";
  Instant created_at_;
  std::map<wire::WatchId, Watcher> watchers_;
  std::map<ConnectionId, std::string> registered_;  // known connections, with the node's name
  JobCounts counts_;
  SummaryTeller summary_;
  LastEvents last_events_;
  NoticeDesk notices_;
  std::map<std::string, std::string> pending_nodes_;  // why the platform has not started them
  std::optional<Instant> over_at_;
  core::LeasedWorkDone leased_work_;  // that the core knows of
  RecordSeq told_routing_;            // the record of the routing that table servers are told
};

}  // namespace paceline::master
