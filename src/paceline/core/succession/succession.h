#pragma once

// How a master of a new term comes to know its job. The journal of the master before it is lost
// with that master's host; two nodes have copies. This master hears which copies its nodes offer,
// fetches the newest one, and begins with it.
//
//   gathering ──enough offers heard──▶ fetching ──all of it here──▶ done (kCopy)
//       │ nobody has a copy               │ its node went away: the next best copy
//       ▼                                 ▼ none is left
//   done (kNone, or kOwn: its disk has a newer one)
//
// Enough offers: one from every living node, or from every node that the newest copy names as a
// keeper. Otherwise the master waits five seconds after the first node came, and up to thirty
// seconds if no node has offered a copy yet, because a start without history is worse than the
// wait. Meanwhile the nodes go on training, unadmitted. Pure: no clock, no I/O.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/record.h"
#include "paceline/model/ids.h"
#include "paceline/model/journal_copy.h"

namespace paceline::core {

// Ask this connection's node for its copy, from there on.
struct FetchPiece {
  ConnectionId connection;
  uint64_t from = 0;
};
// Begin with what was fetched (kCopy), with the journal on the disk (kOwn), or without a past.
struct BeginJob {
  History history = History::kOwn;
};
using SuccessionAction = std::variant<FetchPiece, BeginJob>;

struct SuccessionTimes {
  Duration copy_within = Duration::Seconds(30);  // for the first node with a copy to come
  Duration all_within = Duration::Seconds(5);    // after the first node came, for the others
  Duration piece_within = Duration::Seconds(2);  // for each piece of a copy
};

class Succession {
 public:
  struct Setup {
    uint64_t term = 0;       // of this master
    uint32_t survivors = 0;  // nodes of the job that live, as far as its platform knows
    CopyOffer own;           // the journal on this master's disk
  };
  Succession(Instant now, Setup setup, SuccessionTimes times = {});

  // A node came, with that copy.
  void Offered(Instant now, ConnectionId connection, std::string name, CopyOffer offer);
  void Left(Instant now, ConnectionId connection);
  // The requested piece has arrived; `end` bytes of the copy are here now.
  void Fetched(Instant now, ConnectionId connection, uint64_t end);
  // The whole copy is here, but it is not a journal of this job.
  void Damaged(Instant now, ConnectionId connection);

  // The next action; none: wait. BeginJob is the last one.
  std::optional<SuccessionAction> Next(Instant now);
  Instant NextDeadline() const;
  bool is_done() const { return is_done_; }
  // For people: what the new master does.
  std::string Pending() const;

 private:
  struct Node {
    ConnectionId connection;
    std::string name;
    CopyOffer offer;
  };
  struct Fetch {
    ConnectionId connection;
    uint64_t got = 0;
    uint64_t length = 0;
    bool is_asked = false;
    Instant due;
  };

  const Node* Best() const;
  bool HasHeardEnough(Instant now) const;
  SuccessionAction Begin(History history);

  const Setup setup_;
  const SuccessionTimes times_;
  const Instant since_;
  std::optional<Instant> first_at_;
  std::vector<Node> nodes_;
  std::set<ConnectionId> useless_;  // their copies could not be fetched
  std::optional<Fetch> fetch_;
  bool has_all_ = false;  // of fetch_
  bool is_done_ = false;
};

}  // namespace paceline::core
