#pragma once

// The claim in a directory of checkpoints: docs/formats/directory.md. Who may have it is decided by
// core/checkpoint/claim_machine.h.

#include <optional>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/store/store.h"
#include "paceline/model/directory_claim.h"

namespace paceline::ckpt {

inline constexpr char kClaimName[] = ".paceline-claim";

std::string ToText(const DirectoryClaim& claim);
// None: that is no claim.
std::optional<DirectoryClaim> ParseClaim(const std::string& text);

// None: nobody has claimed the directory, or what stands there is no claim.
Result<std::optional<DirectoryClaim>> ReadClaim(Store* store);
// Puts `claim` in the place of `over`; none: where there is no claim.
// kFenced: something else stands there.
Result<void> WriteClaim(Store* store, const std::optional<DirectoryClaim>& over,
                        const DirectoryClaim& claim);
// If it stands there.
Result<void> RemoveClaim(Store* store, const DirectoryClaim& claim);
// What other jobs have there.
Result<std::vector<ForeignCheckpoint>> ForeignIn(Store* store, const std::string& job_id);
// Whether a job may write there; true: its own claim stands there. kFenced: another job has claimed
// the directory. Without any claim a job that had claimed it looks at what others have there:
// kFenced if that is more than it was then (`known`), because another job has been there since, or
// the directory is another one.
Result<bool> CheckClaim(Store* store, const std::string& job_id,
                        const std::optional<std::vector<ForeignCheckpoint>>& known);

}  // namespace paceline::ckpt
