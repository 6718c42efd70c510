#pragma once

// A record as people and scripts see it; the same for the running master and for commands that read
// the journal of a job that has ended.

#include <map>
#include <string>

#include "paceline/core/record.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

// Names of nodes by id, folded from the NodeJoined records before.
class NodeNames {
 public:
  void Fold(const core::Record& record);
  // "node 7" when it never joined.
  std::string Of(NodeId node) const;

 private:
  std::map<NodeId, std::string> names_;
};

wire::JobEvent MakeJobEvent(const core::Record& record, const NodeNames& names);

}  // namespace paceline::master
