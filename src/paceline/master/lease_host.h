#pragma once

// The host of the job's leases: the lease channel in front of LeaseBook, the lease journal behind
// it. It has a loop of its own beside the master's, because tens of thousands of requests a second
// must not make heartbeats wait, nor the other way round; the two share nothing. Who is alive is
// seen on this channel itself: agents tell of processes that ended, and ping.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/master/lease_journal.h"
#include "paceline/model/job_spec.h"
#include "paceline/wire/bulk/lease_server.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::master {

class LeaseHost {
 public:
  // Facts between two summaries: a start folds at most about so many.
  static constexpr uint64_t kFactsPerSummary = 200'000;

  struct Options {
    std::string path;    // of the journal
    std::string job;     // its id, in the names of positions
    std::string listen;  // HOST:0
    bool is_insecure = false;
    wire::ServerCredentials credentials;
    // What a silent agent's processes have leased waits so long for them. When the world goes on
    // without them, its newer ranks get it at once.
    Duration silence_max = Timers().lost_after_max;
    std::function<bool()> refuses = {};  // for tests: LeaseJournal::Options
  };
  static absl::StatusOr<std::unique_ptr<LeaseHost>> Start(Options options);
  ~LeaseHost();
  LeaseHost(const LeaseHost&) = delete;
  LeaseHost& operator=(const LeaseHost&) = delete;

  int port() const { return server_->port(); }

  // Any thread. A checkpoint of that step is in storage.
  void Committed(uint64_t step);

 private:
  LeaseHost() = default;
  // Before a rewind to a position of another job: its facts, or the text, say what was done.
  void LookElsewhere(const LeasePeer& from, const LeaseFrame& rewind);
  void Heard(wire::LeaseServer::LinkId link, const std::vector<LeaseFrame>& frames);
  void Show(const LeasePeer& to);
  Instant Round();
  void Send(const LeaseAnswer& answer);
  void SetDurable(uint64_t count);

  LeaseBook book_;  // of the server's thread, as all below
  LeaseActions actions_;
  Duration silence_patience_;        // after the link was cut for its silence
  std::deque<LeaseAnswer> waiting_;  // for facts to be durable
  uint64_t facts_ = 0;
  uint64_t durable_ = 0;
  uint64_t summarized_ = 0;  // facts_ at the last summary
  std::string journal_state_;
  std::unique_ptr<LeaseJournal> journal_;
  std::unique_ptr<wire::LeaseServer> server_;
};

// The state that the facts fold to.
LeaseBook FoldLeases(const StoredLeases& stored, const std::string& job = "");
// One data set as JSON, as `paceline data` shows it.
std::string DataSetJson(const DataSetView& view);

}  // namespace paceline::master
