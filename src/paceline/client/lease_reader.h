// A process's side of the leases on a data set: takes them ahead, acknowledges what is done, and
// goes on when its agent or the master is another one.
//
// The idea: the caller's thread only writes small frames and takes what is ready; a thread of its
// own hears the answers, so a lease that comes ahead is there when it is wanted, and leases are
// presented to a new master while the caller computes. What was acknowledged and not yet confirmed
// is kept and said again. Without a socket the ledger is one of this process alone, and there is no
// thread.
//
// All functions may be called by several threads. Not to be used in a child that was forked.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/instant.h"
#include "paceline/base/result.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/model/lease_frame.h"

namespace paceline::client {

struct LeaseReaderOptions {
  LeaseOpen open;
  std::string socket;  // of the agent; empty: a ledger of this process alone
  uint32_t ahead = 1;  // leases that are taken before they are asked for
};

class LeaseReader {
 public:
  // Acknowledged leases that wait to be confirmed; beyond, Take waits, too.
  static constexpr size_t kUnconfirmedMax = 1'000;

  // Connects, and again for ever. kSystem: the socket's path cannot be used at all.
  static Result<std::unique_ptr<LeaseReader>> Open(LeaseReaderOptions options);
  ~LeaseReader();
  LeaseReader(const LeaseReader&) = delete;
  LeaseReader& operator=(const LeaseReader&) = delete;

  enum class What {
    kLease,
    kWait,      // others have all that is left; only when the caller does not want to wait
    kComplete,  // text: ranges in quarantine, "" for none; range.end: ordinals that nobody gets
    kRefused,   // text: what, why, fix
    kFenced,    // a newer process has this worker's place
    kTimeout,
  };
  struct Taken {
    What what = What::kTimeout;
    uint64_t lease = 0;
    OrdinalRange range = {};
    std::string text = {};
  };
  // The next lease. `is_patient`: also when somebody else has all that is left.
  Taken Take(Duration timeout, bool is_patient);

  // Everything of the lease below `until` is done. It is said within milliseconds. False: the lease
  // is known to be somebody else's, and the work does not count.
  bool Ack(uint64_t lease, uint64_t until);
  // That part of the lease cannot be done; the rest of the lease comes back too.
  void Fail(uint64_t lease, OrdinalRange bad);

  // The checkpoint of that step has all acks before this call. kComplete with the position as its
  // text when it is durable; kTimeout: call again.
  Taken Mark(uint64_t step, Duration timeout);
  // All leases are of the past; the data stands at the position from now on ("": the beginning).
  // kComplete when it does; kTimeout: call again with nothing.
  Taken Rewind(std::optional<std::string> position, Duration timeout);
  // kComplete: everything that was acknowledged is durable.
  Taken Flush(Duration timeout);

  // Of a ledger of this process alone: what a position holds, and one of another process.
  std::string PositionText(const std::string& position);
  void AddPosition(const std::string& position, const std::string& ranges);

  // Gives all leases back, and waits a little until that was said.
  void Close();

  struct Counters {
    uint64_t leases = 0;
    uint64_t stale = 0;   // leases that were lost to others
    uint64_t resets = 0;  // another agent or master
  };
  Counters counters();

 private:
  struct Held {
    OrdinalRange range;
    uint64_t said = 0;  // acknowledged below
    uint64_t done = 0;  // by the caller; said soon
    uint64_t confirmed = 0;
    bool is_over = false;  // the caller is through with it
  };
  struct Said {
    uint64_t number = 0;
    uint64_t lease = 0;
    uint64_t until = 0;
  };

  explicit LeaseReader(LeaseReaderOptions options);
  void Run();
  bool Connect();
  void Read();
  void Reopen();
  void Disconnect();
  void Hear(const LeaseFrame& frame);
  void HearGranted(const LeaseFrame& frame);
  void HearStale(const LeaseFrame& frame);
  void HearConfirmed(uint64_t number);
  void HearPresented(const LeaseFrame& frame);
  void Say(LeaseFrame frame);
  void SayAcks(bool is_urgent);
  void SayAck(uint64_t lease, Held* held);
  void Push();
  // Marks come behind all acks before them: not before every lease was presented again.
  void SayMarks();
  void Presented(uint64_t lease);
  void TopUp(uint32_t wanted);
  void Drop(uint64_t lease);
  void Wake();
  std::optional<Taken> Ended();
  template <class Done>
  bool Await(std::unique_lock<std::mutex>* lock, Duration timeout, Done done);

  const LeaseReaderOptions options_;
  std::mutex mutex_;  // guards all below but the thread
  std::condition_variable changed_;
  Fd socket_;
  Fd wake_;
  std::string unsent_;
  std::string unread_;
  bool is_opening_ = false;  // kOpen was said and is not answered
  bool is_ending_ = false;
  uint64_t next_number_ = 1;
  std::map<uint64_t, bool> requests_;  // by number; whether it was told to wait
  std::deque<uint64_t> ready_;
  std::map<uint64_t, Held> held_;
  std::deque<Said> unconfirmed_;
  bool has_unsaid_ = false;
  Instant said_at_;
  std::optional<Taken> complete_;
  uint64_t granted_ = 0;  // ordinals, since the rewind and without those that were given back
  std::optional<Taken> ended_;
  std::map<uint64_t, std::string> marks_;  // by step; "": not confirmed yet
  std::set<uint64_t> unsaid_marks_;        // steps
  std::set<uint64_t> presenting_;          // leases, since the last reset
  uint64_t rewind_number_ = 0;
  std::string rewind_text_;
  bool is_rewinding_ = false;
  Counters counters_;
  std::unique_ptr<LeaseBook> own_;  // the ledger of this process alone
  std::deque<LeaseFrame> heard_;    // of own_
  std::thread thread_;
};

}  // namespace paceline::client
