#include "paceline/agent/keepers/keeper_crew.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "paceline/base/host_text.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr std::string_view kNamePrefix = "host-";

// "host-3" is node 4. None for other names, and for host 0, which does not register with itself.
std::optional<NodeId> NodeOf(std::string_view name) {
  if (!TakePrefix(&name, kNamePrefix)) return std::nullopt;
  const std::optional<uint32_t> host = ParseWhole<uint32_t>(name);
  if (!host.has_value() || *host == 0) return std::nullopt;
  return NodeId(*host + 1);
}

}  // namespace

std::string NameOfHost(uint32_t host) { return Concat(kNamePrefix, host); }

KeeperCrew::KeeperCrew(Reactor& reactor, std::string attempt, std::string address,
                       Listener listener)
    : reactor_(reactor),
      attempt_(std::move(attempt)),
      address_(std::move(address)),
      listener_(std::move(listener)),
      self_(std::make_shared<KeeperCrew*>(this)) {}

KeeperCrew::~KeeperCrew() {
  server_.reset();
  *self_ = nullptr;
}

absl::StatusOr<std::unique_ptr<KeeperCrew>> KeeperCrew::Start(Reactor& reactor, std::string attempt,
                                                              const std::string& job_id,
                                                              const std::string& address,
                                                              Listener listener) {
  auto crew = std::unique_ptr<KeeperCrew>(
      new KeeperCrew(reactor, std::move(attempt), address, std::move(listener)));
  ASSIGN_OR_RETURN(const wire::ServerCredentials credentials,
                   wire::MakeServerCredentials(job_id, wire::MakeToken()));
  ASSIGN_OR_RETURN(crew->own_, wire::MakeClientCredentials(credentials, {NameOfHost(0)}));
  // A keeper handles only agents' events. It refuses all requests of users, also to stop.
  const auto sink = [reactor = &reactor, self = crew->self_](wire::ServerEvent event) {
    if (auto* said = std::get_if<wire::AgentSaid>(&event)) {
      reactor->Post([self, said = std::move(*said)] {
        if (*self != nullptr) (*self)->On(said);
      });
      return true;
    }
    if (auto* gone = std::get_if<wire::AgentDisconnected>(&event)) {
      reactor->Post([self, gone = std::move(*gone)] {
        if (*self != nullptr) (*self)->On(gone);
      });
      return true;
    }
    return false;
  };
  ASSIGN_OR_RETURN(crew->server_,
                   wire::MasterServer::Start(
                       {.listen = Bracketed(address) + ":0", .credentials = credentials}, sink));
  ASSIGN_OR_RETURN(const std::string fingerprint, wire::CaFingerprint(credentials.ca_pem));
  crew->join_ =
      wire::FormatJoinString({.address = Concat(Bracketed(address), ":", crew->server_->port()),
                              .ca_sha256 = fingerprint,
                              .token = credentials.token});
  return crew;
}

bool KeeperCrew::IsWhole(uint32_t hosts) const { return members_.size() + 1 >= hosts; }

uint64_t KeeperCrew::newest_generation() const {
  uint64_t newest = 0;
  for (const auto& [node, member] : members_) newest = std::max(newest, member.newest_generation);
  return newest;
}

bool KeeperCrew::has_ranks() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& one) { return one.second.has_ranks; });
}

std::vector<NodeId> KeeperCrew::Connected() const {
  std::vector<NodeId> nodes;
  for (const auto& [node, member] : members_) nodes.push_back(node);
  return nodes;
}

void KeeperCrew::Begin(Generation generation) {
  generation_ = generation;
  for (const auto& [node, member] : members_) SendBeginning(member);
}

void KeeperCrew::SendBeginning(const Member& member) {
  Assignment assignment;
  assignment.kind = Assignment::Kind::kRun;
  assignment.generation = generation_;
  server_->Send(member.connection, assignment);
}

void KeeperCrew::Send(NodeId node, const CheckpointOrder& order) {
  const auto member = members_.find(node);
  if (member != members_.end()) server_->Send(member->second.connection, order);
}

void KeeperCrew::On(const wire::AgentSaid& said) {
  if (const auto* registration = std::get_if<wire::Register>(&said.message)) {
    const std::optional<NodeId> node = NodeOf(registration->report.name);
    if (!node.has_value()) return server_->Close(said.connection, "it is not a host of this job");
    LogInfo("host_here", {{"node", *node}, {"address", registration->report.address}});
    Member& member = members_[*node];
    member = {said.connection, registration->report.generation.value()};
    if (generation_ > Generation()) SendBeginning(member);
    return listener_.changed();
  }
  for (auto& [node, member] : members_) {
    if (member.connection != said.connection) continue;
    if (const auto* report = std::get_if<CheckpointReport>(&said.message)) {
      return listener_.report(node, *report);
    }
    member.has_ranks = !std::holds_alternative<wire::Leaving>(said.message);
    return listener_.changed();
  }
}

void KeeperCrew::On(const wire::AgentDisconnected& gone) {
  for (const auto& [node, member] : members_) {
    if (member.connection != gone.connection) continue;
    LogWarning("host_gone", {{"node", node}, {"why", gone.why}});
    const NodeId lost = node;
    members_.erase(node);
    listener_.lost(lost);
    return listener_.changed();
  }
}

}  // namespace paceline::agent
