#pragma once

// Answers the requests of workers from the rows of one table server. No sockets and no files: a
// frame in, a frame out.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "paceline/ps/frame/table_frame.h"
#include "paceline/ps/holding.h"

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
  };

  // The holding must outlive the desk.
  TableDesk(const Place& place, ps::Holding* holding) : place_(place), holding_(*holding) {}

  // `is_greeted`: the connection's kHello was answered; set when that happens. The body is the one
  // of the head, and aligned to eight bytes.
  Reply Handle(const ps::TableHead& head, std::span<const std::byte> body, bool* is_greeted);
  // The answer to bytes that are no frame.
  static Reply Malformed(const std::string& why);

  Work& work() { return work_; }
  // Rows, bytes and work, as JSON.
  std::string CountsText() const;
  // Rises with each change of the holding, for snapshots.
  uint64_t changes() const { return work_.applied + work_.inits + opened_; }

 private:
  Reply Hello(const ps::TableHead& head, std::span<const std::byte> body, bool* is_greeted);
  Reply Open(const ps::TableHead& head, std::span<const std::byte> body);
  Reply Pull(const ps::TableHead& head, std::span<const std::byte> body);
  Reply Init(const ps::TableHead& head, std::span<const std::byte> body);
  Reply Push(const ps::TableHead& head, std::span<const std::byte> body);
  Reply Export(const ps::TableHead& head);
  Reply Changed(const ps::TableHead& head, std::span<const std::byte> body);
  Reply Answer(const ps::TableHead& to, ps::TableHead answer, std::string_view body) const;
  Reply Refuse(const ps::TableHead& to, ps::TableRefusal refusal, std::string_view why) const;

  const Place place_;
  ps::Holding& holding_;
  Work work_;
  uint64_t opened_ = 0;
};

}  // namespace paceline::server
