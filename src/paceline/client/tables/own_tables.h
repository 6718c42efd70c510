// Tables in this process, for a script without table servers. They end with the process.
#pragma once

#include <memory>

#include "paceline/client/tables/tables.h"

namespace paceline::client {

std::unique_ptr<Tables> MakeOwnTables();

}  // namespace paceline::client
