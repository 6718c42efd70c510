#pragma once

// The claim in a directory of checkpoints: docs/formats/directory.md. Who may have it is decided by
// core/claim_machine.h.

#include <optional>
#include <string>

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
// kFenced: another job has claimed the directory; this one may write nothing there. kBusy: nobody
// has, although this job had (`has_claimed`): that is looked into before anything is written.
Result<void> CheckClaim(Store* store, const std::string& job_id, bool has_claimed);

}  // namespace paceline::ckpt
