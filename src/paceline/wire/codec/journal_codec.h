#pragma once

// A record's fact as bytes of the journal and back; docs/formats/journal.md. Facts of a newer
// version that this one does not know are DATA_LOSS: to skip one would fold to another state.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "paceline/core/record.h"

namespace paceline::wire {

std::string EncodeFact(const core::Fact& fact);
absl::StatusOr<core::Fact> DecodeFact(std::string_view bytes);

}  // namespace paceline::wire
