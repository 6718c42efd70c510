#pragma once

// Internal to wire: the master's accepted streams, each of which owns itself until gRPC is done
// with it, and the registry in which the host finds them.

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "paceline/v1/agent.pb.h"
#include "paceline/v1/control.pb.h"
#include "paceline/wire/security/peer_limits.h"
#include "paceline/wire/server/master_server.h"
#include "paceline/wire/server/server_stream.h"

namespace paceline::wire {

// Streams by id. A stream is found and used under the lock, and is removed before it is deleted.
template <class Id, class Stream>
class Registry {
 public:
  // False if there are already `count_max` streams.
  bool Add(Stream* stream, size_t count_max, Id* id) {
    const std::lock_guard lock(mutex_);
    if (streams_.size() >= count_max) return false;
    *id = last_ = last_.next();
    streams_[*id] = stream;
    return true;
  }
  void Remove(Id id) {
    const std::lock_guard lock(mutex_);
    streams_.erase(id);
  }
  template <class Use>
  void With(Id id, Use use) {
    const std::lock_guard lock(mutex_);
    const auto it = streams_.find(id);
    if (it != streams_.end()) use(*it->second);
  }

 private:
  std::mutex mutex_;
  Id last_;
  std::unordered_map<Id, Stream*> streams_;
};

class AgentConnection;
class Watch;
class Supervisor;

struct ServerParts {
  StreamLimit streams;
  MasterServerOptions options;
  MasterServer::Sink sink;
  Registry<ConnectionId, AgentConnection> agents;
  Registry<WatchId, Watch> watches;
  Registry<SupervisorId, Supervisor> supervisors;
};

class AgentConnection final : public ServerStream<v1::AgentMessage, v1::MasterMessage> {
 public:
  AgentConnection(ServerParts* parts, grpc::CallbackServerContext* context);
  void Send(MasterMessage message);

 private:
  void Heard(const v1::AgentMessage& message) override;
  bool TakeNext(v1::MasterMessage* message) override;
  void OnDone() override;

  // Whether the peer's certificate allows it to register a node of this name. Always true without
  // TLS.
  bool MaySpeakFor(const std::string& node) const;

  ServerParts* const parts_;
  const StreamPlace place_;
  const std::vector<std::string> names_;  // by the peer's certificate or its relay's header
  ConnectionId id_;
  bool is_known_ = false;  // the host has its id
  bool is_registered_ = false;
  bool is_refused_ = false;
  std::string why_ = "the agent closed the stream";
  // One place for each kind, but for rings: a newer message replaces an unsent older one.
  std::optional<Welcome> welcome_;
  std::optional<Pace> pace_;
  std::optional<CheckpointOrder> checkpoint_;
  std::optional<EvidenceOrder> evidence_;      // of the master
  std::optional<EvidenceOrder> stacks_;        // the same, asked for by a person
  std::deque<RingsWanted> rings_wanted_;       // bounded by the host
  std::optional<JournalBytes> journal_piece_;  // the next one follows its answer
  std::optional<JournalWanted> journal_wanted_;
  std::optional<LinkTry> try_link_;
  std::optional<Assignment> assignment_;
  std::optional<Refusal> refusal_;
};

class Supervisor final : public ServerStream<v1::SupervisorMessage, v1::SupervisorOrder> {
 public:
  Supervisor(ServerParts* parts, grpc::CallbackServerContext* context);
  void Order(SupervisorOrder order);

 private:
  static constexpr size_t kOrdersMax = 4096;
  void Heard(const v1::SupervisorMessage& message) override;
  bool TakeNext(v1::SupervisorOrder* message) override;
  void OnDone() override;

  ServerParts* const parts_;
  const StreamPlace place_;
  // A host may only report nodes in its certificate. Without certificates the token suffices.
  bool MaySpeakOf(const std::string& node) const;
  const bool is_operator_;
  const std::vector<std::string> names_;
  SupervisorId id_;
  bool is_known_ = false;
  std::deque<SupervisorOrder> orders_;
};

class Watch final : public grpc::ServerWriteReactor<v1::JobEvents> {
 public:
  Watch(ServerParts* parts, const grpc::CallbackServerContext& context,
        const v1::WatchEventsRequest& request);
  void Send(std::vector<JobEvent> events, bool is_last);

 private:
  static constexpr uint32_t kPage = 256;
  static constexpr size_t kMessageBytes = 256 * 1024;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void WriteNext();
  void Want();

  ServerParts* const parts_;
  const StreamPlace place_;
  const bool follow_;
  WatchId id_;
  bool is_known_ = false;
  std::mutex mutex_;  // guards the members below
  uint64_t next_seq_ = 1;
  std::deque<v1::JobEvents> pages_;
  v1::JobEvents writing_;
  bool is_writing_ = false;
  bool is_last_ = false;
  bool is_finished_ = false;
};

}  // namespace paceline::wire
