#pragma once

// Sends the journal to the nodes that keep copies of it. core/succession/journal_copies.h decides
// which nodes these are, and which bytes each gets next. This class keeps the bytes and sends them.
// It runs on the loop's thread, and only if a platform gives each master a term.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/core/succession/journal_copies.h"
#include "paceline/master/executor.h"

namespace paceline::master {

class CopyDesk {
 public:
  // In bytes; master and agents keep a copy in memory. The record with which a copy gets larger is
  // its last one, and the history of the next master ends there.
  static constexpr size_t kContentBytesMax = 64 << 20;
  // Largest piece of an answer to JournalWanted, which has to fit into one message.
  static constexpr uint64_t kPieceBytes = 128 << 10;

  explicit CopyDesk(Outbox* outbox) : outbox_(outbox), copies_("", kPieceBytes) {}

  // `own_host`: the master's host. Copies there would be lost together with the journal.
  void Enable(uint64_t term, const std::string& own_host);

  // Appends a record that was decided and is not durable yet. Call in the order of records.
  void Append(const std::vector<core::Record>& records);
  void SetDurable(RecordSeq last);
  void Admitted(NodeId node, ConnectionId connection, const std::string& name,
                const std::string& host);
  void Forget(ConnectionId connection);
  void Held(ConnectionId connection, uint64_t taken);

 private:
  void Send();

  Outbox* const outbox_;
  uint64_t term_ = 0;  // 0: nothing is copied
  core::JournalCopies copies_;
  std::string content_;
  std::vector<uint64_t> ends_;  // of each record, in content_
  uint64_t durable_ = 0;        // bytes
  bool is_full_ = false;
  std::map<ConnectionId, NodeId> node_of_;
  std::map<NodeId, ConnectionId> connection_of_;
};

}  // namespace paceline::master
