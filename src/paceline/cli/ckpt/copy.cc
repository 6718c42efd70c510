// `paceline ckpt copy`: a checkpoint from a directory or an object store into another.

#include <string>

#include "paceline/base/bytes_text.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/storage/copy_checkpoint.h"
#include "paceline/cli/ckpt/find.h"
#include "paceline/cli/console/exit_code.h"

namespace paceline::cli {

int CkptCopy(Invocation& invocation, const std::string& path, const std::string& target) {
  Output& out = invocation.out;
  const auto named = FindCheckpoint(invocation, path);
  if (!named.ok()) return out.Fail(named.problem());
  TellPassedOver(invocation, *named);
  const ckpt::Listed& one = named->listed;
  const auto to = OpenPlace(invocation, target);
  if (!to.ok()) return out.Fail(to.problem());
  const std::string where = Concat((*to)->root(), "/", one.name);
  const auto refuse = [&](const std::string& why) {
    return out.Fail({.code = "PL-E084",
                     .what = "the checkpoint cannot be copied",
                     .where = where,
                     .why = why,
                     .fix = Concat("paceline ckpt verify ", named->place(),
                                   " says whether it is whole; the other place needs room, and no "
                                   "other checkpoint of that name")});
  };
  if ((*to)->traits().has_paths && !MakeDirs((*to)->root(), 0700).ok()) {
    return refuse(Concat("cannot make ", (*to)->root()));
  }
  const auto there = ckpt::ReadManifest(to->get(), one.name);
  if (there.ok() && ckpt::ToText(*there) != ckpt::ToText(one.manifest)) {
    return refuse("another checkpoint of that name is there already");
  }
  const auto copied =
      ckpt::CopyCheckpoint(named->store.get(), to->get(), one.name, one.manifest, {});
  if (!copied.ok()) return refuse(copied.failure().message);
  if (out.is_json()) {
    nlohmann::ordered_json json = {{"schema", "paceline.ckpt_copy/1"},
                                   {"from", named->place()},
                                   {"to", where},
                                   {"bytes", copied->bytes},
                                   {"bytes_there", copied->bytes_there}};
    json["passed_over"] = nlohmann::ordered_json::array();
    for (const ckpt::PassedOver& passed : named->passed_over) {
      json["passed_over"].push_back({{"name", passed.name}, {"why", passed.why}});
    }
    out.DataLine(PrintJson(json));
    return kExitDone;
  }
  out.Say(Concat("copied ", BytesText(copied->bytes), " to ", where,
                 copied->bytes_there == 0
                     ? std::string()
                     : Concat("; ", BytesText(copied->bytes_there), " were there already")));
  return kExitDone;
}

}  // namespace paceline::cli
