#pragma once

#include <string>

namespace paceline::cli {

// The text of docs/guides/settings.md.
std::string SettingsMarkdown();

}  // namespace paceline::cli
