#pragma once

// The page as one HTML file.

#include <string>
#include <string_view>

namespace paceline::cli {

// Holds its data and asks no server for anything. `json` is the data. Neither it nor `title` needs
// to be harmless.
std::string PageDocument(std::string_view title, std::string_view json);

// Has no data, and asks the server that it comes from.
std::string LiveDocument();

}  // namespace paceline::cli
