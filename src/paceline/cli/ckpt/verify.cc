// `paceline ckpt verify`: reads every byte of a checkpoint, or of all in a directory, and names
// each folder that has a checkpoint's name.

#include <chrono>
#include <string>
#include <vector>

#include "paceline/agent/memory/claim_desk.h"
#include "paceline/base/json.h"
#include "paceline/ckpt/storage/directory_claim.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/cli/ckpt/find.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

// Age after which a claim of another host counts as dead. Claims are renewed every 5 s.
constexpr int64_t kClaimSilenceNs = 30'000'000'000;

}  // namespace

bool HasLivingWriter(ckpt::Store* store) {
  const auto claim = ckpt::ReadClaim(store);
  if (!claim.ok() || !claim->has_value()) return false;
  const core::WriterLife life = agent::LifeOf(**claim);
  if (life != core::WriterLife::kNotSeen) return life == core::WriterLife::kLives;
  const auto entries = store->List("");
  if (!entries.ok()) return false;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t now_ns = std::chrono::nanoseconds(now).count();
  for (const ckpt::StoreEntry& entry : *entries) {
    if (entry.name == ckpt::kClaimName) return now_ns - entry.changed_ns < kClaimSilenceNs;
  }
  return false;
}

namespace {

struct Verdict {
  std::string state;  // the word in --json
  std::string told;   // the sentence on the console
  std::vector<std::string> problems = {};
};

Verdict Judge(ckpt::Store* store, const ckpt::Folder& folder, bool is_being_written) {
  switch (folder.state) {
    case ckpt::FolderState::kWhole: break;
    case ckpt::FolderState::kDamaged: return {"damaged", "damaged", {folder.why}};
    case ckpt::FolderState::kNewer: return {"newer", "of a newer version", {folder.why}};
    case ckpt::FolderState::kUnfinished:
      if (is_being_written) return {"being written", "being written"};
      return {"unfinished", "unfinished: its job ended before the save was whole"};
  }
  std::vector<std::string> wrong = ckpt::VerifyCheckpoint(store, folder.name);
  if (wrong.empty()) return {"whole", "every byte is what was saved"};
  return {"damaged", "damaged", std::move(wrong)};
}

}  // namespace

int CkptVerify(Invocation& invocation, const std::string& path) {
  Output& out = invocation.out;
  const auto found = FindFolders(invocation, path);
  if (!found.ok()) return out.Fail(found.problem());
  ckpt::Store* const store = found->store.get();
  const bool has_writer = HasLivingWriter(store);
  nlohmann::ordered_json json = {{"schema", "paceline.ckpt_verify/1"}};
  json["checkpoints"] = nlohmann::ordered_json::array();
  bool is_damaged = false;
  bool is_newest = true;  // no complete checkpoint was seen yet: a folder that is being written is
                          // newer than all of them
  for (const ckpt::Folder& folder : found->folders) {
    const Verdict verdict = Judge(store, folder, has_writer && is_newest);
    is_newest = is_newest && folder.state != ckpt::FolderState::kWhole;
    is_damaged = is_damaged || !verdict.problems.empty();
    json["checkpoints"].push_back(
        {{"name", folder.name}, {"state", verdict.state}, {"problems", verdict.problems}});
    if (out.is_json()) continue;
    out.DataLine(folder.name + ": " + verdict.told);
    for (const std::string& text : verdict.problems) out.DataLine("  " + Visible(text));
  }
  if (out.is_json()) out.DataLine(PrintJson(json));
  return is_damaged ? kExitFindings : kExitDone;
}

}  // namespace paceline::cli
