#pragma once

// Session tokens of the job's page, for its reading routes.
//
// A session is "nonce.HMAC-SHA256(job's token, nonce)". So the next master of the job knows the
// sessions of the one before without storing them. A session reads the page and nothing else.

#include <string>
#include <string_view>

namespace paceline::wire {

std::string MakePageSession(std::string_view job_token);

// The time depends on the length of `given` only.
bool IsPageSession(std::string_view job_token, std::string_view given);

}  // namespace paceline::wire
