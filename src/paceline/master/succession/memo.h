#pragma once

// A job's memo as text, which its platform keeps without reading it.

#include <optional>
#include <string>

#include "paceline/core/succession/memo.h"

namespace paceline::master {

// At most wire::kMemoBytesMax bytes of JSON; "" if the memo says nothing.
std::string MemoText(const core::Memo& memo);

// None: there is none, or it is not one.
std::optional<core::Memo> ReadMemo(const std::string& text);

}  // namespace paceline::master
