#pragma once

// The host of the job's leases: the lease channel, the LeaseBook, and the lease journal. Its loop
// is separate from the master's, so that tens of thousands of requests a second do not delay
// heartbeats, nor heartbeats the requests. The two loops share no state. It detects dead workers on
// its own channel: agents report ended processes, and ping.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/core/event.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/master/leases/lease_journal.h"
#include "paceline/model/job_spec.h"
#include "paceline/model/table_routing.h"
#include "paceline/wire/bulk/lease_server.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::master {

class LeaseHost {
 public:
  // Facts between two summaries; about as many are folded at a start.
  static constexpr uint64_t kFactsPerSummary = 200'000;

  struct Options {
    std::string path;    // of the journal
    std::string job;     // its id, in the names of positions
    std::string listen;  // HOST:0
    bool is_insecure = false;
    wire::ServerCredentials credentials;
    // How long the leases of processes under a silent agent stay reserved for them. If the world
    // continues without these processes, its newer ranks get the leases at once.
    Duration silence_max = Timers().lost_after_max;
    // The job may outlive this host, but the record of leases on this host's disk does not. So no
    // data can be leased.
    bool is_placed = false;
    std::function<bool()> refuses = {};  // for tests: LeaseJournal::Options
    // Called on the host's thread: a table server has received partitions.
    std::function<void(const PartitionsTaken&)> taken = {};
  };
  static absl::StatusOr<std::unique_ptr<LeaseHost>> Start(Options options);
  ~LeaseHost();
  LeaseHost(const LeaseHost&) = delete;
  LeaseHost& operator=(const LeaseHost&) = delete;

  int port() const { return server_->port(); }

  // Any thread: what is durable of the work that no attempt repeats.
  core::LeasedWorkDone work() const;
  // Any thread. A checkpoint of that step is in storage.
  void Committed(uint64_t step);
  // Any thread. Tells the table servers which one has which partition: EncodeNews.
  void SetRouting(std::string news);

 private:
  LeaseHost() = default;
  // Before a rewind to another job's position: finds the finished ranges in that job's facts or in
  // the text.
  void LookElsewhere(const LeasePeer& from, const LeaseFrame& rewind);
  void Heard(wire::LeaseServer::LinkId link, const std::vector<LeaseFrame>& frames);
  void RefusePlaced(const LeasePeer& to, const LeaseFrame& open);
  void Show(const LeasePeer& to);
  void TellRouting(const LeasePeer& to);
  Instant Round();
  void Send(const LeaseAnswer& answer);
  void Count(const LeaseFact& fact);
  void SetDurable(uint64_t count);

  LeaseBook book_;  // used by the server's thread, as all below
  LeaseActions actions_;
  std::function<void(const PartitionsTaken&)> taken_;
  std::string routing_;                // "": there are no tables, or nothing is known yet
  std::set<LeasePeer> table_servers_;  // that hear of it
  bool is_placed_ = false;
  Duration silence_patience_;        // after a link was closed because it was silent
  std::deque<LeaseAnswer> waiting_;  // until their facts are durable
  core::LeasedWorkDone work_;
  std::deque<std::pair<uint64_t, core::LeasedWorkDone>> later_work_;  // `work_` after so many facts
  mutable std::mutex mutex_;
  core::LeasedWorkDone durable_work_;  // guarded; used by any thread
  bool search_counts_ = false;         // a sample was acknowledged since the last one in quarantine
  uint64_t facts_ = 0;
  uint64_t durable_ = 0;
  uint64_t summarized_ = 0;  // facts_ at the last summary
  std::string journal_state_;
  std::unique_ptr<LeaseJournal> journal_;
  std::unique_ptr<wire::LeaseServer> server_;
};

// The state folded from the facts.
LeaseBook FoldLeases(const StoredLeases& stored, const std::string& job = "");
// One data set as JSON, as `paceline data` shows it.
std::string DataSetJson(const DataSetView& view);
// The same, at most kLeaseFrameTextMax bytes: without most of a long quarantine, and at last
// without the terms.
std::string ShownText(DataSetView view);

}  // namespace paceline::master
