#pragma once

// paceline's own flags of `paceline run`; flags/torchrun_flags.h has those of torchrun.

#include "paceline/cli/flags/flag.h"

namespace paceline::cli {

FlagTable RunFlags();

}  // namespace paceline::cli
