#pragma once

// A record as a row of `paceline events`. The running master and the commands that read an ended
// job's journal use the same code.

#include <map>
#include <string>

#include "paceline/core/record.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

// Node names by id, from earlier NodeJoined records.
class NodeNames {
 public:
  void Fold(const core::Record& record);
  // "node 7" if it never joined.
  std::string Of(NodeId node) const;

 private:
  std::map<NodeId, std::string> names_;
};

wire::JobEvent MakeJobEvent(const core::Record& record, const NodeNames& names);

}  // namespace paceline::master
