// A process's client for leases on a data set. It takes leases ahead, acknowledges finished
// ordinals, and continues with another agent or master.
//
// The caller's thread only writes small frames and takes what is ready. A second thread receives
// the answers. So leases taken ahead are ready when needed, and leases are presented to a new
// master while the caller computes. Acknowledgements are kept and repeated until they are
// confirmed. Without a socket this process has its own ledger, and there is no second thread.
//
// Thread-safe. Must not be used in a forked child.
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
  uint32_t ahead = 1;  // leases that are taken before they are needed
};

class LeaseReader {
 public:
  // Acknowledged leases without a confirmation. With more, Take waits as well.
  static constexpr size_t kUnconfirmedMax = 1'000;

  // Connects, and keeps reconnecting. kSystem: the socket's path is unusable.
  static Result<std::unique_ptr<LeaseReader>> Open(LeaseReaderOptions options);
  ~LeaseReader();
  LeaseReader(const LeaseReader&) = delete;
  LeaseReader& operator=(const LeaseReader&) = delete;

  enum class What {
    kLease,
    kWait,      // others have all the rest; only if the caller does not want to wait
    kComplete,  // text: quarantined ranges or ""; range.end: ordinals that no rank gets
    kRefused,   // text: what, why, fix
    kFenced,    // a newer process has replaced this worker
    kTimeout,
  };
  struct Taken {
    What what = What::kTimeout;
    uint64_t lease = 0;
    OrdinalRange range = {};
    std::string text = {};  // of a stream's lease: base and name of the partition, a line each
  };
  // The next lease. `is_patient`: wait even if others have all the rest.
  Taken Take(Duration timeout, bool is_patient);

  // Acknowledges the lease's ordinals below `until`; sent within milliseconds. False: another
  // worker has the lease, and this work does not count.
  bool Ack(uint64_t lease, uint64_t until);
  // Reports that a part of the lease cannot be done. Returns the rest of the lease as well.
  void Fail(uint64_t lease, OrdinalRange bad);

  // For streams. kComplete when the ledger has told how many partitions of the stream it knew when
  // this process opened it or rewound it (range.end). None: this is the stream's first run.
  Taken Known(Duration timeout);
  // Reports a partition that this process sees (`records`: 0 if it has no end; `base`: the stream
  // begins after it); it is reported again to another master.
  void Found(const std::string& name, uint64_t base, uint64_t records);
  // Reports records of a lease that nobody trains on, before the ack that covers them.
  void Gap(uint64_t lease, OrdinalRange gap, bool is_refused, const std::string& why);
  // Notes that the lease's partition has records up to here. Sent with the next ack.
  void Seen(uint64_t lease, uint64_t end);
  // Acknowledges what is already acknowledged, for all leases: a stream without new records keeps
  // its reader.
  void Touch();
  // Leases that another process is to get. The caller acknowledges what it has done, and calls
  // GiveBack.
  std::vector<uint64_t> Recalled();
  bool Holds(uint64_t lease);  // false: it is another process's, or all of it is done
  void GiveBack(uint64_t lease);

  // Assigns all acks before this call to the checkpoint of that step. kComplete when that is
  // durable, with the position as text; kTimeout: call again.
  Taken Mark(uint64_t step, Duration timeout);
  // Drops all leases and moves the data to the position ("": the beginning). kComplete when it is
  // there; kTimeout: call again without a position.
  Taken Rewind(std::optional<std::string> position, Duration timeout);
  // kComplete when all acks are durable.
  Taken Flush(Duration timeout);

  // How far the data set is done: kComplete. lease: another number after each loss of a table
  // server; range.end: partitions of a stream that are done whole; text: of a stream, the others,
  // "offset name" a line; else ranges. kTimeout: call again.
  Taken Stand(Duration timeout);

  // These two work only with a ledger of this process alone. PositionText returns the ranges of a
  // position, and AddPosition adds a position of another process.
  std::string PositionText(const std::string& position);
  void AddPosition(const std::string& position, const std::string& ranges);

  // Gives all leases back, and waits at most 500 ms until the last acks are confirmed.
  void Close();

  struct Counters {
    uint64_t leases = 0;
    uint64_t stale = 0;   // leases that were lost to others
    uint64_t resets = 0;  // changes to another agent or master
  };
  Counters counters();

 private:
  struct Held {
    OrdinalRange range;
    uint64_t said = 0;  // acks sent, up to here
    uint64_t done = 0;  // done by the caller; to be sent soon
    uint64_t confirmed = 0;
    bool is_over = false;  // the caller needs it no more
    // Of a stream.
    std::string text = {};
    uint64_t seen = 0;
    bool is_recalled = false;
    std::vector<LeaseFrame> gaps = {};  // not confirmed yet
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
  void HearRecall(const LeaseFrame& frame);
  void Say(LeaseFrame frame);
  void SayAcks(bool is_urgent);
  void SayAck(uint64_t lease, Held* held);
  void Push();
  // A mark follows all acks before it, so it is sent only after every lease was presented again.
  void SayMarks();
  void Presented(uint64_t lease);
  void TopUp(uint32_t wanted);
  void Drop(uint64_t lease);
  void Wake();
  std::optional<Taken> Ended();
  template <class Done>
  bool Await(std::unique_lock<std::mutex>* lock, Duration timeout, Done done);

  const LeaseReaderOptions options_;
  std::mutex mutex_;  // guards the members below, except the thread
  std::condition_variable changed_;
  Fd socket_;
  Fd wake_;
  std::string unsent_;
  std::string unread_;
  bool is_opening_ = false;  // kOpen was sent and is not answered yet
  bool is_ending_ = false;
  uint64_t next_number_ = 1;
  std::map<uint64_t, bool> requests_;  // by number; true: was told to wait
  std::deque<uint64_t> ready_;
  std::map<uint64_t, Held> held_;
  std::deque<Said> unconfirmed_;
  bool has_unsaid_ = false;
  Instant said_at_;
  std::optional<Taken> complete_;
  uint64_t granted_ = 0;  // ordinals since the rewind, without returned ones
  std::optional<Taken> ended_;
  std::map<uint64_t, std::string> marks_;  // by step; "": not confirmed yet
  std::set<uint64_t> unsaid_marks_;        // steps whose mark was not sent
  std::set<uint64_t> presenting_;          // leases being presented since the last reset
  uint64_t rewind_number_ = 0;
  std::string rewind_text_;
  bool is_rewinding_ = false;
  std::map<std::string, LeaseFrame> found_;  // partitions of a stream, by name
  std::optional<uint64_t> known_;            // partitions that the ledger told
  uint64_t stand_number_ = 0;                // of the question; 0: none is open
  std::optional<Taken> stand_;
  Counters counters_;
  std::unique_ptr<LeaseBook> own_;  // the ledger, if it is this process's own
  std::deque<LeaseFrame> heard_;    // answers of own_
  std::thread thread_;
};

}  // namespace paceline::client
