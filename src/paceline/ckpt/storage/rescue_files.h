#pragma once

// The files by which `paceline ckpt rescue` and the agents of a job without a master speak in the
// directory of the checkpoints: docs/formats/rescue.md. core/checkpoint/rescue.h decides.

#include <optional>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/store/store.h"
#include "paceline/model/rescue.h"

namespace paceline::ckpt {

std::string ToText(const RescueCall& call);
std::string ToText(const RescueAnswer& answer);
// None: the text is no call, or no answer.
std::optional<RescueCall> ParseRescueCall(const std::string& text);
std::optional<RescueAnswer> ParseRescueAnswer(const std::string& text);

// None: there is no call.
Result<std::optional<RescueCall>> ReadRescueCall(Store* store);
Result<void> PutRescueCall(Store* store, const RescueCall& call);

// The answers to that call, ordered by node.
Result<std::vector<RescueAnswer>> ReadRescueAnswers(Store* store, const RescueCall& call);
Result<void> PutRescueAnswer(Store* store, const RescueAnswer& answer);
// Removes answers to earlier calls as well. Failures are ignored: answers to other calls do not
// count.
void RemoveRescueAnswers(Store* store);

}  // namespace paceline::ckpt
