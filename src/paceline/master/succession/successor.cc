#include "paceline/master/succession/successor.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "paceline/base/log.h"
#include "paceline/wire/codec/journal_codec.h"

namespace paceline::master {
namespace {

// The connection of a registration event.
std::optional<ConnectionId> RegistrationOf(const MasterEvent& event) {
  const auto* server = std::get_if<wire::ServerEvent>(&event);
  const auto* said = server == nullptr ? nullptr : std::get_if<wire::AgentSaid>(server);
  const bool registers = said != nullptr && std::holds_alternative<wire::Register>(said->message);
  return registers ? std::optional(said->connection) : std::nullopt;
}

}  // namespace

uint64_t TermIn(const std::vector<core::Record>& records) {
  uint64_t term = 0;
  for (const core::Record& record : records) {
    const auto* took_over = std::get_if<core::MasterTookOver>(&record.fact);
    if (took_over != nullptr) term = std::max(term, took_over->term);
  }
  return term;
}

Successor::Successor(Instant now, Outbox* outbox, core::Succession::Setup setup, std::string job_id,
                     std::vector<core::Record> own)
    : outbox_(outbox),
      job_id_(std::move(job_id)),
      own_(std::move(own)),
      succession_(now, std::move(setup)) {}

bool Successor::Take(Instant now, const MasterEvent& event) {
  const auto* server = std::get_if<wire::ServerEvent>(&event);
  if (server == nullptr) return false;
  if (const auto* said = std::get_if<wire::AgentSaid>(server)) {
    if (TakeSaid(now, *said)) held_.push_back(event);
    return true;
  }
  if (const auto* gone = std::get_if<wire::AgentDisconnected>(server)) {
    Leave(now, gone->connection);
    return true;
  }
  const bool is_for_later = std::holds_alternative<wire::StopAsked>(*server) ||
                            std::holds_alternative<wire::ScaleAsked>(*server) ||
                            std::holds_alternative<wire::SupervisorSaid>(*server);
  if (is_for_later) held_.push_back(event);
  return is_for_later;
}

// Returns true if the event has to be held back.
bool Successor::TakeSaid(Instant now, const wire::AgentSaid& said) {
  if (const auto* registered = std::get_if<wire::Register>(&said.message)) {
    LogInfo("copy_offered", {{"node", registered->report.name},
                             {"term", registered->copy.term},
                             {"bytes", registered->copy.length}});
    succession_.Offered(now, said.connection, registered->report.name, registered->copy);
    return true;
  }
  const auto* piece = std::get_if<wire::JournalBytes>(&said.message);
  if (piece != nullptr && said.connection == fetching_ && piece->from == fetched_.size()) {
    fetched_ += piece->content;
    succession_.Fetched(now, said.connection, fetched_.size());
  }
  return false;
}

void Successor::Leave(Instant now, ConnectionId connection) {
  succession_.Left(now, connection);
  std::erase_if(held_, [connection](const MasterEvent& event) {
    return RegistrationOf(event) == connection;
  });
}

// Returns none if the copy is not of this job's journal, or does not continue the records on the
// disk.
std::optional<std::vector<core::Record>> Successor::Records() const {
  absl::StatusOr<std::vector<core::Record>> records = wire::DecodeCopy(fetched_);
  if (!records.ok() || records->empty()) {
    LogWarning("copy_damaged", {{"why", records.status()}, {"bytes", fetched_.size()}});
    return std::nullopt;
  }
  const auto* created = std::get_if<core::JobCreated>(&records->front().fact);
  const bool is_ours = created != nullptr && created->spec.job_id == job_id_;
  const bool continues = own_.empty() || (records->size() >= own_.size() &&
                                          (*records)[own_.size() - 1].at == own_.back().at);
  if (is_ours && continues) return *std::move(records);
  LogWarning("copy_of_another_journal", {{"records", records->size()}});
  return std::nullopt;
}

std::optional<Successor::Begun> Successor::Next(Instant now) {
  while (const std::optional<core::SuccessionAction> action = succession_.Next(now)) {
    if (const auto* fetch = std::get_if<core::FetchPiece>(&*action)) {
      if (fetch->from == 0) fetched_.clear();
      fetching_ = fetch->connection;
      outbox_->Send(fetching_, wire::JournalWanted{fetch->from});
      continue;
    }
    Begun begun{.history = std::get<core::BeginJob>(*action).history, .records = {}, .held = {}};
    if (begun.history == core::History::kCopy) {
      std::optional<std::vector<core::Record>> records = Records();
      if (!records.has_value()) {
        succession_.Damaged(now, fetching_);
        continue;
      }
      begun.records = *std::move(records);
    }
    begun.held = std::exchange(held_, {});
    return begun;
  }
  return std::nullopt;
}

}  // namespace paceline::master
