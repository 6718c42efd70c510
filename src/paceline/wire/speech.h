#pragma once

// Internal to wire: detects that only one side uses TLS. gRPC cannot tell: to it a TLS mismatch
// looks like a connection that breaks at once, as with a starting master, and it retries until the
// timeout. So after a failed connect the client asks which protocol the listener speaks.

#include <string>

#include "absl/status/status.h"
#include "paceline/base/instant.h"
#include "paceline/model/problem.h"

namespace paceline::wire {

enum class Speech { kUnknown, kPlain, kTls };

// Sends a TLS ClientHello and reads the first bytes of the answer. A TLS server sends a TLS record;
// a master without TLS sends the SETTINGS frame with which every HTTP/2 server begins. No listener,
// silence and anything else are kUnknown. Sends no secret.
Speech SpeechOf(const std::string& address, Duration patience);

// FAILED_PRECONDITION with its Problem if the listener speaks the other protocol; else OK, also if
// unknown.
absl::Status CheckSpeech(const std::string& address, bool wants_tls, Duration patience);

// The problem of a listener that was asked for TLS and has none.
Problem NoTlsThere(const std::string& address);

}  // namespace paceline::wire
