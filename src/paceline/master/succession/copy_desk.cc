#include "paceline/master/succession/copy_desk.h"

#include <algorithm>

#include "paceline/base/log.h"
#include "paceline/wire/codec/journal_codec.h"

namespace paceline::master {

void CopyDesk::Enable(uint64_t term, const std::string& own_host) {
  term_ = term;
  copies_ = core::JournalCopies(own_host, kPieceBytes);
}

void CopyDesk::Append(const std::vector<core::Record>& records) {
  if (term_ == 0 || is_full_) return;
  for (const core::Record& record : records) {
    wire::AppendCopied(record, &content_);
    ends_.push_back(content_.size());
    if (content_.size() > kContentBytesMax) break;
  }
  if (content_.size() <= kContentBytesMax) return;
  is_full_ = true;
  LogWarning("journal_copies_end", {{"bytes", content_.size()}, {"records", ends_.size()}});
}

void CopyDesk::SetDurable(RecordSeq last) {
  if (term_ == 0 || ends_.empty()) return;
  const uint64_t count = std::min<uint64_t>(last.value(), ends_.size());
  durable_ = count == 0 ? 0 : ends_[count - 1];
  Send();
}

void CopyDesk::Admitted(NodeId node, ConnectionId connection, const std::string& name,
                        const std::string& host) {
  if (term_ == 0) return;
  if (const auto former = connection_of_.find(node); former != connection_of_.end()) {
    node_of_.erase(former->second);
  }
  connection_of_[node] = connection;
  node_of_[connection] = node;
  copies_.Came(node, name, host);
  Send();
}

void CopyDesk::Forget(ConnectionId connection) {
  const auto found = node_of_.find(connection);
  if (found == node_of_.end()) return;
  copies_.Went(found->second);
  connection_of_.erase(found->second);
  node_of_.erase(found);
  Send();
}

void CopyDesk::Held(ConnectionId connection, uint64_t taken) {
  const auto found = node_of_.find(connection);
  if (found == node_of_.end()) return;
  copies_.Held(found->second, taken);
  Send();
}

void CopyDesk::Send() {
  if (durable_ == 0) return;
  for (const core::JournalCopies::Send& send : copies_.Next(durable_)) {
    outbox_->Send(connection_of_.at(send.node),
                  wire::JournalBytes{.term = term_,
                                     .from = send.from,
                                     .content = content_.substr(send.from, send.size),
                                     .is_whole = send.is_whole,
                                     .keepers = copies_.keepers()});
  }
}

}  // namespace paceline::master
