#pragma once

// Inside of wire: whether both sides mean the same by "connect". gRPC cannot tell: a master with
// TLS that is asked without, and one without that is asked with it, both look like a connection
// that breaks at once, as a master does that is just starting, and gRPC tries again for as long as
// it may. So whoever fails to connect asks what the listener speaks.

#include <string>

#include "absl/status/status.h"
#include "paceline/base/instant.h"
#include "paceline/model/problem.h"

namespace paceline::wire {

enum class Speech { kUnknown, kPlain, kTls };

// Sends the ClientHello of a TLS handshake and looks at the first bytes that come back. A TLS
// server answers with a TLS record, a master without TLS with the SETTINGS frame by which every
// HTTP/2 server begins. Nobody there, silence and anything else are kUnknown. It carries no secret.
Speech SpeechOf(const std::string& address, Duration patience);

// FAILED_PRECONDITION with its Problem when the listener speaks the other one; OK otherwise, also
// when it cannot be told.
absl::Status CheckSpeech(const std::string& address, bool wants_tls, Duration patience);

// What is wrong with a listener that was asked for TLS.
Problem NoTlsThere(const std::string& address);

}  // namespace paceline::wire
