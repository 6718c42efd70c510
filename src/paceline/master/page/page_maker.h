#pragma once

// What the job's page is made of. The command that runs the master gives it, because the page is a
// part of the commands, which the master may not use.

#include <functional>
#include <string>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

struct PageMaker {
  std::string shell = {};  // the page without data
  // The data as JSON, from the status and all durable records. Runs on a thread of its own. Not
  // set: the master serves no page.
  std::function<std::string(const wire::JobStatus&, const std::vector<core::Record>&)> data = {};
};

}  // namespace paceline::master
