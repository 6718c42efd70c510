#pragma once

// Tests the link to another host: connects to its bulk channel, as for fetching images, and
// fetches a few chunks, one request each. A chunk that the kernel has buffered would look too fast,
// so the next one is requested when all bytes of the one before are here.

#include "paceline/base/instant.h"
#include "paceline/model/link_test.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::agent {

// For the connection and the proofs. The kernel sends its first packet again after a second.
inline constexpr Duration kLinkDialTime = Duration::Seconds(3);
// For the whole test. The master waits longer.
inline constexpr Duration kLinkTime = Duration::Seconds(6);
// After this time no further chunk is requested.
inline constexpr Duration kLinkEnough = Duration::Seconds(1);

// Blocks. `tls`: as BulkTls::Make made it of these credentials.
LinkTested ProbeLink(const LinkTry& order, const wire::Credentials& credentials,
                     const wire::BulkTls& tls);

}  // namespace paceline::agent
