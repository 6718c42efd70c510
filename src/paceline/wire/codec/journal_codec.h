#pragma once

// Encodes and decodes a record's fact for the journal; docs/formats/journal.md. An unknown fact of
// a newer version is DATA_LOSS: skipping it would fold to another state.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/core/record.h"

namespace paceline::wire {

// A copy of the journal begins with these bytes; docs/formats/journal_copy.md.
inline constexpr std::string_view kCopyMagic = "PACELINE-COPY-1\n";

// Appends the record to a copy's content, with the magic before the first one.
void AppendCopied(const core::Record& record, std::string* content);
// The records of a copy, up to the first that is torn. DATA_LOSS: it is no copy, or a whole record
// of it is not one of this version.
absl::StatusOr<std::vector<core::Record>> DecodeCopy(std::string_view content);

std::string EncodeFact(const core::Fact& fact);
absl::StatusOr<core::Fact> DecodeFact(std::string_view bytes);

}  // namespace paceline::wire
