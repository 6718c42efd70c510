// The calls of a worker to all table servers of its job: which server has which part, what was
// answered already, and what is asked again when partitions have moved or a server was away.
//
// Requests carry the version of the routing that the worker knows. A server with newer routing
// answers with it. The call is then divided anew and asked of every server; those that have applied
// a push skip it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/client/tables/key_shares.h"
#include "paceline/client/tables/server_link.h"
#include "paceline/client/tables/server_waits.h"
#include "paceline/model/table_routing.h"
#include "paceline/ps/frame/table_frame.h"

namespace paceline::client {

class ServerCalls {
 public:
  struct Request {
    ps::TableHead head;
    std::string body;
  };
  // Divides the call among the servers. Called again when partitions have moved.
  using Divided = std::function<void()>;
  using Make = std::function<Result<Request>(size_t server)>;
  using Take = std::function<Result<void>(size_t server, const ServerLink::Answer& answer)>;
  using Which = std::function<size_t()>;

  // `sockets` of the first servers, in the order of their numbers.
  ServerCalls(const std::vector<std::string_view>& sockets, uint64_t job, int64_t patience_ns);

  // Begins a call, or goes on with one that was interrupted. `name` tells calls apart. True: it is
  // a new one.
  bool Begin(std::string name);
  // Divides the call if it is new.
  void Start(bool is_new, const Divided& divide);
  // Sends a request to each server of the call that has not answered yet, and waits for all.
  Result<void> Run(const Divided& divide, const Make& make, const Take& take);
  // Asks one server alone, if it has partitions. Only a signal interrupts it.
  Result<void> RunAt(const Which& server, std::string name, const Make& make, const Take& take);
  // The call has ended.
  void End() { call_.clear(); }
  // The server is not asked in this call.
  void Skip(size_t server) { is_done_[server] = true; }

  // Divides keys among the servers. The share of each server is `share(server, index)`.
  void Divide(size_t index, uint32_t table, std::span<const uint64_t> keys,
              std::span<const float> values);
  const std::vector<Share>& shares(size_t server) const { return shares_[server]; }

  // Tables in the order of their numbers.
  std::vector<ps::TableSpec>& specs() { return specs_; }
  const std::vector<ps::TableSpec>& specs() const { return specs_; }
  std::vector<std::string>& texts() { return texts_; }  // of specs, with the budget of one server
  std::string TextOf(const ps::TableSpec& spec) const;

  size_t servers() const { return links_.size(); }
  bool serves(size_t server) const { return serves_[server]; }
  ServerLink& link(size_t server) { return links_[server]; }
  const TableRouting& routing() const { return routing_; }
  static std::string NameOf(size_t server) { return ServerWaits::NameOf(server); }

 private:
  enum class Went { kOn, kOver, kMoved };
  // Goes on with one server as far as it can.
  Result<Went> GoAt(size_t server, const Make& make, const Take& take);
  // Takes newer routing. False: it is not newer.
  bool Learn(std::span<const std::byte> body);
  void DivideInits();
  // Asks the first server for the routing if a server is away. True: it is newer.
  bool AskRouting(int64_t now_ns);
  Result<void> Wait(int64_t deadline_ns);
  Result<void> NoteWaits(int64_t now_ns);
  Result<void> Refused(size_t server, const ServerLink::Answer& answer) const;

  const uint64_t job_;
  TableRouting routing_;
  // To the first server, which lives as long as the job. Only for the routing, because the other
  // link to it may have an answer that is not read yet.
  ServerLink router_;
  int64_t next_route_ns_ = 0;
  std::vector<ServerLink> links_;
  std::vector<bool> serves_;  // by server: it has partitions
  std::vector<ps::TableSpec> specs_;
  std::vector<std::string> texts_;
  // The call under way.
  std::string call_;
  std::vector<bool> is_done_;  // by server
  std::vector<std::vector<Share>> shares_;
  bool is_interrupted_ = false;  // by a signal, in the last wait
  ServerWaits waits_;
};

}  // namespace paceline::client
