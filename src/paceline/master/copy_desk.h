#pragma once

// Sends the journal to the nodes that keep copies of it. Which ones, and what each is sent next, is
// decided by core/succession/journal_copies.h; this keeps the bytes, and moves them. It runs on the
// loop's thread, and only where a platform gives terms.

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
  // A copy in an agent's memory, and in that of the master: a journal beyond that is copied no
  // further, and the next master's history ends there.
  static constexpr size_t kContentBytesMax = 64 << 20;
  // An agent's answer to JournalWanted is a message, too.
  static constexpr uint64_t kPieceBytes = 128 << 10;

  explicit CopyDesk(Outbox* outbox) : outbox_(outbox), copies_("", kPieceBytes) {}

  // `own_host`: where copies would be lost together with the journal.
  void Enable(uint64_t term, const std::string& own_host);

  // Decided, and not durable yet. Records come in order.
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
