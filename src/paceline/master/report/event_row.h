#pragma once

// A record as a row of `paceline events`. The running master and the commands that read an ended
// job's journal use the same code.

#include <map>
#include <string>

#include "paceline/core/record.h"
#include "paceline/core/world_count.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

// Names of nodes by id, and counts of worlds, from earlier records.
class NodeNames {
 public:
  void Fold(const core::Record& record);
  // "node 7" if it never joined.
  std::string Of(NodeId node) const;
  const core::WorldCount& worlds() const { return worlds_; }

 private:
  core::WorldCount worlds_;
  std::map<NodeId, std::string> names_;
};

wire::JobEvent MakeJobEvent(const core::Record& record, const NodeNames& names);

}  // namespace paceline::master
