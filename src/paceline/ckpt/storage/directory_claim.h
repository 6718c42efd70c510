#pragma once

// The claim file in a directory of checkpoints: docs/formats/directory.md.
// core/checkpoint/claim_machine.h decides which job may have the claim.

#include <optional>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/store/store.h"
#include "paceline/model/directory_claim.h"

namespace paceline::ckpt {

inline constexpr char kClaimName[] = ".paceline-claim";

std::string ToText(const DirectoryClaim& claim);
// None: the text is no claim.
std::optional<DirectoryClaim> ParseClaim(const std::string& text);

// None: there is no claim, or the file holds something else.
Result<std::optional<DirectoryClaim>> ReadClaim(Store* store);
// Replaces the claim `over` by `claim`; `over` is none if there must be no claim. kFenced: the file
// holds another claim.
Result<void> WriteClaim(Store* store, const std::optional<DirectoryClaim>& over,
                        const DirectoryClaim& claim);
// Removes `claim` if it is the one in the file.
Result<void> RemoveClaim(Store* store, const DirectoryClaim& claim);
// The checkpoints of other jobs in the directory.
Result<std::vector<ForeignCheckpoint>> ForeignIn(Store* store, const std::string& job_id);
// Whether a job may write to the directory; true: its own claim is there. kFenced: another job has
// claimed it, or a master of this job with a higher term than `term` has. Without any claim the job
// compares the checkpoints of other jobs with those that it saw when it claimed (`known`). kFenced
// if there are new ones: another job was there since, or it is another directory.
Result<bool> CheckClaim(Store* store, const std::string& job_id, uint64_t term,
                        const std::optional<std::vector<ForeignCheckpoint>>& known);

}  // namespace paceline::ckpt
