#pragma once

// Encodes and decodes a record's fact for the journal; docs/formats/journal.md. An unknown fact of
// a newer version is DATA_LOSS: skipping it would fold to another state.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "paceline/core/record.h"

namespace paceline::wire {

std::string EncodeFact(const core::Fact& fact);
absl::StatusOr<core::Fact> DecodeFact(std::string_view bytes);

}  // namespace paceline::wire
