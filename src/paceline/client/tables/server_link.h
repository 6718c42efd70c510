// A connection to one table server that is dialled again until it stands: it greets the server,
// opens the worker's tables there, repeats the first rows that the worker gave, and carries one
// request at a time. Nothing blocks: the owner
// polls.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/ps/frame/table_frame.h"

namespace paceline::client {

class ServerLink {
 public:
  struct Place {
    std::string socket;
    uint32_t server = 0;
    uint32_t servers = 1;
    uint64_t job = 0;  // hash of its id
  };
  explicit ServerLink(Place place) : place_(std::move(place)) {}

  struct Answer {
    ps::TableHead head;
    std::span<const std::byte> body;  // until the next call; aligned to eight bytes
  };

  // Goes on as far as it can without waiting. `specs`: encoded specs of all tables, in the order of
  // the worker's numbers. An answer to the request, a refusal of the greeting or of a table, or
  // newer routing.
  std::optional<Answer> Go(int64_t now_ns, std::span<const std::string> specs);

  // All tables are open there and have their first rows, so a request may be made.
  bool IsReady(size_t tables) const {
    return step_ == Step::kReady && tables_.size() == tables && reopened_ >= tables &&
           inits_done_ == inits_.size();
  }
  bool has_request() const { return step_ == Step::kCalling; }
  // Sends rows of `table`, a number of the worker, once, and again after each new connection: a
  // server that comes back from a snapshot may lack them. Call it when the server has them already.
  void KeepInit(uint32_t table, uint32_t count, std::string body);
  // Sends a request, if the link IsReady. A connection that breaks loses the request. The link
  // dials again; once it IsReady, its owner sends the request anew.
  void Send(ps::TableHead head, std::string_view body);
  // The answer is not wanted any more.
  void Forget();

  // First rows of a server, as they were sent. When partitions move, they are divided anew.
  struct KeptInit {
    uint32_t table = 0;  // as the worker numbers it
    uint32_t count = 0;
    std::string body;
  };
  const std::vector<KeptInit>& inits() const { return inits_; }
  // Instead of the former ones. A server that is connected has them: they moved with the
  // partitions.
  void SetInits(std::vector<KeptInit> inits);
  // The routing that the worker knows; it goes with the first rows.
  void SetVersion(uint64_t version) { version_ = version; }
  // Opens the tables again, with other specs.
  void Reopen();

  // What poll is to wait for; fd() < 0: nothing, until retry_ns().
  int fd() const { return fd_.get(); }
  short events() const;
  int64_t retry_ns() const { return retry_ns_; }

  // Of the last answer, until the next call of Go.
  std::span<const std::byte> body() const {
    return std::as_bytes(std::span(body_)).first(head_.bytes);
  }

  // The number of a table of this worker on the server.
  uint32_t NumberOf(uint32_t table) const { return tables_[table]; }
  // Why the last connection ended or failed; "": none did.
  const std::string& why() const { return why_; }
  const Place& place() const { return place_; }

 private:
  enum class Step { kAway, kGreeting, kReady, kOpening, kIniting, kCalling };
  void Dial(int64_t now_ns);
  void Break(int64_t now_ns, const std::string& why);
  void Ask(ps::TableHead head, std::string_view body);
  bool Flush(int64_t now_ns);
  // The next whole frame; none: not yet, or the connection broke.
  bool Receive(int64_t now_ns);
  const Place place_;
  Fd fd_;
  Step step_ = Step::kAway;
  std::vector<uint32_t> tables_;
  size_t reopened_ = SIZE_MAX;  // tables; those below are open with the newest spec
  std::vector<KeptInit> inits_;
  size_t inits_done_ = 0;     // over this connection
  bool is_old_init_ = false;  // the one on its way
  bool is_old_open_ = false;
  uint64_t version_ = 0;
  uint64_t number_ = 0;  // of the last request
  bool is_forgotten_ = false;
  std::string unsent_;
  size_t sent_ = 0;
  std::vector<std::byte> head_bytes_;
  bool has_head_ = false;
  ps::TableHead head_;
  std::vector<uint64_t> body_;
  uint64_t body_bytes_ = 0;
  int64_t retry_ns_ = 0;
  std::string why_;
};

}  // namespace paceline::client
