#include "paceline/model/version.h"
#include "paceline/base/json.h"

#include <string>

#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"

namespace paceline::cli {
namespace {

std::string VersionText() {
  return std::to_string(kVersionMajor) + "." + std::to_string(kVersionMinor) + "." +
         std::to_string(kVersionPatch);
}

}  // namespace

int RunVersion(Invocation& invocation) {
  if (!invocation.out.is_json()) {
    invocation.out.DataLine("paceline " + VersionText());
    return kExitDone;
  }
  nlohmann::ordered_json json;
  json["schema"] = "paceline.version/1";
  json["version"] = VersionText();
  json["compiler"] = __VERSION__;
  invocation.out.DataLine(PrintJson(json));
  return kExitDone;
}

}  // namespace paceline::cli
