#pragma once

// The account of an incident as JSON, and what only the master's host knows of it.

#include <nlohmann/json.hpp>
#include <string>

#include "paceline/cli/show/account.h"
#include "paceline/cli/show/explain.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

// The traceback that the rank's bootstrap wrote, if the rank was on this host.
std::string TracebackOf(const std::string& run_dir, const wire::JobEvent& failure);

// docs/schemas/why.json
nlohmann::ordered_json WhyJson(const std::string& job, const Explanation& why,
                               const Account& account, const std::string& traceback);

}  // namespace paceline::cli
