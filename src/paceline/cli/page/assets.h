#pragma once

// The files of the folder web/, joined when paceline is built (cmake/web.cmake).

#include <string_view>

namespace paceline::cli {

struct PageAssets {
  std::string_view script;         // shows the data of its document
  std::string_view script_sha256;  // in hexadecimal digits
  std::string_view live_script;    // follows a running job
  std::string_view live_script_sha256;
  std::string_view style;
  std::string_view style_sha256;
};
PageAssets EmbeddedPage();

}  // namespace paceline::cli
