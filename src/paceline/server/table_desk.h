#pragma once

// Answers the requests of workers from the rows of one table server. No sockets and no files: a
// frame in, a frame out.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "paceline/ps/frame/table_frame.h"
#include "paceline/ps/holding.h"
#include "paceline/ps/partition_share.h"

namespace paceline::server {

class TableDesk {
 public:
  struct Place {
    uint32_t server = 0;
    uint32_t servers = 1;
    uint64_t job = 0;          // hash of its id
    uint64_t incarnation = 0;  // higher in each new process of this server
  };
  // What a server has done since its start.
  struct Work {
    uint64_t pulls = 0;
    uint64_t keys = 0;       // looked up
    uint64_t applied = 0;    // pushes
    uint64_t skipped = 0;    // pushes that were applied before
    uint64_t refused = 0;    // pushes
    uint64_t inits = 0;      // rows with values that a worker gave
    int64_t longest_ns = 0;  // of one request; the server's loop measures it
  };
  struct Reply {
    std::string frame;
    bool is_last = false;  // the connection ends with it
    bool waits = false;    // nothing is answered before the share's next news
  };

  // The holding and the share must outlive the desk. Null: the server has all partitions that it is
  // asked for.
  TableDesk(const Place& place, ps::Holding* holding, ps::PartitionShare* share = nullptr)
      : place_(place), holding_(*holding), share_(share) {}

  // `is_greeted`: the connection's kHello was answered; set when that happens. The body is the one
  // of the head, and aligned to eight bytes.
  Reply Handle(const ps::TableHead& head, std::span<const std::byte> body, bool* is_greeted);
  // The answer to bytes that are no frame.
  static Reply Malformed(const std::string& why);

  // Asked before this server gives partitions away.
  struct Giving {
    bool may_give = true;   // false: the other server asks again later
    uint64_t snapshot = 0;  // number of this server's next snapshot
  };
  std::function<Giving()> giving;

  Work& work() { return work_; }
  // Rows, bytes and work, as JSON.
  std::string CountsText() const;
  // Rises with each change of the holding, for snapshots.
  uint64_t changes() const {
    return work_.applied + work_.inits + opened_ + (share_ == nullptr ? 0 : share_->changes());
  }

 private:
  Reply Hello(const ps::TableHead& head, std::span<const std::byte> body, bool* is_greeted);
  Reply Open(const ps::TableHead& head, std::span<const std::byte> body);
  Reply Pull(const ps::TableHead& head, std::span<const std::byte> body);
  Reply Init(const ps::TableHead& head, std::span<const std::byte> body);
  Reply Push(const ps::TableHead& head, std::span<const std::byte> body);
  Reply Export(const ps::TableHead& head);
  Reply Route(const ps::TableHead& head) const;
  Reply Give(const ps::TableHead& head, std::span<const std::byte> body);
  // An answer if the worker knows other routing, or must wait.
  std::optional<Reply> AtGate(const ps::TableHead& head) const;
  Reply Changed(const ps::TableHead& head, std::span<const std::byte> body);
  Reply Answer(const ps::TableHead& to, ps::TableHead answer, std::string_view body) const;
  Reply Refuse(const ps::TableHead& to, ps::TableRefusal refusal, std::string_view why) const;

  const Place place_;
  ps::Holding& holding_;
  ps::PartitionShare* const share_;
  Work work_;
  uint64_t opened_ = 0;
};

}  // namespace paceline::server
