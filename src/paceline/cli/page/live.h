#pragma once

// The page of a running job, for its master to serve.

#include <string>

#include "paceline/master/page/page_maker.h"

namespace paceline::cli {

// `run_dir` is the job's, on this host.
master::PageMaker LivePage(const std::string& run_dir);

}  // namespace paceline::cli
