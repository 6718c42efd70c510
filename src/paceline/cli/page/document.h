#pragma once

// One HTML file that holds the page and its data, and asks no server for anything.

#include <string>
#include <string_view>

namespace paceline::cli {

// `json` is the data. Neither it nor `title` needs to be harmless.
std::string PageDocument(std::string_view title, std::string_view json);

}  // namespace paceline::cli
